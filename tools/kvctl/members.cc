// cluster members, cluster switch: the configuration of a shard in etcd, and the members that it names.
#include <sysexits.h>

#include <algorithm>
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
#include "server/cluster/shard_configuration.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/report.h"
#include "tools/kvctl/members/shard.h"

namespace remora::kvctl {
namespace {

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
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const absl::StatusOr<ShardConfiguration> now = shard->Read();
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
  absl::StatusOr<ShardInEtcd> shard = ShardInEtcd::Open(arguments, clock);
  if (!shard.ok()) return FailureOf(shard.status());
  const absl::StatusOr<ShardConfiguration> configuration = shard->Read();
  if (!configuration.ok()) return FailureOf(configuration.status());
  const std::vector<Replica>& replicas = configuration->replicas;
  std::vector<std::size_t> order(replicas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The primary first: a member lacks all of its writes until then that it does not have now.
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return replicas[i].id == configuration->primary; });
  std::vector<MemberAnswer> answers(replicas.size());
  for (const std::size_t i : order) answers[i] = Ask(replicas[i], arguments, clock);
  const MembersReport report(arguments.shard, *configuration, std::move(answers));
  const Outcome written = WriteOutput(arguments.json ? report.ToJson() : report.ToText());
  return Failed(written) ? written : report.Verdict();
}

}  // namespace remora::kvctl
