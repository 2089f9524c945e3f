#include "client/async/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora {

absl::Status AsyncConnection::Open() {
  REMORA_RETURN_IF_ERROR(waker_.Open());
  return waker_.Watch(session_->endpoint().connection().wait_fd());
}

absl::Status AsyncConnection::Watch() {
  REMORA_RETURN_IF_ERROR(waker_.Watch(session_->endpoint().connection().wait_fd()));
  if (waker_.is_armed()) session_->endpoint().connection().Arm();
  return absl::OkStatus();
}

void AsyncConnection::Arm() {
  if (session_->is_forked()) return;
  waker_.Arm();
  if (broken_.ok()) session_->endpoint().connection().Arm();
}

void AsyncConnection::Disarm() {
  if (session_->is_forked()) return;
  if (broken_.ok()) session_->endpoint().connection().Disarm();
  waker_.Disarm();
}

absl::Status AsyncConnection::EndCause() const {
  const absl::Status& cause = session_->endpoint().connection().status();
  return cause.ok() ? absl::UnavailableError("connection lost: it ended, and its transport says no more")
                    : cause;
}

void AsyncConnection::Break(const absl::Status& cause) {
  broken_ = absl::UnavailableError(cause.message());
  session_->endpoint().Break(broken_).IgnoreError();
  waker_.Unwatch(session_->endpoint().connection().wait_fd());
  over_ = !session_->reconnects();
  if (over_) return;
  // The server would reject the next request for a lease at once, as it did this one.
  const Duration pause =
      std::exchange(pauses_, false) ? Connector::Pause(Connector::kRejectedPause) : Duration(0);
  next_attempt_ = session_->clock().Now() + pause;
  attempts_ = 0;
  trouble_ = absl::OkStatus();
}

void AsyncConnection::Close(absl::Status why) {
  broken_ = std::move(why);
  over_ = true;
}

absl::Status AsyncConnection::Overdue() const {
  if (broken_.ok())
    return absl::DeadlineExceededError("request: no answer in time; try again, or raise the timeout");
  return absl::UnavailableError(
      absl::StrCat(broken_.message(), "; and there is no other connection: ", trouble_.message()));
}

bool AsyncConnection::PrepareAttempt(TimePoint latest) {
  if (broken_.ok() || over_ || session_->clock().Now() < next_attempt_) return false;
  if (session_->clock().Now() >= latest) return false;  // no operation waits for it any more
  session_->calls().deadline().Restart();
  attempt_ends_ = latest;
  attempt_.status = absl::CancelledError("reconnect: the attempt was never made");
  return true;
}

bool AsyncConnection::TryAttempt(TimePoint latest) {
  if (aside_ || !PrepareAttempt(latest)) return false;
  Reconnect();
  return true;
}

bool AsyncConnection::BeginReconnect(TimePoint latest) {
  aside_ = true;
  if (session_->is_forked() || in_progress_ || !PrepareAttempt(latest)) return false;
  in_progress_ = true;
  counted_ = session_->counters();
  // An operation that ends meanwhile returns its caller's memory, so no device may still write to it.
  session_->endpoint().End();
  return true;
}

ClientMetrics AsyncConnection::Metrics() const {
  if (session_->statistics().recorder() != nullptr || !in_progress_) return session_->statistics().Metrics();
  ClientMetrics metrics;
  metrics.Set(counted_);
  return metrics;
}

AsyncConnection::Outcome AsyncConnection::TakeAttempt() {
  if (attempt_.status.ok()) {
    broken_ = absl::OkStatus();
    return Outcome::kConnected;
  }
  if (attempt_.is_final && !absl::IsCancelled(attempt_.status)) return Outcome::kRejected;
  trouble_ = std::move(attempt_.status);
  next_attempt_ = session_->clock().Now() + Connector::Pause(attempts_++);
  return Outcome::kLater;
}

}  // namespace remora
