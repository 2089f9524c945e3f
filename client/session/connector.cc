#include "client/session/connector.h"

#include <algorithm>
#include <chrono>

#include "client/session/address_choice.h"
#include "client/session/retry_pause.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Pauses between attempts (RetryPause).
constexpr std::chrono::milliseconds kFirstPause{4};
constexpr std::chrono::milliseconds kLongestPause{1000};
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

Connector::Connector(Dialer dialer, std::string secret, const ClientOptions& options, const Clock& clock)
    : clock_(clock), dialer_(std::move(dialer)), options_(options), secret_(std::move(secret)) {
  if (reconnects()) identity_.id = RandomId();
}

void Connector::PassOn() { remora::PassOn(dialer_); }

absl::Status Connector::SetAddresses(std::string_view addresses) {
  REMORA_ASSIGN_OR_RETURN(const AddressChoice choice, AddressChoice::Of(addresses, options_, clock_));
  REMORA_ASSIGN_OR_RETURN(dialer_, choice.MakeDialer());
  return absl::OkStatus();
}

std::string Connector::address() const { return AddressOf(dialer_); }

absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Connector::Dial(TimePoint deadline) {
  rejection_ = RejectionReason{};
  return dialer_(deadline);
}

TimePoint Connector::NextAttemptEnds(TimePoint deadline) const {
  const Duration longest = kFirstAttempt * (1 << 2 * std::min(unanswered_attempts_, kMaxQuadruplings));
  return std::min(deadline, clock_.Now() + std::min<Duration>(longest, options_.connect_timeout));
}

Connector::Next Connector::After(const absl::Status& attempt) {
  if (attempt.ok()) {
    ForgetUnanswered();
    return Next::kUse;
  }
  if (absl::IsDeadlineExceeded(attempt)) CountUnanswered();
  const bool is_forgotten = rejection_ == RejectionReason::kForgotten;
  if (!is_forgotten) PassOn();  // another address may serve
  if (!MayPass(attempt, rejection_)) return Next::kGiveUp;
  if (!is_forgotten) return Next::kTryLater;
  identity_ = {.id = RandomId(), .returns = false, .forgotten = true};
  return Next::kTryAsNew;
}

Duration Connector::Pause(int attempt) { return RetryPause(kFirstPause, kLongestPause, attempt); }

}  // namespace remora
