// The lease of a session: looks at the server's lease line, and requests (client/session/read_lease.h).
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/address_choice.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/lease_line.h"

namespace remora {
namespace {

// A line is torn for some nanoseconds, 16 times a second.
constexpr int kMaxLineReads = 8;

constexpr std::string_view kAnotherLine = "its lease line is another one";

}  // namespace

absl::Status Session::TakeFirstLease() {
  lease_.Forget();
  if (!server_.has_lease() || options_.administers) return absl::OkStatus();
  const TimePoint before = clock_.Now();
  REMORA_ASSIGN_OR_RETURN(const std::optional<LeaseLine> line, ReadLeaseLine());
  if (line && lease_.Begin(*line, before)) return absl::OkStatus();
  return absl::UnavailableError("connect: the server's lease line is not that of a primary; try again");
}

absl::StatusOr<std::optional<LeaseLine>> Session::ReadLeaseLine() {
  const std::span<std::byte> bytes = buffers_.superblock().first(sizeof(LeaseLine));
  for (int reads = 0; reads < kMaxLineReads; ++reads) {
    REMORA_RETURN_IF_ERROR(calls_.Read(bytes, kLeaseLineOffset));
    LeaseLine line{};
    std::memcpy(&line, bytes.data(), sizeof(line));
    if (ReadLease::IsWhole(line, server_.hello().incarnation)) return line;
  }
  return std::nullopt;
}

absl::Status Session::Confirm() {
  if (!lease_.is_on()) return absl::OkStatus();
  const TimePoint ended = clock_.Now();
  // S2: nothing can be looked at, or asked, any more.
  if (endpoint_.is_broken())
    return lease_.Holds(ended) ? absl::OkStatus() : LeaseError("the connection ended");
  if (lease_.IsLookOfUse(ended)) REMORA_RETURN_IF_ERROR(LookAtLease(ended));
  return lease_.Holds(ended) ? absl::OkStatus() : AskForLease();
}

absl::Status Session::LookAtLease(TimePoint now) {
  REMORA_ASSIGN_OR_RETURN(const std::optional<LeaseLine> line, ReadLeaseLine());
  if (!line || lease_.Take(*line, now)) return absl::OkStatus();
  return EndLease(kAnotherLine);
}

absl::Status Session::AskForLease() {
  const TimePoint asked = clock_.Now();
  Request request;
  request.operation = Operation::kPing;
  request.condition = kAsksLease;
  // Another address may serve, so the call does not wait for this one until its end.
  const absl::StatusOr<ServerReply> answer = [&] {
    const CallDeadline::Limit limit(calls_.deadline(), asked + 2 * Duration(lease_.lease_time()));
    return calls_.CallBare(request);
  }();
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) return EndLease(StdView(answer.status().message()));
  if (answer->reply.status != ReplyStatus::kOk) {
    // The server answers at once: not so the next attempts of its clients.
    clock_.Sleep(std::min<Duration>(Pause(kRejectedPause),
                                    std::max(calls_.deadline().Get() - clock_.Now(), Duration(0))));
    return EndLease(answer->behind);
  }
  lease_.TakeAnswer(asked);
  return absl::OkStatus();
}

absl::Status Session::LookIfMapped(TimePoint now) {
  if (!lease_.is_on() || !region_.reads_now() || !lease_.IsLookOfUse(now)) return absl::OkStatus();
  LeaseLine line{};
  if (!region_.ReadNow(std::as_writable_bytes(std::span(&line, 1)), kLeaseLineOffset))
    return absl::OkStatus();
  if (!ReadLease::IsWhole(line, server_.hello().incarnation) || lease_.Take(line, now))
    return absl::OkStatus();
  return LeaseError(kAnotherLine);
}

absl::Status Session::EndLease(std::string_view why) {
  PassOnAddress();
  return endpoint_.Break(LeaseError(why));
}

void Session::PassOnAddress() { PassOn(dialer_); }

absl::Status LeaseError(std::string_view why) {
  return absl::UnavailableError(absl::StrCat(
      "lease: the server does not show that it is still the primary (", AbslView(why),
      "): it may have been replaced, or a follower is away; use the promoted one, or see its log"));
}

}  // namespace remora
