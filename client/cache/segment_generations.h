// Decides whether a cached location still holds the record that it held.
//
// The content cannot tell. Memory that the server reused may hold any bytes, also a value that spells a
// record of the key that once stood there, with checksum and live bit. So the server counts in a byte how
// often it emptied each segment (layout.h, GenerationsOffset). A client looks at that byte at least once in
// about T (the grace period of I6) rather than for each GET.
//
// In short: a *byte* is a segment's generation in the server's memory, a *refresh* the client's READ of such
// bytes, and a *number* the client's own number for the segment.
//
// A refresh is a READ of a chunk of those bytes. The client counts the refreshes. The number of a segment is
// the count of the last refresh that showed another byte than the one before. The client caches a location
// with the number that its segment has then. The location is valid as long as the number is the same. The
// following points show that a valid location leads to no other record than the one from which it was
// learned:
//
//   G1 The server changes a segment's byte when it empties the segment. All its records are dead then,
//      for ever (I4), and the server writes there anew no earlier than 2T later (I6). So two changes of
//      one byte are at least 2T apart.
//   G2 If a byte seen at t did not change between t and u, nothing was written anew before u + 2T.
//   G3 If two consecutive refreshes show the same byte, it did not change in between, or it changed 256 times
//      or a multiple, which takes 255 * 2T (G1). A refresh that ends more than 256T after the one before
//      gives all segments new numbers. So as long as a number stays, the byte did not change between the
//      first and the last refresh that gave it. (Numbers have 32 bits. They do not repeat within the
//      machine's life.)
//   G4 Learning. A record was live at a moment m. The client noted the count of refreshes before it posted
//      its READ of the record (or its message, for a PUT). The last refresh up to that count showed the byte
//      at t, before m. The client caches the location with the number of that refresh, however old it is, and
//      does not if the segment has a later number by now. Suppose the segment was emptied between
//      t and m, and the record came later. Then the next refresh shows another byte, and the client drops
//      the location needlessly, which does no harm. As long as the number stays, the byte did not change
//      from t on (G3), nor from m on. So the segment is in the same use as at m. The number of a refresh that
//      ended after m would be wrong: that may show the change that came when the record was dead.
//   G5 Using. The number of a location is that of its segment's last refresh, at u. So between m and u the
//      byte did not change, whichever came first (G4). The READ of the record was complete before u + 2T,
//      so before its end nothing was written anew (G2). It read the record's own bytes, with the live bit
//      set until the record is overwritten, deleted or moved. If the record reads as live, it was the
//      key's value at a moment of the READ. The reason: the server clears the bit before any such change
//      is acknowledged, or visible in the index (I5). So a warm GET is as linearizable as a cold one.
//
// The times that stand for u: u is after the client posted the refresh. So the time from a clock reading
// before that, to a clock reading after the READ of the record, must be less than 2T. Both clock readings are
// coarse. The first may be early, which is safe. The second may be early by Clock::kCoarseness, so the client
// stops that much before T, or at T/2 where T is short. Either way the sum is at most 3/4 of 2T, so the rates
// of the clocks may differ by a third.
//
// The clients of a mirror share these results (client/mirror/shared_mirrors.h). All READ the same bytes, and
// look at the same clock. A refresh counts for all of them, whichever made it. Two refreshes may overlap, so
// the one that is taken later may show the earlier state. The points hold nevertheless:
//
//   G6 Take stores the numbers of a refresh, then its count, then until when it is fresh. So a thread that
//      loads a count sees the numbers of that refresh, or later ones. And a thread that loads until when a
//      refresh is fresh, and then a number, sees the number of that refresh or of a later one.
//   G7 A location has a proof with the count c if all refreshes up to c were READ before e. That is the
//      moment at which its segment is emptied next. By G4 it has such a proof: e is after m, and the client
//      noted c before it posted the READ that saw the record at m. A refresh that is READ after e shows
//      another byte than one that is READ before e (G3). Take the first refresh after c that is READ after e.
//      The one that was taken before it was READ before e. So it gives the segment a number above c. As long
//      as the number is not above c, all refreshes that were taken, also the last one, were READ before e.
//      The last one was posted before e, so a time less than 2T after that is less than 2T after e (G5).
//
// In tests/models/looks.pml, two clients look in all orders.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/format/memory/layout.h"

