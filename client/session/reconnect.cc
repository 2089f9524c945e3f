// Recovery of a client whose connection breaks. It makes another connection under the same client ID, and
// forgets all knowledge of the server. Then it asks for the outcome of the write whose answer it lost
// (server/connection/client_table.h explains why the answer is right).
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/address_choice.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Pauses between attempts. Each is twice the one before, and shortened at random by up to a half, so that the
// clients of a restarted server do not all come at once.
constexpr std::chrono::milliseconds kFirstPause{4};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr int kMaxDoublings = 8;
// Time limit of an attempt that gets no answer; the next one gets four times as long. The request for a
// connection, or its answer, may be lost, and librdmacm sends it again only after 4 s. But a server may also
// be slow.
constexpr std::chrono::milliseconds kFirstAttempt{1000};
constexpr int kMaxQuadruplings = 6;

/// Returns whether another attempt may succeed.
bool MayPass(const absl::Status& status, RejectionReason rejection) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return false;
    case absl::StatusCode::kFailedPrecondition:
      return rejection == RejectionReason::kFull || rejection == RejectionReason::kStopping ||
             rejection == RejectionReason::kForgotten;
    default:
      return true;
  }
}

}  // namespace

absl::Status Session::Reconnect(const absl::Status& cause, TimePoint deadline) {
  if (absl::IsCancelled(cause)) return cause;          // the call must not wait any more
  if (endpoint_.status().ok()) endpoint_.Fail(cause);  // until an attempt succeeds
  for (int attempt = 0; clock_.Now() < deadline; ++attempt) {
    const Attempt made = TryToReconnect(deadline);
    if (made.status.ok()) {
      if (!made.was_forgotten || calls_.unacknowledged_write() == 0) return absl::OkStatus();
      calls_.AbandonWrite();
      return absl::UnknownError(AbslView(kForgotten));
    }
    if (made.is_final) return made.status;
    const Duration pause = Pause(attempt);
    if (clock_.Now() + pause >= deadline) {
      return absl::UnavailableError(
          absl::StrCat(cause.message(), "; and there is no other connection: ", made.status.message()));
    }
    clock_.Sleep(pause);
    if (clock_.IsInterrupted()) return absl::CancelledError(kInterrupted);
  }
  return cause;
}

Session::Attempt Session::TryToReconnect(TimePoint deadline) {
  if (is_forked()) return {absl::FailedPreconditionError(kUsedAfterFork), true};
  const ClientCounters before = counters();
  for (;;) {
    absl::Status opened = OpenAnother(NextAttemptEnds(deadline));
    counters() = before;
    if (opened.ok()) {
      ++counters().reconnects;
      unanswered_attempts_ = 0;
      return {.status = {}, .is_final = false, .was_forgotten = std::exchange(identity_.forgotten, false)};
    }
    if (absl::IsDeadlineExceeded(opened)) ++unanswered_attempts_;
    if (rejection_ != RejectionReason::kForgotten) PassOnAddress();  // another address may serve
    const bool is_final = !MayPass(opened, rejection_);
    if (is_final || rejection_ != RejectionReason::kForgotten) return {std::move(opened), is_final};
    identity_.forgotten = true;
    identity_.id = RandomId();
    identity_.returns = false;
    if (clock_.Now() >= deadline) return {std::move(opened), false};
  }
}

TimePoint Session::NextAttemptEnds(TimePoint deadline) {
  const Duration longest = kFirstAttempt * (1 << 2 * std::min(unanswered_attempts_, kMaxQuadruplings));
  return std::min(deadline, clock_.Now() + std::min<Duration>(longest, options_.connect_timeout));
}

absl::Status Session::OpenFirst(std::unique_ptr<rdma::ClientConnection> connection) {
  const TimePoint deadline = clock_.Now() + options_.connect_timeout;
  if (dialer_ == nullptr) return Open(std::move(connection), deadline);
  absl::Status opened = Open(std::move(connection), NextAttemptEnds(deadline));
  while (absl::IsDeadlineExceeded(opened) && clock_.Now() < deadline) {
    ++unanswered_attempts_;
    opened = OpenAnother(NextAttemptEnds(deadline));
  }
  unanswered_attempts_ = 0;
  return opened;
}

absl::Status Session::OpenAnother(TimePoint deadline) {
  rejection_ = RejectionReason{};
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::ClientConnection> connection, dialer_(deadline));
  // The connection may still access the buffer, so it ends before the client reuses the buffer.
  endpoint_.End();
  ForgetServer();
  absl::Status reason = endpoint_.TakeReason();
  absl::Status opened = Open(std::move(connection), deadline);
  if (opened.ok()) opened = endpoint_.RegisterBuffers();
  if (!opened.ok()) endpoint_.Fail(std::move(reason));
  return opened;
}

void Session::WaitForDevice() {
  if (is_forked()) return;  // the connection belongs to the parent
  calls_.AwaitGathered();
  if (endpoint_.is_broken()) endpoint_.End();
}

void Session::ForgetServer() {
  server_.Forget();
  lease_.Forget();
  region_.Forget();
  cache_.Forget();
  channel_.Clear();
}

void Session::PassOnAddress() { PassOn(dialer_); }

Duration Session::Pause(int attempt) {
  const Duration longest =
      std::min<Duration>(kFirstPause * (1 << std::min(attempt, kMaxDoublings)), kLongestPause);
  const double share = static_cast<double>(RandomId() % 1024) / 2048;
  return longest - std::chrono::duration_cast<Duration>(longest * share);
}

}  // namespace remora
