// cluster remove, cluster add, cluster force: changes of a shard whose members come, or are lost for good.
#include <sysexits.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "rdma/address.h"
#include "server/cluster/shard_configuration.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/report.h"
#include "tools/kvctl/members/shard.h"

namespace remora::kvctl {
namespace {

/// Returns the outcome of a change that is not allowed, or that etcd does not take.
Outcome FailureOfChange(const absl::Status& status) {
  Outcome outcome = FailureOf(status);
  if (absl::IsFailedPrecondition(status)) outcome.exit_code = kExitProblem;
  return outcome;
}

Outcome NoSuchMember(const Arguments& arguments) {
  return {EX_USAGE, absl::StrCat("cluster ", arguments.action, ": the shard has no member ", arguments.member,
                                 "; see `kvctl cluster members`")};
}

/// Returns the sizes of a configuration, as a part of a sentence.
std::string SizesOf(const ShardConfiguration& now) {
  return absl::StrCat("the shard has ", now.replicas.size(), " members, ", now.in_sync.size(),
                      " of them in sync, and min_in_sync is ", now.min_in_sync);
}

/// Returns success if the primary serves. Without one, the member that is to be removed may be needed.
Outcome CheckPrimaryServes(const ShardConfiguration& now, const Arguments& arguments, const Clock& clock) {
  if (now.epoch == 0) {
    return {EX_UNAVAILABLE, "cluster remove: the shard has not begun; start its members first"};
  }
  const std::string before = absl::StrCat("cluster remove: the primary ", now.primary, " (",
                                          std::string(now.AddressOf(now.primary)), "): ");
  constexpr char kWait[] = "; wait until a member serves (kvctl cluster members)";
  const Replica primary{.id = now.primary, .address = std::string(now.AddressOf(now.primary))};
  const MemberAnswer answer = Ask(primary, arguments, clock);
  if (answer.state == MemberState::kNoAnswer) {
    return {answer.failure.exit_code, absl::StrCat(before, answer.failure.error, kWait)};
  }
  if (answer.state == MemberState::kServes && answer.epoch >= now.epoch) return {};
  return {EX_UNAVAILABLE, absl::StrCat(before, "it does not serve", kWait)};
}

// --- force ----------------------------------------------------------------------------------------------

/// Returns the IDs, with commas between.
std::string NamesOf(const std::vector<Member>& members) {
  std::string names;
  for (const Member& one : members) absl::StrAppend(&names, names.empty() ? "" : ", ", one.id);
  return names;
}

/// Returns what may be lost if the member takes over by force.
std::string LossOf(const MembersReport& report, const ShardConfiguration& now, const MemberLine& chosen) {
  std::string text = report.ToText();
  absl::StrAppend(&text, "each acknowledged write is on: ", NamesOf(now.in_sync));
  if (!now.complete.empty()) absl::StrAppend(&text, "; and on: ", NamesOf(now.complete));
  const std::string& id = chosen.id;
  absl::StrAppend(&text, "\n", id, " has writes up to version ", chosen.answer.last_version,
                  ", and is in epoch ", chosen.answer.epoch, " of ", now.epoch, "\n");
  if (chosen.part != MemberPart::kOut) {
    absl::StrAppend(&text, id, " has each acknowledged write if its disk has lost nothing\n");
  } else {
    absl::StrAppend(&text, "lost: each acknowledged write that ", id, " does not have\n");
  }
  return text;
}

}  // namespace

Outcome ClusterRemove(const Arguments& arguments, const Clock& clock) {
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const absl::StatusOr<ShardConfiguration> now = shard->Read();
  if (!now.ok()) return FailureOf(now.status());
  const std::string& id = arguments.member;
  if (now->AddressOf(id).empty()) return NoSuchMember(arguments);
  const auto next = [&](const ShardConfiguration& of) {
    return RemoveReplica(of, id, arguments.min_in_sync);
  };
  if (const absl::Status may = next(*now).status(); !may.ok()) return FailureOfChange(may);
  if (const Outcome serves = CheckPrimaryServes(*now, arguments, clock); Failed(serves)) return serves;
  const absl::StatusOr<ShardConfiguration> changed =
      shard->Change(next, [&](const ShardConfiguration& of) { return of.AddressOf(id).empty(); });
  if (!changed.ok()) return FailureOfChange(changed.status());
  return WriteOutput(absl::StrCat(id, " is removed: ", SizesOf(*changed), "\n"));
}

Outcome ClusterAdd(const Arguments& arguments, const Clock& clock) {
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const Replica replica{.id = arguments.member, .address = arguments.address};
  const absl::StatusOr<ShardConfiguration> changed = shard->Change(
      [&](const ShardConfiguration& now) { return AddReplica(now, replica, arguments.min_in_sync); },
      [&](const ShardConfiguration& now) { return now.AddressOf(replica.id) == replica.address; });
  if (!changed.ok()) return FailureOfChange(changed.status());
  return WriteOutput(absl::StrCat(replica.id, " is added: ", SizesOf(*changed),
                                  "; once its server runs, it gets the data by itself\n"));
}

Outcome ClusterForce(const Arguments& arguments, const Clock& clock) {
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const absl::StatusOr<ShardConfiguration> now = shard->Read();
  if (!now.ok()) return FailureOf(now.status());
  if (now->AddressOf(arguments.member).empty()) return NoSuchMember(arguments);
  std::vector<MemberAnswer> answers;
  for (const Replica& one : now->replicas) answers.push_back(Ask(one, arguments, clock));
  const MembersReport report(arguments.shard, *now, std::move(answers));
  const MemberLine* chosen = nullptr;
  for (const MemberLine& one : report.members()) {
    const MemberState state = one.answer.state;
    if (state == MemberState::kServes || state == MemberState::kOpens) {
      return {kExitProblem,
              absl::StrCat("cluster force: member ", one.id, " leads in epoch ", one.answer.epoch,
                           ", so no force is needed; see "
                           "`kvctl cluster members`")};
    }
    if (one.id == arguments.member) chosen = &one;
  }
  if (chosen->answer.state == MemberState::kNoAnswer) {
    return {chosen->answer.failure.exit_code,
            absl::StrCat("cluster force: ", chosen->id, " (", chosen->address,
                         "): ", chosen->answer.failure.error)};
  }
  if (const Outcome written = WriteOutput(LossOf(report, *now, *chosen)); Failed(written)) return written;
  if (!arguments.accept_lost_writes) {
    return {EX_USAGE,
            "cluster force: acknowledged writes may be lost, as above; if no process of the other members "
            "runs, nor will again with its data, add --accept_lost_writes"};
  }
  const Replica to{.id = chosen->id, .address = chosen->address};
  const absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(to, arguments, clock);
  if (!client.ok()) return FromStatus(client.status());
  const absl::StatusOr<Promotion> promotion = (*client)->Promote(PromotionKind::kByForce);
  if (!promotion.ok()) return FailureOfChange(promotion.status());
  return WriteOutput(absl::StrCat(to.id, " is the primary by force, in epoch ", promotion->epoch, "\n"));
}

}  // namespace remora::kvctl
