#include "server/request/reserve_queue.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/request/request_decoder.h"

namespace remora {

void ReserveQueue::Add(const PendingRequest& pending) {
  // Releases the client's earlier reservation before it waits: other clients may be waiting for that space.
  const absl::Status given_back = large_writes_.Release(pending.session->connection());
  if (!given_back.ok()) return replies_.Answer(pending, given_back);
  const Turn asked{.pending = pending, .asked = store_.clock().Now()};
  const auto turn = std::find_if(turns_.begin(), turns_.end(),
                                 [&](const Turn& other) { return other.pending.session == pending.session; });
  if (turn == turns_.end()) {
    turns_.push_back(asked);
  } else if (!turn->is_asked) {
    *turn = asked;
  } else {
    replies_.Answer(pending, absl::InvalidArgumentError("protocol error: a reserve while another one waits"));
  }
}

bool ReserveQueue::AnswerDue() {
  if (turns_.empty() && large_writes_.empty()) return false;
  // One moment for both: a turn that ends at the moment at which a reservation does gets its space.
  const TimePoint now = store_.clock().Now();
  large_writes_.Expire(now);
  const std::size_t before = turns_.size();
  bool has_space = true;
  for (auto turn = turns_.begin(); turn != turns_.end();) {
    turn = TakeTurn(*turn, now, &has_space) ? turns_.erase(turn) : std::next(turn);
  }
  return turns_.size() < before;
}

bool ReserveQueue::TakeTurn(Turn& turn, TimePoint now, bool* has_space) {
  constexpr std::chrono::seconds kTurn{kTurnSeconds};
  const PendingRequest pending = turn.pending;
  if (pending.session == nullptr) return true;
  if (!turn.is_asked) return now >= turn.asked + 2 * kTurn;
  absl::StatusOr<Grant> grant = absl::AbortedError("reserve: another one waits before it");
  if (*has_space) grant = large_writes_.Reserve(*pending.session, pending.request, turn.asked);
  *has_space = !IsPostponed(grant.status());
  if (*has_space && !grant.ok()) {
    replies_.Answer(pending, grant.status());
    return true;
  }
  if (!*has_space && now < turn.asked + kTurn) return false;
  turn.is_asked = false;
  Reply reply;
  reply.request_id = pending.request.request_id;
  std::string_view behind =
      "other clients have reserved as much space for large values as they may; try again, or with a longer "
      "timeout";
  if (!grant.ok()) {
    reply.status = ReplyStatus::kAskAgain;
  } else {
    behind = {reinterpret_cast<const char*>(&*grant), grant->region.size > 0 ? sizeof(*grant) : 0};
  }
  replies_.Send(pending.session, reply, behind);
  return grant.ok();
}

void ReserveQueue::Forget(ClientSession& session) {
  for (Turn& turn : turns_) turn.pending.Forget(session);
}

}  // namespace remora