namespace remora {

/// Keeps the results of the refreshes. The owners do the READs.
///
/// Thread safety: any threads may call all functions at any time. Take waits for a mutex; the others do not.
class SegmentGenerations {
 public:
  using Number = std::uint32_t;

  /// Largest size of a refresh in bytes, one for each segment.
  static constexpr std::size_t kChunkSize = 4096;

  SegmentGenerations(std::uint64_t memory_size, Duration grace);

  static std::uint64_t SegmentOf(const Slot& slot) { return slot.offset_bytes() / kSegmentSize; }

  /// Returns whether the segment's last refresh is recent enough for a READ that is complete at `now` (G5).
  /// A caller that needs the segment's number, too, loads it after this (G6).
  bool IsFresh(std::uint64_t segment, TimePoint now) const {
    return now <= ChunkOf(segment).fresh_until.load(std::memory_order_acquire);
  }
  /// Returns whether a refresh is due although no location is used. It is due if the segment has no number,
  /// or if a later refresh would have to give new numbers (G3).
  bool RefreshIsDue(std::uint64_t segment, TimePoint now) const {
    return now > ChunkOf(segment).due.load(std::memory_order_relaxed);
  }
  /// Returns true to one caller in a while, which is to make the segment's next refresh. The others need not,
  /// as long as the last one is fresh.
  bool Claim(std::uint64_t segment, TimePoint now, Duration time);
  /// Returns the count of the last refresh; 0: there was none.
  Number count() const { return count_.load(std::memory_order_acquire); }
  /// Returns the count of the last refresh that gave any segment another number, among those up to a count
  /// that the caller has loaded before; or a later one.
  Number last_change() const { return last_change_.load(std::memory_order_acquire); }
  /// Returns whether the segment has kept its number since the refresh of that count. False: it may have
  /// another one, or it had none.
  bool IsUnchangedSince(std::uint64_t segment, Number count) const {
    const Number number = NumberOf(segment);
    return number != 0 && number <= count;
  }
  bool HasNumber(std::uint64_t segment) const { return NumberOf(segment) != 0; }
  /// Returns the segment's number as of its last refresh, or 0.
  Number NumberOf(std::uint64_t segment) const {
    const std::atomic<Number>* const numbers = ChunkOf(segment).numbers.load(std::memory_order_acquire);
    return numbers == nullptr ? 0 : numbers[segment % kChunkSize].load(std::memory_order_acquire);
  }

  /// The bytes to READ for a refresh of a segment.
  struct Range {
    std::uint64_t offset = 0;  // in the region
    std::size_t size = 0;
  };
  Range RangeOf(std::uint64_t segment) const;
  /// Takes the result of a refresh: a copy of RangeOf(segment), by a READ that was posted and complete at
  /// these times. Of two that overlap, either may be taken first (G7).
  void Take(std::uint64_t segment, std::span<const std::byte> bytes, TimePoint posted, TimePoint completed);

 private:
  struct Chunk {
    std::atomic<TimePoint> fresh_until = TimePoint::min();
    std::atomic<TimePoint> due = TimePoint::min();
    std::atomic<TimePoint> claimed_until = TimePoint::min();
    // One for each segment of the chunk that exists; null before the first refresh.
    std::atomic<std::atomic<Number>*> numbers = nullptr;
  };
  /// The bytes that the last refresh of a chunk showed, and their numbers. Empty before the first one.
  struct Shown {
    TimePoint comparable_until = TimePoint::min();  // G3
    std::vector<std::byte> bytes;
    std::unique_ptr<std::atomic<Number>[]> numbers;
  };

  Chunk& ChunkOf(std::uint64_t segment) { return chunks_[segment / kChunkSize]; }
  const Chunk& ChunkOf(std::uint64_t segment) const { return chunks_[segment / kChunkSize]; }

  const std::uint64_t memory_size_;
  const Duration fresh_for_;
  const Duration comparable_for_;
  std::vector<Chunk> chunks_;
  std::atomic<Number> count_ = 0;
  std::atomic<Number> last_change_ = 0;
  Mutex mutex_;  // held to take a refresh
  std::vector<Shown> shown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
