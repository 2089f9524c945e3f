// Reading a record in pieces: one that is too large for a READ into the session's buffer, or one whose value
// is to land in memory of the caller.
//
//   READ  generations of the record's segments   (a large one)
//   READ  header and key                         (into the caller's memory, and as much of the value)
//   READ  the value, a piece at a time, while the piece before is hashed
//   READ  the generations again                  (if all that took longer than the grace period)
//
// Time. What was read more than T after its place was learned is to be thrown away (layout.h, I6), for the
// memory might have been used anew. A READ of 64 MiB may take longer than T each time. So for large records
// there is a second way to show that it was not:
//
//   P1 The header was read within T after the place was learned, by I6 in time, and showed the live bit and
//      sizes that match the slot's. So the record was live at a moment h of that READ.
//   P2 A segment's generation changes only when the segment is emptied, when all its records are dead, for
//      ever (I4). The run of this record was so at no moment before h.
//   P3 Its generations were read before the header, at g < h, and again behind the value, at k, and were the
//      same. A change before g says nothing about this record (P2), one between h and k would show: unless
//      there were 256 of one byte, or a multiple, which takes 255 * 2T (client/cache/segment_generations.h,
//      G1), and from before g to after k no more than 256T went by on this clock.
//   P4 So the run was emptied at no moment before k, and nothing was written there anew before k + 2T (I6).
//      What was read are the record's own bytes, which never change (I4).
//   P5 The value was the key's at h, which is inside the GET: the bit is cleared before any change is
//      acknowledged, or visible in the index (I5).
//
// The record's checksum is verified all the same: it tells whether the slot that led here was whole. When
// neither T nor P3 holds, nothing is known, and the GET begins again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/record.h"

namespace remora {

/// Where a value is to go: one of the two, or nowhere.
struct ValueTarget {
  std::string* text = nullptr;
  std::optional<rdma::Sge> memory{};  // as much of the value as it holds

  bool is_nowhere() const { return text == nullptr && !memory; }
};

struct WantedRecord {
  std::string_view key;
  std::uint64_t key_hash = 0;
  Slot slot;
  RecordPlace place;  // of the slot
  TimePoint learned;  // a time before that, of Session::Coarse
};

struct PiecesRead {
  RecordHeader header{};
  RecordState state = RecordState::kTorn;
  bool proven = false;  // P1 to P5: it does not matter how long it took
};

/// Whether a record must be read in pieces.
inline bool NeedsPieces(const Slot& slot, const ValueTarget& target) {
  return slot.extent_bytes() > kMaxSmallExtent || target.memory.has_value();
}

/// A READ that is to be posted: into scratch memory first, then into the caller's.
struct PieceRead {
  std::uint64_t offset = 0;      // of the store's memory
  std::size_t half = 0;          // of the scratch memory: the first or the second
  std::size_t scratch_size = 0;  // bytes from the beginning of that half
  rdma::Sge direct{};            // of the target's memory; size 0: nothing
};

/// Bytes of a half: a header and the longest key fit.
inline constexpr std::size_t kPieceHalf = kMaxSmallExtent / 2 / 64 * 64;
static_assert(kPieceHalf >= sizeof(RecordHeader) + kMaxKeySize);

/// The reading itself, as a state machine that does not wait. Whoever drives it posts what Next says, and
/// calls Take for each READ when it is complete, in their order:
///   while (const auto read = pieces.Next()) { post it; await it; pieces.Take(...); }
///   result()
/// Two may be under way: while what one brought is hashed, the other fills the other half.
///
/// Thread Safety: none.
class ChunkedReader {
 public:
  /// REQUIRES: SlotNamesPlace; the slot NeedsPieces. What `wanted` and `target` point to outlives this.
  ChunkedReader(Session& session, const WantedRecord& wanted, const ValueTarget& target);

  /// Nothing: what was posted has to be taken first, or, if all was, the result is there.
  std::optional<PieceRead> Next();
  /// What the oldest READ brought to its half of the scratch memory.
  void Take(std::span<const std::byte> scratch);
  bool done() const { return phase_ == Phase::kDone; }
  /// REQUIRES: done.
  const PiecesRead& result() const { return read_; }

 private:
  enum class Phase : std::uint8_t { kGenerations = 1, kHead, kOtherHead, kValue, kProof, kDone };

  PieceRead GenerationsRead() const;
  PieceRead HeadRead();
  std::optional<PieceRead> NextOfValue();
  /// Header and key have come.
  void TakeHead(std::span<const std::byte> scratch);
  void BeginValue(std::string_view stored_key);
  void EndValue(std::uint64_t value_hash);
  void TakeProof(std::span<const std::byte> scratch);

  /// Bytes of the target's memory from `offset` on: no more than it has.
  rdma::Sge Direct(std::size_t offset, std::size_t size) const;
  std::size_t capacity() const { return target_.memory ? target_.memory->size : 0; }

  Session& session_;
  const WantedRecord wanted_;
  const ValueTarget target_;
  const bool large_;
  const std::uint64_t first_segment_;
  const std::size_t segment_count_;

  Phase phase_ = Phase::kHead;
  std::array<PieceRead, 2> under_way_;
  std::size_t posted_ = 0;  // READs
  std::size_t taken_ = 0;

  std::vector<std::byte> generations_;
  TimePoint looked_;
  RecordHeader header_{};
  bool keep_ = true;               // the key that is stored there is the wanted one
  std::string key_;                // else this is it
  std::size_t head_key_size_ = 0;  // of the head that is read
  std::uint64_t asked_for_ = 0;    // bytes of the value
  rdma::Sge head_direct_{};        // those that came with the head
  ValueHasher hasher_;
  PiecesRead read_;
};

/// Drives it to its end, and waits. Errors are the connection's.
absl::Status ReadInPieces(Session& session, ChunkedReader& pieces);

/// Makes one, and drives it. The state is as of CheckRecord; or kTorn where a large record took too long and
/// is not proven. The target's content is the value if the state is kLive or kDead, and else of no use. What
/// exceeds the memory is read, and verified, and dropped. REQUIRES: as ChunkedReader. Errors are the
/// connection's.
absl::StatusOr<PiecesRead> ReadInPieces(Session& session, const WantedRecord& wanted,
                                        const ValueTarget& target);

}  // namespace remora
