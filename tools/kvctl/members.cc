// cluster members, cluster switch: the configuration of a shard in etcd, and the members that it names.
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "server/cluster/config_store.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/etcd_flags.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/shard_identity.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/report.h"

namespace remora::kvctl {
namespace {

/// NotFound: etcd has no configuration of the shard. Others as of ReadEtcdFiles, ConfigStore::Read and
/// DecodeConfiguration.
absl::StatusOr<ShardConfiguration> ReadConfiguration(const Arguments& arguments) {
  EtcdFlags etcd = arguments.etcd;
  REMORA_RETURN_IF_ERROR(ReadEtcdFiles(&etcd));
  etcd.store.timeout = std::chrono::milliseconds(arguments.timeout_ms);
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ConfigStore> store,
                          ConfigStore::Create(std::move(etcd.store)));
  const std::string key = ShardKey(arguments.shard);
  REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value value, store->Read(key));
  if (value.revision != 0) return DecodeConfiguration(value.text);
  return absl::NotFoundError(
      absl::StrCat("etcd: there is no configuration at ", key, "; compare --shard with that of the members"));
}

Outcome FailureOf(const absl::Status& status) {
  Outcome outcome = FromStatus(status);
  if (absl::IsNotFound(status)) outcome.exit_code = EX_NOINPUT;
  if (absl::IsDataLoss(status)) outcome.exit_code = EX_DATAERR;
  return outcome;
}

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const Replica& member, const Arguments& arguments,
                                                  const Clock& clock) {
  Arguments one = arguments;
  one.server = member.address;
  one.expected_shard = IdentityIn(arguments.shard).value();
  if (!member.address.starts_with("tls://")) one.tls = {};
  return Connect(one, clock, /*reconnects=*/false);
}

absl::StatusOr<MemberAnswer> Ask(const Replica& member, const Arguments& arguments, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(member, arguments, clock));
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client->Stats());
  return AnswerIn(metrics);
}

/// Returns the member that is to be the primary. FailedPrecondition: there is none that may.
absl::StatusOr<Replica> ChooseMember(const ShardConfiguration& now, const std::string& to) {
  if (!to.empty() && to == now.primary) {
    return absl::FailedPreconditionError(absl::StrCat("cluster switch: ", to, " is the primary already"));
  }
  if (!to.empty() && now.AddressOf(to).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster switch: the shard has no member ", to, "; see `kvctl cluster members`"));
  }
  for (const Member& one : now.in_sync) {
    if (one.id == now.primary || (!to.empty() && one.id != to)) continue;
    return Replica{.id = one.id, .address = std::string(now.AddressOf(one.id))};
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "cluster switch: ", to.empty() ? std::string("no other member") : to,
      to.empty() ? " is in sync" : " is not in sync", "; wait until it is (kvctl cluster members)"));
}

}  // namespace

Outcome ClusterSwitch(const Arguments& arguments, const Clock& clock) {
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  const absl::StatusOr<ShardConfiguration> now = ReadConfiguration(arguments);
  if (!now.ok()) return FailureOf(now.status());
  const absl::StatusOr<Replica> to = ChooseMember(*now, arguments.to_member);
  if (!to.ok()) {
    Outcome outcome = FromStatus(to.status());
    if (absl::IsFailedPrecondition(to.status())) outcome.exit_code = kExitProblem;
    return outcome;
  }
  const absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(*to, arguments, clock);
  if (!client.ok()) return FromStatus(client.status());
  const absl::StatusOr<Promotion> promotion = (*client)->Promote();
  if (!promotion.ok()) {
    Outcome outcome = FromStatus(promotion.status());
    if (absl::IsFailedPrecondition(promotion.status())) outcome.exit_code = kExitProblem;
    return outcome;
  }
  return WriteOutput(absl::StrCat(to->id, " is the primary in place of ", now->primary, ", in epoch ",
                                  promotion->epoch, "\n"));
}

Outcome ClusterMembers(const Arguments& arguments, const Clock& clock) {
  // Before all else: it is wrong for each member alike.
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  const absl::StatusOr<ShardConfiguration> configuration = ReadConfiguration(arguments);
  if (!configuration.ok()) return FailureOf(configuration.status());
  const std::vector<Replica>& replicas = configuration->replicas;
  std::vector<std::size_t> order(replicas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The primary first: a member lacks all of its writes until then that it does not have now.
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return replicas[i].id == configuration->primary; });
  std::vector<MemberAnswer> answers(replicas.size());
  for (const std::size_t i : order) {
    absl::StatusOr<MemberAnswer> answer = Ask(replicas[i], arguments, clock);
    if (answer.ok()) {
      answers[i] = *std::move(answer);
    } else {
      answers[i].failure = FromStatus(answer.status());
    }
  }
  const MembersReport report(arguments.shard, *configuration, std::move(answers));
  const Outcome written = WriteOutput(arguments.json ? report.ToJson() : report.ToText());
  return Failed(written) ? written : report.Verdict();
}

}  // namespace remora::kvctl
