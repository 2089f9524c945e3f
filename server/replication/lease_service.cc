#include "server/replication/lease_service.h"

#include "store/format/memory/lease_line.h"

namespace remora {

LeaseService::LeaseService(std::uint64_t epoch, std::chrono::milliseconds lease, ServerStore& store,
                           ReplySender& replies, ReplicationSender& sender, std::span<std::byte> region)
    : store_(store), replies_(replies), sender_(sender), region_(region), rounds_(epoch, lease) {
  StoreLine();
}

void LeaseService::StoreLine() { StoreLeaseLine(rounds_.line(), store_.superblock().incarnation, region_); }

void LeaseService::Take(const PendingRequest& pending) { waiting_.push_back({pending, rounds_.Await()}); }

bool LeaseService::BeginRound() {
  if (is_held_ || !rounds_.Begin(store_.clock().Now())) return false;
  // Before a follower is asked, so that a reader of the line sees that the round has begun (Q2 of
  // store/format/memory/lease_line.h).
  StoreLine();
  sender_.Ask(rounds_.begun());
  return true;
}

bool LeaseService::Step() {
  bool busy = BeginRound();
  // The line shows the end of a round only after all followers have answered it (Q3).
  if (rounds_.End(sender_.answered())) {
    StoreLine();
    busy = true;
  }
  if (waiting_.empty()) return busy;
  Answer();
  if (sender_.is_rejected()) RejectAll();
  return BeginRound() || busy;
}

void LeaseService::Answer() {
  while (!waiting_.empty() && waiting_.front().round <= rounds_.done()) {
    const PendingRequest pending = waiting_.front().pending;
    waiting_.pop_front();  // first: the reply may end the session, which changes waiting_
    replies_.Answer(pending, absl::OkStatus());
  }
}

void LeaseService::RejectAll() {
  while (!waiting_.empty()) {
    const PendingRequest pending = waiting_.front().pending;
    waiting_.pop_front();
    replies_.Answer(pending,
                    absl::FailedPreconditionError("lease: a follower rejects this primary; see its log"));
  }
}

void LeaseService::Forget(ClientSession& session) {
  for (Waiting& one : waiting_) one.pending.Forget(session);
}

}  // namespace remora
