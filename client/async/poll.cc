// Poll of an AsyncClient. Its stages: it sends messages and posts READs, takes completions, calls callbacks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "client/async/engine.h"
#include "client/session/fork_guard.h"

namespace remora {
namespace {

// Reads the clock after this many polls, in case that completions never cease.
constexpr std::uint32_t kPollsPerClock = 64;

// Most rounds of one Poll without an operation that ends. Lookups whose READs complete too late to be trusted
// begin anew in another round, perhaps again and again, so that a Poll always has work. Their deadlines end
// them, and Poll checks deadlines after the rounds.
constexpr int kMaxRounds = 64;

constexpr char kNothingEnded[] = "no operation ended in time";

}  // namespace

std::size_t AsyncClient::Core::Poll() {
  guard_.CheckNotInPoll(
      "a callback polls its own AsyncClient; return, and the call that is under way goes on");
  if (session().is_forked()) return 0;
  const PollGuard::Polling polling(guard_);
  // The bound returns to the caller even if callbacks begin one operation after the other.
  const std::size_t most = operations_.all().size();
  std::size_t ended = 0;
  bool busy = false;
  bool has_looked = false;
  if (connection_.is_up()) {
    // Without work in flight, only the connection's end can have come. Then the look is behind the posts:
    // over TCP it is a system call, and one that follows a post at once is left out.
    has_looked = has_work_in_flight();
    if (has_looked) busy = TakeCompletions();
  } else if (connection_.TryAttempt(operations_.LatestDeadline())) {
    TakeAttempt();
    busy = true;
  }
  int rounds = 0;
  do {
    busy |= Did(messages_.Send());
    busy |= Did(reads_.Post());
    if (connection_.is_up() && (!has_looked || has_work_in_flight())) busy |= TakeCompletions();
    has_looked = true;
    busy |= Did(operations_.lease().Drive());
    busy |= EndConfirmed();
    ended += Deliver(most - ended);
    has_more_ = ended == most || ++rounds == kMaxRounds;
    if (has_more_) {
      connection_.waker().Signal();  // for the work that is left
      break;
    }
  } while (std::exchange(busy, false));
  if (ended == 0 || ++polls_ % kPollsPerClock == 0) {
    const auto abort = [this](AsyncOperation& operation) {
      const bool waits_for_lease = connection_.is_up() && operations_.lease().HasKept(operation);
      Abort(operation, waits_for_lease ? LeaseError("no answer in time") : connection_.Overdue());
    };
    if (operations_.ForEachOverdue(abort)) ended += Deliver(most);
  }
  if (ended > 0) Did(messages_.Send());  // operations that the last callbacks have begun
  return ended;
}

bool AsyncClient::Core::Did(const absl::StatusOr<bool>& stage) {
  if (!stage.ok()) Break(stage.status());
  return stage.value_or(true);
}

bool AsyncClient::Core::TakeCompletions() {
  if (!connection_.is_up()) return false;
  const std::size_t count = session().endpoint().connection().Poll(completions_);
  for (std::size_t i = 0; i < count; ++i) {
    const absl::Status taken = Take(completions_[i]);
    if (taken.ok()) continue;
    Break(taken);
    break;
  }
  return count > 0;
}

absl::Status AsyncClient::Core::Take(const rdma::Completion& completion) {
  if (!completion.ok) return connection_.EndCause();
  switch (completion.kind) {
    case rdma::CompletionKind::kRead: {
      AsyncOperation& operation = operations_[completion.context];
      if (operation.kind == AsyncOperation::Kind::kMessage) {
        messages_.TakeFence(operation);
      } else {
        reads_.Take(operation);
      }
      return absl::OkStatus();
    }
    case rdma::CompletionKind::kSend: {
      const std::uint32_t memory = connection_.channel().TakeSend(completion);
      if (memory != RequestChannel::kNoOwner) operations_.EndIfMemoryIsFree(operations_[memory]);
      return absl::OkStatus();
    }
    case rdma::CompletionKind::kReceive:
      return messages_.TakeReply(completion);
    case rdma::CompletionKind::kDisconnected:
      return connection_.EndCause();
  }
  return absl::OkStatus();
}

// --- Sleeping -------------------------------------------------------------------------------------------

absl::StatusOr<std::size_t> AsyncClient::Core::Wait(TimePoint deadline) {
  const Clock& clock = session().clock();
  while (operations_.in_flight() > 0) {
    if (session().is_forked()) return absl::FailedPreconditionError(kUsedAfterFork);
    if (const std::size_t ended = Poll(); ended > 0) return ended;
    if (has_more_) {
      if (clock.Now() >= deadline) return absl::DeadlineExceededError(kNothingEnded);
      continue;
    }
    const TimePoint earliest = std::min(operations_.earliest_deadline(), operations_.lease().next());
    if (!connection_.is_up()) {
      const TimePoint now = clock.Now();
      if (now >= deadline) return absl::DeadlineExceededError(kNothingEnded);
      clock.Sleep(std::max(Duration(1), std::min({deadline, earliest, connection_.next_attempt()}) - now));
      continue;
    }
    rdma::ClientConnection& connection = session().endpoint().connection();
    const auto look = [this] { return TakeCompletions(); };
    if (spinner_.Spin(look, connection.PollingPays(), connection.PollCost())) continue;
    const absl::Status woken = session().endpoint().connection().Wait(std::min(deadline, earliest));
    if (const std::size_t ended = Poll(); ended > 0) return ended;
    if (woken.ok()) continue;
    if (absl::IsCancelled(woken)) return woken;
    if (!absl::IsDeadlineExceeded(woken)) {
      Break(woken);
    } else if (clock.Now() >= deadline) {
      return absl::DeadlineExceededError(kNothingEnded);
    }
  }
  return std::size_t{0};
}

std::optional<TimePoint> AsyncClient::Core::next_deadline() const {
  if (operations_.in_flight() == 0) return std::nullopt;
  const TimePoint earliest = std::min(operations_.earliest_deadline(), operations_.lease().next());
  const bool waits_for_attempt = !connection_.is_up() && !connection_.is_attempting();
  return waits_for_attempt ? std::min(earliest, connection_.next_attempt()) : earliest;
}

}  // namespace remora
