// The part of a local connection that both ends share: messages, completions, limits, and breaking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma/local/mapped_region.h"
#include "rdma/local/ring.h"
#include "rdma/local/socket.h"
#include "rdma/local/wire.h"
#include "rdma/requests.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Returns the number of slots of each message ring. A send completes when its message is in the ring,
/// so this is how many messages the sender may be ahead of the receiver. It is the sum of what a verbs
/// sender can have posted and not sent, and of what the receives of its peer can hold, rounded up. A sender
/// that never has more messages in flight than its peer has receives never finds the ring full.
std::uint32_t RingSlotsFor(const QueueLimits& limits);

/// InvalidArgument: a limit is 0, or the rings would be too large.
absl::Status CheckLimits(const QueueLimits& limits);

/// Needs nothing pinned or told to a device: a note that the memory is in use.
class LocalRegistration final : public Registration {
 public:
  LocalRegistration(std::span<std::byte> bytes, RemoteRegion remote)
      : Registration(bytes, kLocalKey, remote) {}
  LocalRegistration(std::unique_ptr<SharedMemory> own, RemoteRegion remote)
      : Registration(own->bytes(), kLocalKey, remote), own_(std::move(own)) {}

 private:
  static constexpr std::uint32_t kLocalKey = 1;

  const std::unique_ptr<SharedMemory> own_;  // null: the bytes are somebody else's
};

/// `End`: ClientConnection or ServerConnection.
///
/// The class has more than 25 methods and 15 fields, because it has all that both ends of a connection do,
/// over a ring in each direction.
template <typename End>
class LocalConnection : public End {
 public:
  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::Status PostSend(std::uint64_t context, const Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const Sge& into) override;
  std::span<const std::byte> peer_data() const override { return peer_data_; }
  const absl::Status& status() const override { return failure_; }
  std::string peer() const override;

  /// Takes completions, for Poll of either side.
  std::size_t Take(std::span<Completion> out);

  /// Returns whether the peer was last seen on the caller's CPU. REQUIRES: Open was called.
  bool PeerIsHere() const { return peer_side_->cpu.IsHere(); }

 protected:
  explicit LocalConnection(const QueueLimits& limits);

  /// Makes the rings usable. `peer_sleeping` says when the peer wants to be woken.
  void Open(LocalSide* own, const LocalSide* peer, const SleepMark* peer_sleeping, std::uint32_t slots);
  /// Creates the result of Connection::Mapped.
  ///
  /// REQUIRES: usable.
  MappedRegion* MapRegion(std::span<const std::byte> bytes, const LocalListenerPage& page) {
    mapped_region_ = MappedRegion(bytes, page, *peer_side_);
    return &mapped_region_;
  }
  MappedRegion& mapped_region() { return mapped_region_; }
  /// Notes the first cause, and tells the peer. From now on nothing is posted, and Take flushes.
  void Break(absl::Status cause);
  /// Tells the peer that this side wants no more. REQUIRES: the memory given to Open is still there.
  void Close();
  /// Notes that the peer closed or died. Its earlier messages are still delivered, then the
  /// connection breaks.
  void PeerIsGone() { peer_gone_ = true; }

  bool usable() const { return usable_; }
  /// Returns how many slots of the ring to the peer are free. REQUIRES: usable.
  std::uint64_t FreeSlots() const { return writer_.FreeSlots(); }
  LocalSide& own_side() { return *own_side_; }
  const LocalSide& peer_side() const { return *peer_side_; }
  /// Returns why the connection is not usable.
  absl::Status Unusable() const;
  /// Returns whether one more request may be in flight.
  bool HasSpace() const { return in_flight_ < limits_.sends; }
  /// A WRITE is done, and counts until a completion behind it has been polled.
  void CountWrite() {
    ++in_flight_;
    ++uncovered_;
  }
  /// A request is done: queues its completion. REQUIRES: HasSpace.
  void Finish(std::uint64_t context, CompletionKind kind, bool ok) {
    finished_.push({context, uncovered_ + 1, kind, ok});
    ++in_flight_;
    uncovered_ = 0;
  }
  /// The peer wants no more, and all that it sent before is taken. A load of a line that hardly ever changes.
  bool PeerHasClosed() const {
    return peer_side_->closed.load(std::memory_order_acquire) != 0 && !reader_.HasMessage();
  }
  /// Returns whether Take would return a completion now.
  bool HasCompletions() const;
  bool disconnect_told() const { return disconnect_reported_; }

  const QueueLimits limits_;
  UniqueFd socket_;
  ucred peer_ = {};
  std::vector<std::byte> peer_data_;

 private:
  struct Finished {
    std::uint64_t context = 0;
    std::uint32_t requests = 0;  // this and the WRITEs before it
    CompletionKind kind = CompletionKind::kSend;
    bool ok = false;
  };
  struct Receive {
    std::uint64_t context = 0;
    std::byte* data = nullptr;
    std::uint32_t size = 0;
  };

  /// Wakes the peer, if it sleeps or has parked this connection and was not woken yet (A4, A6).
  void WakePeerOnce();
  /// Wakes the peer. Returns false if that has to be tried again.
  bool Wake(WakeBy wake_by);
  std::size_t TakeFinished(std::span<Completion> out);
  std::size_t TakeMessages(std::span<Completion> out);
  std::size_t Flush(std::span<Completion> out);

  absl::Status failure_;
  MappedRegion mapped_region_;
  bool usable_ = false;  // Open was called and Break was not
  bool peer_gone_ = false;
  bool disconnect_reported_ = false;
  std::uint32_t in_flight_ = 0;
  std::uint32_t uncovered_ = 0;
  FixedQueue<Finished> finished_;
  FixedQueue<Receive> receives_;
  RingWriter writer_;
  RingReader reader_;
  LocalSide* own_side_ = nullptr;  // null until Open
  const LocalSide* peer_side_ = nullptr;
  const SleepMark* peer_sleeping_ = nullptr;
  std::uint32_t woken_ = 0;  // the last of its sleeps that it was woken from
  std::uint32_t rung_ = 0;   // the client's: the last parking of this connection that it has ended (A6)
};

// Their virtual tables are in connection.cc alone: gcc takes those that each unit makes for different ones
// (-Wodr, in whole programs).
extern template class LocalConnection<ClientConnection>;
extern template class LocalConnection<ServerConnection>;

}  // namespace remora::rdma
