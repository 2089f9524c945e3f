// The wishes of an operator to a member: to take over from a primary that yields, or by force.
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/cluster/keeper.h"
#include "store/base/absl_view.h"
#include "store/format/types/version_time.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

std::string AnotherHere(std::string_view wish) {
  return absl::StrCat(AbslView(wish), ": another server answers at this member's address; see its log");
}

}  // namespace

absl::Status Keeper::AskToYield() {
  next_read_ = clock_.Now();
  if (!Read(true)) return absl::UnavailableError("switch: etcd does not answer; see the member's log");
  if (now_->primary == options_.member || !now_->IsInSync(self())) {
    return absl::FailedPreconditionError(
        "switch: this member is not in sync, and may lack writes; choose one that is (kvctl cluster "
        "members)");
  }
  if (now_->in_sync.size() <= now_->min_in_sync) {
    return absl::FailedPreconditionError(
        absl::StrCat("switch: without the primary, fewer than ", now_->min_in_sync,
                     " members would be in sync, and writes would wait; start another member first"));
  }
  // It answers once its leases are over, and the members have its last groups.
  return Call(now_->primary, kFollowYields, clock_.Now() + options_.lease_time + kYieldTime).status();
}

void Keeper::Switch() {
  // First, so that the primary holds no writes meanwhile.
  if (IsAnotherHere()) return RejectWish(AnotherHere("switch"));
  const absl::Status yields = AskToYield();
  if (yields.ok()) {
    TakeOverFrom(absl::StrCat("takes over from ", now_->primary, ", as an operator asked"));
    if (orders_.lead || pending_) return;
  }
  RejectWish(yields.ok() ? "switch: etcd did not take the change; the primary goes on; see the log"
                         : std::string(yields.message()));
}

void Keeper::RejectWish(std::string why) {
  orders_.wish_fault = std::move(why);
  Order();
  orders_.wish_fault.clear();
}

absl::Status Keeper::CheckForce(const MemberReport& report) {
  next_read_ = clock_.Now();
  if (!Read(true)) return absl::UnavailableError("force: etcd does not answer; see the member's log");
  for (const Replica& one : now_->replicas) {
    if (one.id == options_.member) continue;
    const absl::StatusOr<Position> position = Ask(one.id);
    if (!position.ok()) continue;
    if (position->is_primary && position->epoch >= now_->epoch) {
      return absl::FailedPreconditionError(
          absl::StrCat("force: member ", one.id, " leads in epoch ", position->epoch,
                       "; use `kvctl cluster switch`, or wait until it serves"));
    }
    if (std::pair(position->epoch, position->last) > std::pair(report.epoch, report.last)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "force: member ", one.id, " has more, up to group ", position->last, " of epoch ", position->epoch,
          ", and this one up to group ", report.last, " of epoch ", report.epoch, "; choose that one"));
    }
  }
  return absl::OkStatus();
}

// The wish stays until this member serves, or it is rejected. So a takeover that fails is tried again.
void Keeper::Force(const MemberReport& report) {
  if (const absl::Status may = CheckForce(report); !may.ok()) return RejectWish(std::string(may.message()));
  if (clock_.Now() - last_heard_ < options_.failover_after) return;
  if (IsAnotherHere()) return RejectWish(AnotherHere("force"));
  const std::string why = absl::StrCat("takes over from ", now_->primary, " by force");
  if (now_->MayTakeOver(self())) return TakeOverFrom(why);
  orders_.min_epoch = now_->epoch + 1;  // K7, as in TakeOverFrom
  const std::optional<MemberReport> sealed = Order();
  if (!sealed) return;
  const absl::StatusOr<ShardConfiguration> next =
      ForceTakeOver(*now_, self(), sealed->last + 1, FirstVersionOf(clock_.UnixMillis() / 1000));
  if (!next.ok()) return RejectWish(std::string(next.status().message()));
  if (Swap(next, why)) BeginToLead(true);
}

}  // namespace remora
