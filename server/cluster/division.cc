#include "server/cluster/division.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Returns the addresses of a shard's members as a client takes them. Empty: etcd has no configuration, or
/// one that this program cannot read.
std::string AddressesIn(const absl::StatusOr<ConfigStore::Value>& value) {
  if (!value.ok() || value->revision == 0) return "";
  const absl::StatusOr<ShardConfiguration> configuration = DecodeConfiguration(value->text);
  if (!configuration.ok()) return "";
  return absl::StrJoin(configuration->replicas, ",", [](std::string* out, const Replica& replica) {
    absl::StrAppend(out, replica.address);
  });
}

}  // namespace

std::string DivisionKey(std::uint64_t cluster) {
  return absl::StrCat("/remora/clusters/", ClusterText(cluster), "/slots");
}

absl::Status DivisionReader::Read(ConfigStore& store) {
  const std::string key = DivisionKey(self_.cluster);
  REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value value, store.Read(key));
  if (value.revision == 0) {
    return absl::NotFoundError(
        absl::StrCat("division: etcd has none at ", key, "; write it with `kvctl cluster publish`"));
  }
  absl::StatusOr<DivisionView> view = format_->Read(value.text, self_);
  if (!view.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the division at ", key, ": ", view.status().message()));
  }
  if (view->shards != view_.shards) addresses_.assign(view->shards.size(), "");
  view_ = *std::move(view);
  text_ = value.text;
  if (Compose().ok()) return absl::OkStatus();
  addresses_.assign(view_.shards.size(), "");  // two shards had the same one, when they were read
  return Compose();
}

void DivisionReader::ReadAddressesOfNext(ConfigStore& store) {
  next_ = (next_ + 1) % view_.shards.size();
  const ShardIdentity shard = IdentityOf(self_.cluster, view_.shards[next_]);
  std::string addresses = AddressesIn(store.Read(ShardKey(IdentityText(shard))));
  if (addresses.empty() || addresses == addresses_[next_]) return;
  std::string before = std::exchange(addresses_[next_], std::move(addresses));
  if (!Compose().ok()) addresses_[next_] = std::move(before);  // as it was: a client takes such addresses
}

std::map<std::string, std::string> DivisionReader::Addresses() const {
  std::map<std::string, std::string> addresses;
  for (std::size_t i = 0; i < view_.shards.size(); ++i) {
    addresses[view_.shards[i]] = addresses_[i].empty() ? view_.addresses[i] : addresses_[i];
  }
  return addresses;
}

absl::Status DivisionReader::Compose() {
  std::vector<std::string> addresses = addresses_;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty()) addresses[i] = view_.addresses[i];
  }
  REMORA_ASSIGN_OR_RETURN(std::string text, format_->WithAddresses(text_, addresses));
  if (topology_ == nullptr || *topology_ != text) {
    topology_ = std::make_shared<const std::string>(std::move(text));
  }
  return absl::OkStatus();
}

}  // namespace remora
