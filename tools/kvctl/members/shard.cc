#include "tools/kvctl/members/shard.h"

#include <sysexits.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/cluster/keeper.h"
#include "server/main/etcd_flags.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/shard_identity.h"

namespace remora::kvctl {
namespace {

constexpr std::chrono::milliseconds kPause{100};  // before etcd is asked again for an unknown outcome

absl::StatusOr<MemberAnswer> AnswerOf(const Replica& member, const Arguments& arguments, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(member, arguments, clock));
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client->Stats());
  return AnswerIn(metrics);
}

}  // namespace

absl::StatusOr<ShardInEtcd> ShardInEtcd::Open(const Arguments& arguments, const Clock& clock) {
  EtcdFlags etcd = arguments.etcd;
  REMORA_RETURN_IF_ERROR(ReadEtcdFiles(&etcd));
  const std::chrono::milliseconds timeout(arguments.timeout_ms);
  etcd.store.timeout = timeout;
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ConfigStore> store, ConfigStore::Create(std::move(etcd.store)));
  return ShardInEtcd(std::move(store), ShardKey(arguments.shard), clock, timeout);
}

absl::StatusOr<ShardConfiguration> ShardInEtcd::Read() {
  REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value value, store_->Read(key_));
  revision_ = value.revision;
  if (value.revision != 0) return DecodeConfiguration(value.text);
  return absl::NotFoundError(absl::StrCat("etcd: there is no configuration at ", key_,
                                          "; compare --shard with that of the members"));
}

absl::StatusOr<std::int64_t> ShardInEtcd::Swap(const std::string& text, TimePoint deadline,
                                               bool* was_unknown) {
  absl::StatusOr<std::int64_t> swapped = store_->Swap(key_, revision_, text);
  *was_unknown |= absl::IsUnknown(swapped.status());
  while (absl::IsUnknown(swapped.status()) && clock_.Now() < deadline) {
    std::this_thread::sleep_for(kPause);
    swapped = store_->Settle(key_, revision_, text);
  }
  if (!absl::IsUnknown(swapped.status())) return swapped;
  return absl::UnknownError(
      absl::StrCat("the change may have been done, or may still be done: ", swapped.status().message(),
                   "; see `kvctl cluster members`, and run the command again"));
}

absl::Status ShardInEtcd::Begin(ShardConfiguration configuration) {
  configuration.change = RandomId();
  bool was_unknown = false;
  absl::Status swapped =
      Swap(EncodeConfiguration(configuration), clock_.Now() + patience_, &was_unknown).status();
  if (!absl::IsAborted(swapped)) return swapped;
  return absl::FailedPreconditionError(
      "etcd: another configuration came first; see `kvctl cluster members`, and run the command again");
}

absl::StatusOr<ShardConfiguration> ShardInEtcd::Change(
    const Next& next, const std::function<bool(const ShardConfiguration& now)>& is_done) {
  const TimePoint deadline = clock_.Now() + patience_;
  bool was_unknown = false;
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const ShardConfiguration now, Read());
    // A swap of unknown outcome was done, and another change has come behind it.
    if (was_unknown && is_done(now)) return now;
    REMORA_ASSIGN_OR_RETURN(ShardConfiguration changed, next(now));
    changed.change = RandomId();
    const absl::StatusOr<std::int64_t> swapped = Swap(EncodeConfiguration(changed), deadline, &was_unknown);
    if (swapped.ok()) return changed;
    if (!absl::IsAborted(swapped.status())) return swapped.status();
    if (clock_.Now() >= deadline) {
      return absl::UnavailableError(
          "etcd: the configuration changes all the time, and nothing was done; see the members' logs");
    }
  }
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

MemberAnswer Ask(const Replica& member, const Arguments& arguments, const Clock& clock) {
  absl::StatusOr<MemberAnswer> answer = AnswerOf(member, arguments, clock);
  if (!answer.ok()) return {.failure = FromStatus(answer.status())};
  return *std::move(answer);
}

}  // namespace remora::kvctl
