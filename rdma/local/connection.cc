#include "rdma/local/connection.h"

#include <bit>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/local/futex.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

/// Returns the reason for the end of a connection. `closed`: the peer said so, as no killed process does.
template <typename End>
absl::Status EndOf(bool closed) {
  constexpr absl::string_view kPeer = std::is_same_v<End, ClientConnection> ? "server" : "client";
  return absl::UnavailableError(
      closed ? absl::StrCat("the ", kPeer, " closed the connection")
             : absl::StrCat("connection lost: the process of the ", kPeer, " ended without closing it"));
}

}  // namespace

std::uint32_t RingSlotsFor(const QueueLimits& limits) {
  return std::bit_ceil(limits.sends + limits.receives);
}

absl::Status CheckLimits(const QueueLimits& limits) {
  if (limits.sends == 0 || limits.receives == 0) {
    return absl::InvalidArgumentError("limits: sends and receives must be at least 1");
  }
  if (std::uint64_t{limits.sends} + limits.receives > kLocalMaxRingSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("limits: sends and receives together may be at most ", kLocalMaxRingSlots));
  }
  return absl::OkStatus();
}

template <typename End>
LocalConnection<End>::LocalConnection(const QueueLimits& limits)
    : limits_(limits), finished_(limits.sends), receives_(limits.receives) {}

template <typename End>
absl::StatusOr<std::unique_ptr<Registration>> LocalConnection<End>::RegisterMessages(
    std::span<std::byte> bytes) {
  return std::make_unique<LocalRegistration>(bytes, RemoteRegion());
}

template <typename End>
std::string LocalConnection<End>::peer() const {
  return absl::StrCat("pid ", peer_.pid, " uid ", peer_.uid);
}

template <typename End>
void LocalConnection<End>::Open(LocalSide* own, const LocalSide* peer, const SleepMark* peer_sleeping,
                                std::uint32_t slots) {
  writer_ = RingWriter(own, peer, slots);
  reader_ = RingReader(own, peer, slots);
  own_side_ = own;
  peer_side_ = peer;
  peer_sleeping_ = peer_sleeping;
  usable_ = true;
}

template <typename End>
void LocalConnection<End>::Break(absl::Status cause) {
  REMORA_CHECK(!cause.ok());
  usable_ = false;
  mapped_region_ = {};
  if (!failure_.ok()) return;
  failure_ = std::move(cause);
  Close();
}

template <typename End>
void LocalConnection<End>::Close() {
  if (own_side_ == nullptr) return;
  // Release: the peer that sees it sees the messages before it. The socket's end is for a peer that sleeps.
  own_side_->closed.store(1, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);
}

template <typename End>
absl::Status LocalConnection<End>::Unusable() const {
  return failure_.ok()
             ? absl::FailedPreconditionError("post: the connection is not established yet; connect first")
             : failure_;
}

template <typename End>
void LocalConnection<End>::WakePeerOnce() {
  const std::uint32_t sleep = peer_sleeping_->Sleep();
  if constexpr (std::is_same_v<End, ClientConnection>) {
    // One byte does for both: the server takes it when it is awake, and then unparks the connection.
    const std::uint32_t parked = peer_side_->sleeping.Sleep();
    if (parked != 0 && parked != rung_) {
      if (!Wake(WakeBy::kByte)) return;
      rung_ = parked;
      woken_ = sleep;
      return;
    }
  }
  if (sleep != 0 && sleep != woken_ && Wake(SleepMark::WakeByOf(sleep))) woken_ = sleep;
}

template <typename End>
bool LocalConnection<End>::Wake(WakeBy wake_by) {
  if (wake_by == WakeBy::kByte) return WakePeer(socket_.get());
  FutexNotify(own_side_->wakes);
  return true;
}

