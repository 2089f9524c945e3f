// The two ends of a message ring in shared memory: A2 to A4 of wire.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma/local/wire.h"

namespace remora::rdma {

enum class RingResult {
  kDone,
  kNotNow,    // full, or empty
  kPeerLies,  // the peer's counter or a length is impossible
};

/// The end of a message ring that appends messages.
///
/// Thread safety: none.
class RingWriter {
 public:
  RingWriter() = default;
  /// `own` has the slots, `peer` has `consumed`. `slots` is a power of two.
  RingWriter(LocalSide* own, const LocalSide* peer, std::uint32_t slots)
      : own_(own), peer_(peer), slots_(slots) {}

  /// Appends a message of at most kMaxMessageSize bytes. kNotNow: also where the ring has not as many slots.
  RingResult Push(std::span<const std::byte> message);
  /// Returns how many slots are free now. 0: also where the peer's counter is impossible.
  std::uint64_t FreeSlots() const;

 private:
  LocalSide* own_ = nullptr;
  const LocalSide* peer_ = nullptr;
  std::uint32_t slots_ = 0;
  std::uint64_t produced_ = 0;
  std::uint64_t consumed_ = 0;  // as last seen
};

/// The end of a message ring that takes messages out.
///
/// Thread safety: none.
class RingReader {
 public:
  RingReader() = default;
  /// `peer` has the slots, `own` has `consumed`.
  RingReader(LocalSide* own, const LocalSide* peer, std::uint32_t slots)
      : own_(own), peer_(peer), slots_(slots) {}

  bool HasMessage() const { return IsHeadOf(Head(), consumed_ + 1); }
  /// kDone: the next message has `*length` bytes, at most kMaxMessageSize.
  RingResult Peek(std::uint32_t* length) const;
  /// Copies the next message out and takes it off. REQUIRES: `length` is what Peek just found.
  void Take(std::byte* to, std::uint32_t length);

 private:
  /// Loads the head of the next slot. It is an acquire, so it precedes the loads of the bytes (A2).
  /// It is seq_cst for A4, which costs no more on x86-64.
  std::uint64_t Head() const {
    return peer_->slots()[consumed_ & (slots_ - 1)].head.load(std::memory_order_seq_cst);
  }

  LocalSide* own_ = nullptr;
  const LocalSide* peer_ = nullptr;
  std::uint32_t slots_ = 0;
  std::uint64_t consumed_ = 0;
};

}  // namespace remora::rdma
