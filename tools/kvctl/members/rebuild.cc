// cluster rebuild: a shard's configuration anew, from what its members say, after etcd has lost its data.
#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "rdma/address.h"
#include "server/cluster/shard_configuration.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/latest.h"
#include "tools/kvctl/members/report.h"
#include "tools/kvctl/members/shard.h"

namespace remora::kvctl {
namespace {

/// Returns the members of --initial_member, in a configuration of a shard that has not begun.
absl::StatusOr<ShardConfiguration> NamedMembers(const Arguments& arguments) {
  std::vector<Replica> replicas;
  for (const std::string& text : arguments.initial_members) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster rebuild: --initial_member=", text, ": is not ID=ADDRESS; correct it"));
    }
    REMORA_RETURN_IF_ERROR(rdma::ParseAddress(text.substr(sign + 1)).status());
    replicas.push_back({.id = text.substr(0, sign), .address = text.substr(sign + 1)});
  }
  const auto half = static_cast<std::uint32_t>(replicas.size() / 2 + 1);
  const std::uint32_t usual = replicas.size() == 2 ? 1 : half;
  absl::StatusOr<ShardConfiguration> named =
      FirstConfiguration(std::move(replicas), arguments.min_in_sync != 0 ? arguments.min_in_sync : usual);
  if (named.ok()) return named;
  return absl::InvalidArgumentError(
      absl::StrCat("cluster rebuild: --initial_member, --min_in_sync: ", named.status().message()));
}

/// Returns success if this member may be one of those from which a shard is rebuilt.
Outcome CheckMember(const MemberLine& member) {
  const std::string name = absl::StrCat("cluster rebuild: member ", member.id, " (", member.address, ") ");
  switch (member.answer.state) {
    case MemberState::kFollows:
      return {};
    case MemberState::kNoAnswer:
      return {member.answer.failure.exit_code,
              absl::StrCat(
                  name, "does not answer: ", member.answer.failure.error,
                  "; start it, or leave it out if it is lost for good, with all writes that it alone has")};
    case MemberState::kLoads:
      return {kExitProblem, absl::StrCat(name, "loads its data; wait, and run the command again")};
    case MemberState::kIsAlone:
      return {kExitProblem,
              absl::StrCat(name, "is no member of a shard; start it with --etcd, --shard and --member")};
    case MemberState::kServes:
    case MemberState::kOpens:
      break;
  }
  return {kExitProblem,
          absl::StrCat(name, "leads in epoch ", member.answer.epoch,
                       ", and goes on without etcd; stop it, start it again, and then run the command")};
}

/// Returns the configuration that names the chosen member. Nobody may take over by it: the lives of the
/// members are lost with etcd, and force does not ask for one.
ShardConfiguration RebuiltOf(ShardConfiguration named, const MemberLine& chosen, std::uint64_t epoch) {
  named.epoch = epoch;
  named.primary = chosen.id;
  named.in_sync = {{.id = chosen.id, .life = RandomId()}};
  named.lineage = {{.epoch = epoch, .first = 1}};
  return named;
}

std::string PlanOf(const MembersReport& report, const MemberLine& chosen) {
  std::string text = report.ToText();
  absl::StrAppend(&text, "the primary is to be ", chosen.id, ", with writes up to version ",
                  chosen.answer.last_version, " of epoch ", chosen.answer.epoch, "\n",
                  "lost: acknowledged writes that ", chosen.id,
                  " does not have: none if all members of the shard are here, and no machine has lost its "
                  "power since\n");
  return text;
}

Outcome ProblemOf(const absl::Status& status) {
  Outcome outcome = FailureOf(status);
  if (absl::IsFailedPrecondition(status)) outcome.exit_code = kExitProblem;
  return outcome;
}

}  // namespace

Outcome ClusterRebuild(const Arguments& arguments, const Clock& clock) {
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  const absl::StatusOr<ShardConfiguration> named = NamedMembers(arguments);
  if (!named.ok()) return FromStatus(named.status());
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const absl::StatusOr<ShardConfiguration> now = shard->Read();
  if (now.ok() && now->epoch != 0) {
    return {kExitProblem,
            absl::StrCat("cluster rebuild: etcd has a configuration of epoch ", now->epoch,
                         ", so there is nothing to rebuild; see `kvctl cluster members`, and if "
                         "nobody can take over, `kvctl cluster force`")};
  }
  if (!now.ok() && !absl::IsNotFound(now.status())) return FailureOf(now.status());
  std::vector<MemberAnswer> answers;
  for (const Replica& one : named->replicas) answers.push_back(Ask(one, arguments, clock));
  const MembersReport report(arguments.shard, *named, std::move(answers));
  for (const MemberLine& one : report.members()) {
    if (Outcome may = CheckMember(one); Failed(may)) return may;
  }
  const absl::StatusOr<const MemberLine*> chosen = ChooseLatest(report.members(), arguments.member);
  if (!chosen.ok()) return ProblemOf(chosen.status());
  const MemberLine& primary = **chosen;
  if (const Outcome written = WriteOutput(PlanOf(report, primary)); Failed(written)) return written;
  if (!arguments.accept_lost_writes) {
    return {
        EX_USAGE,
        "cluster rebuild: nothing was done; if the above is right, and no other member of the shard runs, "
        "nor will again with its data, add --accept_lost_writes"};
  }
  std::uint64_t epoch = 0;
  for (const MemberLine& one : report.members()) epoch = std::max(epoch, one.answer.epoch);
  const absl::Status begun = shard->Begin(RebuiltOf(*named, primary, epoch));
  if (!begun.ok()) return ProblemOf(begun);
  const Replica to{.id = primary.id, .address = primary.address};
  const absl::StatusOr<std::unique_ptr<Client>> client = ConnectTo(to, arguments, clock);
  const absl::StatusOr<Promotion> promotion =
      client.ok() ? (*client)->Promote(PromotionKind::kByForce) : client.status();
  if (promotion.ok()) {
    return WriteOutput(absl::StrCat("the shard is rebuilt: ", to.id, " is the primary, in epoch ",
                                    promotion->epoch, "; the others join by themselves\n"));
  }
  Outcome outcome = ProblemOf(promotion.status());
  absl::StrAppend(&outcome.error,
                  "; etcd has the members, and nobody leads: go on with `kvctl cluster force`");
  return outcome;
}

}  // namespace remora::kvctl
