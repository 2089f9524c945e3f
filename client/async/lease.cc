#include "client/async/lease.h"

#include "client/session/session.h"
#include "store/base/status_macros.h"
#include "store/format/wire/messages.h"

namespace remora {

bool AsyncLease::Delays(AsyncOperation& operation) {
  Session& session = connection_.session();
  if (session.lease().IsCovered()) return false;
  is_due_ = true;
  const TimePoint now = session.clock().Now();
  if (session.lease().Holds(now)) return false;
  operation.read_at = now;
  kept_.Push(operation);
  return true;
}

absl::StatusOr<bool> AsyncLease::Drive() {
  if (!is_due_ || !connection_.is_up()) return false;
  Session& session = connection_.session();
  const TimePoint now = session.clock().Now();
  LeaseHolder& lease = session.lease();
  if (lease.has_asked()) {
    if (now < lease.answer_due()) return false;
    connection_.PassOn();
    return LeaseError("no answer in time");
  }
  if (absl::Status looked = lease.LookIfMapped(now); !looked.ok()) {
    connection_.PassOn();
    return looked;
  }
  if (kept_.empty() && lease.IsCovered()) {
    is_due_ = false;
    return true;
  }
  if (!kept_.empty() && lease.Holds(kept_.front().read_at)) return true;
  REMORA_ASSIGN_OR_RETURN(const bool sent,
                          connection_.channel().SendBare(LeaseHolder::MakeRequest(), RequestChannel::kLease));
  if (sent) lease.Ask(now);
  return sent;
}

absl::Status AsyncLease::TakeAnswer(const ServerReply& answer) {
  if (absl::Status taken = connection_.session().lease().TakeAnswer(answer); !taken.ok()) {
    connection_.PassOn();
    return taken;
  }
  is_due_ = !kept_.empty();
  return absl::OkStatus();
}

AsyncOperation* AsyncLease::TakeConfirmed() {
  if (kept_.empty() || !connection_.is_up()) return nullptr;
  const bool holds = connection_.session().lease().Holds(kept_.front().read_at);
  return holds ? &kept_.Pop() : nullptr;
}

AsyncOperation* AsyncLease::TakeLostMessage() {
  AsyncOperation* lost = kept_.empty() ? nullptr : &kept_.front();
  while (lost != nullptr && lost->kind != AsyncOperation::Kind::kMessage) lost = lost->behind;
  if (lost != nullptr) OperationList::Leave(*lost);
  return lost;
}

TimePoint AsyncLease::next() const {
  if (!connection_.is_up()) return TimePoint::max();
  const LeaseHolder& lease = connection_.session().lease();
  return lease.has_asked() ? lease.answer_due() : TimePoint::max();
}

}  // namespace remora