template <typename End>
absl::Status LocalConnection<End>::PostSend(std::uint64_t context, const Sge& from) {
  if (!usable_) return Unusable();
  if (from.size > kMaxMessageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("send: a message of ", from.size, " bytes; the longest is ", kMaxMessageSize));
  }
  if (!HasSpace())
    return absl::ResourceExhaustedError("post: all requests of QueueLimits::sends are in flight; poll first");
  switch (writer_.Push({from.data, from.size})) {
    case RingResult::kNotNow:
      return absl::ResourceExhaustedError(
          "send: the peer has not taken the messages sent before; poll first");
    case RingResult::kPeerLies:
      Break(absl::InternalError("message ring: the peer broke its rules (consumed)"));
      return failure_;
    case RingResult::kDone:
      break;
  }
  WakePeerOnce();  // behind the store that published the message
  Finish(context, CompletionKind::kSend, true);
  return absl::OkStatus();
}

template <typename End>
absl::Status LocalConnection<End>::PostRecv(std::uint64_t context, const Sge& into) {
  if (!failure_.ok()) return failure_;
  if (receives_.full())
    return absl::ResourceExhaustedError(
        "receive: as many buffers as QueueLimits::receives are posted already; poll first");
  receives_.push({context, into.data, into.size});
  return absl::OkStatus();
}

template <typename End>
bool LocalConnection<End>::HasCompletions() const {
  if (!finished_.empty() || peer_gone_) return true;
  if (!failure_.ok()) return !disconnect_reported_;
  return usable_ && !receives_.empty() && reader_.HasMessage();
}

template <typename End>
std::size_t LocalConnection<End>::Take(std::span<Completion> out) {
  if (out.empty()) return 0;
  std::size_t count = TakeFinished(out);
  if (usable_) {
    // Read before the ring, so that the ring then has all messages that the peer sent before it
    // closed. Acquire, for that.
    const bool closed = peer_side_->closed.load(std::memory_order_acquire) != 0;
    const bool gone = closed || peer_gone_;
    if (!receives_.empty() && reader_.HasMessage()) count += TakeMessages(out.subspan(count));
    if (gone && count == 0) Break(EndOf<End>(closed));
  }
  if (!failure_.ok() && !disconnect_reported_) count += Flush(out.subspan(count));
  return count;
}

template <typename End>
std::size_t LocalConnection<End>::TakeFinished(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !finished_.empty(); ++count) {
    const Finished& done = finished_.front();
    out[count] = {.connection = this, .context = done.context, .kind = done.kind, .ok = done.ok};
    in_flight_ -= done.requests;
    finished_.pop();
  }
  return count;
}

template <typename End>
std::size_t LocalConnection<End>::TakeMessages(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !receives_.empty(); ++count) {
    std::uint32_t length = 0;
    const RingResult result = reader_.Peek(&length);
    if (result == RingResult::kNotNow) break;
    const Receive& receive = receives_.front();
    if (result == RingResult::kPeerLies) {
      Break(absl::InternalError("message ring: the peer broke its rules (a length)"));
      break;
    }
    if (length > receive.size) {
      Break(absl::InternalError(
          absl::StrCat("receive: a message of ", length, " bytes came for a receive of ", receive.size)));
      break;
    }
    reader_.Take(receive.data, length);
    out[count] = {.connection = this,
                  .context = receive.context,
                  .byte_count = length,
                  .kind = CompletionKind::kReceive,
                  .ok = true};
    receives_.pop();
  }
  return count;
}

template <typename End>
std::size_t LocalConnection<End>::Flush(std::span<Completion> out) {
  std::size_t count = 0;
  // Requests that are done but not polled come first; Take has filled `out` with them if there are many.
  for (; count < out.size() && !receives_.empty(); ++count) {
    out[count] = {.connection = this, .context = receives_.front().context, .kind = CompletionKind::kReceive};
    receives_.pop();
  }
  if (count < out.size() && receives_.empty() && finished_.empty()) {
    out[count++] = {.connection = this, .kind = CompletionKind::kDisconnected};
    disconnect_reported_ = true;
  }
  return count;
}

template class LocalConnection<ClientConnection>;
template class LocalConnection<ServerConnection>;

}  // namespace remora::rdma
