#include "client/session/confirm.h"

#include <optional>
#include <string_view>

#include "client/session/lease_holder.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/lease_line.h"

namespace remora {
namespace {

// A line is torn for some nanoseconds, 16 times a second.
constexpr int kMaxLineReads = 8;

/// READs the lease line. Nothing: it was torn each time.
absl::StatusOr<std::optional<LeaseLine>> ReadLeaseLine(Session& session) {
  const std::span<std::byte> bytes = session.buffers().superblock().first(sizeof(LeaseLine));
  for (int reads = 0; reads < kMaxLineReads; ++reads) {
    REMORA_RETURN_IF_ERROR(session.calls().Read(bytes, kLeaseLineOffset));
    if (std::optional<LeaseLine> line = session.lease().LineIn(bytes)) return line;
  }
  return std::nullopt;
}

/// Breaks the connection with this error. The next one goes to the next address.
absl::Status EndLease(Session& session, absl::Status error) {
  session.connector().PassOn();
  return session.endpoint().Break(std::move(error));
}

absl::Status LookAtLease(Session& session, TimePoint now) {
  REMORA_ASSIGN_OR_RETURN(const std::optional<LeaseLine> line, ReadLeaseLine(session));
  absl::Status looked = line ? session.lease().TakeLook(*line, now) : absl::OkStatus();
  return looked.ok() ? looked : EndLease(session, std::move(looked));
}

absl::Status AskForLease(Session& session) {
  LeaseHolder& lease = session.lease();
  const Clock& clock = session.clock();
  CallDeadline& deadline = session.calls().deadline();
  lease.Ask(clock.Now());
  const absl::StatusOr<ServerReply> answer = [&] {
    const CallDeadline::Limit limit(deadline, lease.answer_due());
    return session.calls().CallBare(LeaseHolder::MakeRequest());
  }();
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) return EndLease(session, LeaseError(StdView(answer.status().message())));
  absl::Status taken = lease.TakeAnswer(*answer);
  if (taken.ok()) return taken;
  // The server answers at once: not so the next attempts of its clients.
  const Duration pause = Connector::Pause(Connector::kRejectedPause);
  clock.Sleep(std::min(pause, std::max(deadline.Get() - clock.Now(), Duration(0))));
  return EndLease(session, std::move(taken));
}

}  // namespace

absl::Status TakeFirstLease(Session& session) {
  const TimePoint before = session.clock().Now();
  REMORA_ASSIGN_OR_RETURN(const std::optional<LeaseLine> line, ReadLeaseLine(session));
  return session.lease().Begin(line, before);
}

absl::Status Confirm(Session& session) {
  const LeaseHolder& lease = session.lease();
  if (!lease.is_on()) return absl::OkStatus();
  const TimePoint ended = session.clock().Now();
  // A broken connection carries no look and no request (S2 of client/session/endpoint.h).
  if (session.endpoint().is_broken()) {
    return lease.Holds(ended) ? absl::OkStatus() : LeaseError("the connection ended");
  }
  if (lease.IsLookOfUse(ended)) REMORA_RETURN_IF_ERROR(LookAtLease(session, ended));
  return lease.Holds(ended) ? absl::OkStatus() : AskForLease(session);
}

}  // namespace remora
