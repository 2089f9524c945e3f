// Two servers with one ID: a member asks at its own address, and sees whether the question comes to itself
// (K18).
#include <string>

#include "absl/strings/str_cat.h"
#include "server/cluster/keeper.h"
#include "server/monitoring/log_events.h"
#include "store/base/random_id.h"
#include "store/format/wire/replication_messages.h"

namespace remora {

bool Keeper::IsAnotherHere() {
  // Twice: the other server may ask there at the same moment.
  for (int tries = 0; tries < 2; ++tries) {
    const std::uint64_t number = RandomId();
    const absl::StatusOr<Reply> reply =
        Call(options_.member, kFollowAsks, clock_.Now() + options_.failover_after / 4, number);
    connections_.erase(options_.member);
    if (!reply.ok()) return false;  // nobody that answers a member
    const std::optional<MemberReport> report = Order();
    if (!report || report->asked == number) return false;
  }
  Say(LogEvent::kClusterFailed,
      absl::StrCat("another server answers at the address of member ", options_.member, ", ",
                   std::string(now_->AddressOf(options_.member)),
                   ": this one does nothing; stop one of two servers with --member=", options_.member,
                   ", or correct the address (kvctl cluster members)"));
  return true;
}

}  // namespace remora
