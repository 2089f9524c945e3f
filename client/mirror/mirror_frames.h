// Slots of a server's index in the memory of a client, bucket by bucket. They are places where records of
// keys may be. A GET READs the record at such a place, and verifies it as one at a cached location.
//
//   frame of 16 adjacent buckets
//   ┌─────────┬───────┬───────┬───────┬─────────────────┬─────────────────┬─────┬──────────┐
//   │ version │ group │ stamp │ depth │ beginnings (17) │ slots, bucket 0 │ ... │ (unused) │
//   └─────────┴───────┴───────┴───────┴─────────────────┴─────────────────┴─────┴──────────┘
//
// A cached location is safe because the client saw its record alive (client/cache/segment_generations.h, G4).
// The client has not seen most of the records to which the slots of a bulk READ lead. A slot may lead to a
// dead record, in memory that the server is about to reuse. These points show that a place of this table
// leads to no other record than the one that its slot named:
//
//   M1 Each slot has a proof with the count of a refresh (G1 to G7). The proof says that after this
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
//   M4 A slot of a GET or a PUT has the proof G4, with the count that its client noted before.
//   M5 The table keeps a slot while its segment keeps its number. A frame has a stamp, the count of a
//      refresh. All its slots were unchanged at that refresh. A slot is used only if the number of its
//      segment is not above the stamp. Before another slot comes in, the table compares all slots of the
//      frame with the refreshes since, and drops those whose segments changed.
//   M6 A slot that was torn leads anywhere. The READ of the record does not verify then, but for one chance,
//      which each search takes as well. A value has bytes of a record of the key, made for exactly that
//      place.
//
// The clients of a mirror are of several threads. M1 to M6 do not ask whose client a proof comes from, as all
// count the same refreshes (G6, G7). For M2, bytes of `retired` must be older than the READ of the bucket. At
// first, each client judges its buckets by bytes that it has READ itself, before. Later, a client posts each
// READ after it, or another client, took the one before. The following points show that a thread sees a slot
// only with a stamp that holds for it:
//
//   M7 A thread changes a frame while it holds it: the version is odd then. It makes the version odd before
//      it changes anything, and even after that. A reader loads an even version, then the stamp and the slot,
//      then the version again. If both versions are equal, the stamp and the slot stood there together.
//      (Between two loads, 2^31 changes of the frame would deceive a reader.)
//   M8 A holder loads the count after it has taken the frame, and the numbers that it compares after that. So
//      the numbers are at least as new as the count that becomes the stamp (G6).
//   M9 Nobody waits for a frame. A reader finds nothing in one that is held, and a change of it is left out,
//      as each change is a hint. So a thread that stops while it holds a frame stops nobody.
//
// A split of a bucket leaves records where they are. So the frame of a bucket also serves the buckets that
// were split from it after it was READ, until the client has READ those.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "client/cache/segment_generations.h"
#include "client/mirror/retired_segments.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"

namespace remora {

/// A table of frames, allocated once. A group of buckets has one frame that it may take. Several groups share
/// a frame if the index has more groups than there are frames.
///
/// Thread safety: any threads may call all functions at any time, but Fill, which one thread calls at a time.
/// None waits.
class MirrorFrames {
 public:
  using Stamp = SegmentGenerations::Number;
  /// Buckets of a frame. They are adjacent in the region.
  static constexpr std::uint64_t kBuckets = 16;
  /// Slots of a frame. With 1,000,000 keys, a frame has 244 on average; when the index is about to grow, 384.
  static constexpr std::size_t kSlots = 416;
  static constexpr std::uint64_t kNoGroup = ~std::uint64_t{0};

  /// Makes a table of at most `bytes`. If that is less than a frame, or if there is no memory for it, it has
  /// no frames.
  explicit MirrorFrames(std::size_t bytes);
  /// Returns whether there was no memory for it.
  bool lacks_memory() const { return lacks_memory_; }
  std::size_t capacity() const { return capacity_; }
  /// Returns a number of frames, from the first on, that includes all that are in use.
  std::size_t frame_count() const { return frame_count_.load(std::memory_order_relaxed); }
  /// Returns the group of a frame; kNoGroup: it is not in use. REQUIRES: frame < frame_count().
  std::uint64_t GroupAt(std::size_t frame) const;
  bool HasFrame(std::uint64_t group) const;
  bool is_full() const { return used_.load(std::memory_order_relaxed) == capacity_; }
  /// Returns the bytes of the frames that are in use.
  std::size_t bytes() const { return used_.load(std::memory_order_relaxed) * sizeof(Frame); }
  /// Returns the number of slots.
  std::size_t CountSlots() const;

