// Reads a record in pieces, if it is too large for a READ into the session's buffer, or if its value goes to
// memory of the caller.
//
//   READ  the byte of the record's beginning     (for a large record; layout.h, BeginningsOffset)
//   READ  header and key                         (and part of the value, into the caller's memory)
//   READ  the value, a piece at a time, while the reader hashes the piece before
//   READ  the byte again                         (if all that took longer than the grace period)
//
// A reader discards everything that it read more than T after it learned the place (layout.h, I6), because
// the server might have reused the memory. A READ of 64 MiB may take longer than T each time. So for large
// records the reader has a second way to prove that the memory was not reused:
//
//   P1 The reader read the header within T after it learned the place, so by I6 in time. The header showed
//      the live bit, and sizes that match the slot's. So the record was live at a moment h of that READ.
//   P2 The byte of a beginning changes only when the large record that begins there is dead, for ever (I4),
//      and before its memory is used anew. No two large records begin in the bytes that share one. A large
//      record has more of them than that, so another one begins there only when its memory is free. So the
//      byte did not change from this record's publication to h.
//   P3 The reader read the byte before the header, at g < h, and again after the value, at k. It was the
//      same. A change before g says nothing about this record (P2). A change between h and k would show,
//      unless the byte changed 256 times, or a multiple. That takes 255 * 2T: after a change, another record
//      begins there no earlier than 2T later (I6). But on this clock at most 256T went by from before g to
//      after k.
//   P4 So the record was not retired from its publication to k, and nothing was written there anew before
//      k + 2T (I6). The reader read the record's own bytes, which never change (I4).
//   P5 The value was the key's at h, which is inside the GET: the server clears the live bit before any
//      change is acknowledged, or visible in the index (I5).
//
// The reader verifies the record's checksum all the same, because it shows whether the slot that led here was
// whole. If neither T nor P3 holds, nothing is proven, and the GET begins again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/record.h"

namespace remora {

/// Destination of a value: a text, registered memory, or nowhere. At most one is set.
struct ValueTarget {
  std::string* text = nullptr;
  std::optional<rdma::Sge> memory{};  // gets as much of the value as it holds

  bool is_nowhere() const { return text == nullptr && !memory; }
};

/// The record to read, and the key that it should have.
struct WantedRecord {
  std::string_view key;
  std::uint64_t key_hash = 0;
  Slot slot;
  RecordPlace place;  // of the slot
  TimePoint learned;  // by Session::Coarse, before the reader learned the place
};

/// Result of reading a record in pieces.
struct ChunksRead {
  RecordHeader header{};
  RecordState state = RecordState::kTorn;
  bool proven = false;  // by P1 to P5, so the result holds however long the reading took
};

/// Returns whether a record must be read in pieces.
inline bool NeedsChunks(const Slot& slot, const ValueTarget& target) {
  return slot.extent_bytes() > kMaxSmallExtent || target.memory.has_value();
}

/// A READ to post. Its first bytes go to scratch memory, the bytes behind them to the caller's memory.
struct ChunkRead {
  std::uint64_t offset = 0;      // in the store's region
  std::size_t half = 0;          // of the scratch memory: 0 or 1
  std::size_t scratch_size = 0;  // bytes that go to the beginning of that half
  bool is_of_value = false;      // those bytes are of the record's value
  rdma::Sge direct{};            // part of the target's memory; size 0: none
};

/// The size in bytes of a half of the scratch memory. A header and the longest key fit.
inline constexpr std::size_t kPieceHalf = kMaxSmallExtent / 2 / 64 * 64;
static_assert(kPieceHalf >= sizeof(RecordHeader) + kMaxKeySize);

/// State machine that reads one record in pieces, and does not wait. Its driver posts the READs that Next
/// returns, and calls Take for each completed READ, in the same order:
///   while (const auto read = pieces.Next()) { post it; await it; pieces.Take(...); }
///   result()
/// Two READs may be in flight: while the reader hashes the bytes of one, the other fills the other half.
///
/// The class has more than 15 fields, because a read of a large value passes three phases, and each needs
/// what the earlier ones found.
///
/// Thread safety: none.
class ChunkedReader {
 public:
  /// Begins to read `wanted`. The session, and the memory to which `wanted` and `target` point, must outlive
  /// the reader. REQUIRES: SlotNamesPlace and NeedsChunks are true for the slot.
  ChunkedReader(Session& session, const WantedRecord& wanted, const ValueTarget& target);

  /// Returns the next READ to post. Nothing: the driver must first Take a READ that is in flight; if none is,
  /// the result is there.
  std::optional<ChunkRead> Next();
  /// Takes the bytes that the oldest READ in flight brought to its half of the scratch memory. Bytes of the
  /// value may also be where the server may be writing them: `result` says whether they count (P1 to P5).
  void Take(std::span<const std::byte> scratch);
  bool done() const { return phase_ == Phase::kDone; }
  /// REQUIRES: done.
  const ChunksRead& result() const { return read_; }

 private:
  enum class Phase : std::uint8_t { kBeginning = 1, kHead, kOtherHead, kValue, kProof, kDone };

  ChunkRead BeginningRead() const;
  ChunkRead HeadRead();
  std::optional<ChunkRead> NextOfValue();
  /// Takes the header and the key.
  void TakeHead(std::span<const std::byte> scratch);
  void BeginValue(std::string_view stored_key);
  void EndValue(std::uint64_t value_hash);
  void TakeProof(std::span<const std::byte> scratch);

  /// Returns `size` bytes of the target's memory from `offset` on, or as many as it has there.
  rdma::Sge Direct(std::size_t offset, std::size_t size) const;
  std::size_t capacity() const { return target_.memory ? target_.memory->size : 0; }

  Session& session_;
  const WantedRecord wanted_;
  const ValueTarget target_;
  const bool large_;

  Phase phase_ = Phase::kHead;
  std::array<ChunkRead, 2> in_flight_;
  std::size_t posted_ = 0;  // READs
  std::size_t taken_ = 0;

  std::byte beginning_{};
  TimePoint beginning_read_at_;
  RecordHeader header_{};
  bool keep_ = true;               // the record's key is the wanted one
  std::string key_;                // the record's key, if it is another one
  std::size_t head_key_size_ = 0;  // bytes of the key in the READ of the header
  std::uint64_t asked_for_ = 0;    // bytes of the value for which READs were made
  rdma::Sge head_direct_{};        // bytes of the value that came with the header
  ValueHasher hasher_;
  ChunksRead read_;
};

/// Drives `pieces` to its end, and waits for its READs. Errors are the connection's.
absl::Status ReadInChunks(Session& session, ChunkedReader& pieces);

/// Reads and verifies a record in pieces, and waits for its READs. The result's state is that of CheckRecord,
/// or kTorn if a large record took too long and is not proven. If the state is kLive or kDead, the target
/// holds the value, and otherwise undefined bytes. Bytes of the value that exceed the target's memory are
/// read, verified and dropped. Errors are the connection's. REQUIRES: as for ChunkedReader's constructor.
absl::StatusOr<ChunksRead> ReadInChunks(Session& session, const WantedRecord& wanted,
                                        const ValueTarget& target);

}  // namespace remora
