// Slots of a server's index in the memory of a client, bucket by bucket. They are places where records of
// keys may be. A GET READs the record at such a place, and verifies it as one at a cached location.
//
//   frame of 16 adjacent buckets
//   ┌───────┬───────┬───────┬──────────────────┬─────────────────┬─────────────────┬─────┬──────────┐
//   │ group │ stamp │ depth │ beginnings (17)  │ slots, bucket 0 │ slots, bucket 1 │ ... │ (unused) │
//   └───────┴───────┴───────┴──────────────────┴─────────────────┴─────────────────┴─────┴──────────┘
//
// A cached location is safe because the client saw its record alive (client/cache/segment_generations.h, G4).
// The client has not seen most of the records to which the slots of a bulk READ lead. A slot may lead to a
// dead record, in memory that the server is about to reuse. These points show that a place of this table
// leads to no other record than the one that its slot named:
//
//   M1 Each slot has a proof with the count of a refresh (G1 to G5). The proof says that after this
//      refresh, at a moment m, nothing had been written anew where the slot leads, and the segment had not
//      been emptied before the refresh. Then G4 and G5 hold as for a location that was learned at m. The
//      reason: an emptying after the refresh changes the byte, and new bytes come 2T after it.
//   M2 A slot of a bulk READ. The client READs the generations, then `retired` of the segments (layout.h),
//      then the bucket at m. Suppose that the segment was emptied before the refresh ended, in the use that
//      the slot means. The server shows a segment as retired before it changes the generation. It shows it
//      as not retired when all slots that led there are cleared. The slot was still there at m, so the
//      segment was retired from before the READ of `retired` until after m. The client drops slots of
//      segments that this READ shows as retired.
//   M3 A slot of a change (store/format/memory/change_log.h). The client READs a count of changes after a
//      refresh. A change whose number is not less was appended after that (L3), when its record was live
//      (L2): this is m.
//   M4 A slot of a GET or a PUT of this client has the proof G4.
//   M5 The table keeps a slot while its segment keeps its number. A frame has a stamp, the count of a
//   refresh.
//      All its slots were unchanged at that refresh. Before any use, and before another slot comes in, the
//      table compares all slots of the frame with the refreshes since, and drops those whose segments
//      changed.
//   M6 A slot that was torn leads anywhere. The READ of the record does not verify then, but for one chance,
//      which each search takes as well. A value has bytes of a record of the key, made for exactly that
//      place.
//
// A split of a bucket leaves records where they are. So the frame of a bucket also serves the buckets that
// were split from it after it was READ, until the client has READ those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/cache/segment_generations.h"
#include "client/mirror/retired_segments.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"

namespace remora {

/// A table of frames, allocated once. When all are in use, a new group of buckets takes the frame of one that
/// was not asked for lately.
///
/// Thread safety: none.
class MirrorFrames {
 public:
  using Stamp = SegmentGenerations::Number;
  /// Buckets of a frame. They are adjacent in the region.
  static constexpr std::uint64_t kBuckets = 16;
  /// Slots of a frame. With 1,000,000 keys, a frame has 244 on average; when the index is about to grow, 384.
  static constexpr std::size_t kSlots = 416;

  /// Makes a table of at most `bytes`. If that is less than a frame, or if there is no memory for it, it has
  /// no frames.
  explicit MirrorFrames(std::size_t bytes);
  /// Returns whether there was no memory for it.
  bool lacks_memory() const { return lacks_memory_; }
  std::size_t capacity() const { return capacity_; }
  /// Returns a number that is higher than that of every group with a frame.
  std::uint64_t group_count() const { return frame_of_.size(); }
  bool HasFrame(std::uint64_t group) const { return group < frame_of_.size() && frame_of_[group] != kNone; }
  bool is_full() const { return used_ == capacity_; }
  /// Returns the bytes of the frames that are in use.
  std::size_t bytes() const { return used_ * kBytesPerFrame + frame_of_.size() * sizeof(std::uint32_t); }
  /// Returns the number of slots.
  std::size_t CountSlots() const;
  void Clear();

  static std::uint64_t GroupOf(std::uint64_t bucket) { return bucket / kBuckets; }
  /// Returns whether a frame serves this bucket, its own or an earlier one.
  bool Covers(std::uint64_t bucket) const { return FrameOf(bucket) != nullptr; }
  /// Returns the first slot of the bucket with this fingerprint; 0: none. Marks the bucket as asked for.
  std::uint64_t Find(std::uint64_t bucket, std::uint32_t fingerprint, const SegmentGenerations& generations);

  /// Result for a slot with the fingerprint of a new one.
  enum class Same : std::uint8_t {
    kKeep = 1,     // it is another key's
    kReplace = 2,  // the new one takes its place, if there is one alone
  };
  /// Adds a slot, if a frame serves the bucket. Returns false if the frame has no space for it. REQUIRES: a
  /// proof with the count `stamp` (M1).
  bool Add(std::uint64_t bucket, std::uint64_t word, Same same, Stamp stamp,
           const SegmentGenerations& generations);
  void Drop(std::uint64_t bucket, std::uint64_t word);

  /// Slots of a bulk READ.
  struct Bulk {
    std::uint64_t group = 0;
    std::span<const Bucket> buckets;  // of the group, kBuckets of them or fewer
    std::uint32_t depth = 0;          // the largest of theirs
  };
  /// Takes a bulk READ in place of what the group's frame had. Returns false if no frame is free for it.
  /// REQUIRES: it was posted after the READs that `retired` has.
  bool Fill(const Bulk& bulk, const RetiredSegments& retired, const SegmentGenerations& generations);

 private:
  struct Frame {
    std::uint32_t group;
    Stamp stamp;
    std::uint32_t depth;
    bool is_asked_for;
    std::array<std::uint16_t, kBuckets + 1> begin;  // of each bucket's slots
    std::array<std::uint64_t, kSlots> slots;
  };
  static constexpr std::size_t kBytesPerFrame = sizeof(Frame) + sizeof(std::uint32_t);
  // With 1,000,000 keys the index has 65,536 main buckets.
  static_assert(65'536 / kBuckets * kBytesPerFrame <= 14 * std::size_t{1'000'000});
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Bound of the table of groups, for each frame. A server may claim any number of buckets.
  static constexpr std::uint64_t kMaxGroupsPerFrame = 64;

  Frame* FrameOf(std::uint64_t bucket) const;
  Frame* FrameFor(std::uint64_t group);
  /// Returns a frame that was not asked for lately, or null if there is none among the next few.
  Frame* Evict();
  static void Sweep(Frame& frame, const SegmentGenerations& generations);
  static std::size_t FindWord(const Frame& frame, std::uint64_t bucket, std::uint64_t word);

  std::size_t capacity_;
  bool lacks_memory_ = false;
  std::unique_ptr<Frame[]> frames_;  // null: there are none
  std::size_t used_ = 0;
  std::size_t hand_ = 0;                 // of the frames, at which Evict looks next
  std::vector<std::uint32_t> frame_of_;  // by group; kNone: it has none
};

}  // namespace remora