  static std::uint64_t GroupOf(std::uint64_t bucket) { return bucket / kBuckets; }
  /// Returns whether a frame serves this bucket, its own or an earlier one.
  bool Covers(std::uint64_t bucket) const { return FrameOf(bucket).frame != nullptr; }

  /// A slot, and the number of its segment, which it has had since its proof (M5).
  struct Found {
    std::uint64_t word = 0;  // 0: none
    SegmentGenerations::Number number = 0;
  };
  /// Returns the first slot of the bucket with this fingerprint. Marks the bucket as asked for.
  Found Find(std::uint64_t bucket, std::uint32_t fingerprint, const SegmentGenerations& generations) const;
  /// Prefetch what Find reads: the head of the frame that may serve the bucket, and then its slots. A large
  /// mirror is mostly in memory, so that many Finds wait for it together.
  void PrefetchHead(std::uint64_t bucket) const;
  void PrefetchSlots(std::uint64_t bucket) const;

  /// Result for a slot with the fingerprint of a new one.
  enum class Same : std::uint8_t {
    kKeep = 1,     // it is another key's
    kReplace = 2,  // the new one takes its place, if there is one alone
  };
  /// Adds a slot, if a frame serves the bucket, and no other thread holds the frame. Returns false if the
  /// frame has no space for it. REQUIRES: a proof with the count `stamp` (M1).
  bool Add(std::uint64_t bucket, std::uint64_t word, Same same, Stamp stamp,
           const SegmentGenerations& generations);
  void Drop(std::uint64_t bucket, std::uint64_t word);

  /// Slots of a bulk READ.
  struct Bulk {
    std::uint64_t group = 0;
    std::span<const Bucket> buckets;  // of the group, kBuckets of them or fewer
    std::uint32_t depth = 0;          // the largest of theirs
  };
  /// Takes a bulk READ in place of what the group's frame had, if no other thread holds the frame. Returns
  /// false if the frame serves another group that was asked for since the last such call. REQUIRES: the READ
  /// was posted after those that `retired` has.
  bool Fill(const Bulk& bulk, const RetiredSegments& retired, const SegmentGenerations& generations);

 private:
  // All zeros: not in use.
  struct Frame {
    std::uint32_t version;  // M7
    std::uint32_t group;    // plus 1
    Stamp stamp;
    std::uint32_t depth;
    std::uint32_t is_asked_for;
    std::array<std::uint16_t, kBuckets + 1> begin;  // of each bucket's slots
    std::array<std::uint64_t, kSlots> slots;
  };
  // With 1,000,000 keys the index has 65,536 main buckets.
  static_assert(65'536 / kBuckets * sizeof(Frame) <= 14 * std::size_t{1'000'000});
  struct Free {
    void operator()(Frame* frames) const { std::free(frames); }
  };
  class Hold;
  /// A frame, and its version before the caller knew that it serves the bucket.
  struct Serving {
    Frame* frame = nullptr;
    std::uint32_t version = 0;
  };

  Serving FrameOf(std::uint64_t bucket) const;
  Frame& FrameAt(std::uint64_t group) const { return frames_.get()[group % capacity_]; }
  /// Takes the group's frame from a group that was not asked for. REQUIRES: the caller holds the frame.
  bool Assign(Frame& frame, std::uint64_t group);
  static void Sweep(Frame& frame, const SegmentGenerations& generations);
  static std::size_t FindWord(const Frame& frame, std::uint64_t bucket, std::uint64_t word);

  std::size_t capacity_;
  bool lacks_memory_ = false;
  std::unique_ptr<Frame, Free> frames_;  // an array; null: there are none
  std::atomic<std::size_t> used_ = 0;
  std::atomic<std::size_t> frame_count_ = 0;
};

}  // namespace remora
