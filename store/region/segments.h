// The region's segments: the use of each, and the time when its memory may be reused.
//
//   free -> log head -> log -> (emptied by the cleaner) -> retired for 2T -> free
//   free -> index, for good
//   free -> part of the large records' memory (large_space.h) -> (its records are dead) -> retired for 2T
//   -> free
//
// A large record first takes a hole between others, and then free segments next to each other (a run). If
// enough segments are free for a run, but are not adjacent, the store makes a run (MakeRun). It claims the
// stretch with the fewest live bytes, and the cleaner empties that stretch. Segments that become free there
// are kept for the run. Buckets are never moved.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "store/base/clock.h"
#include "store/format/memory/layout.h"
#include "store/region/free_segments.h"
#include "store/region/large_space.h"
#include "store/region/segment_map.h"

namespace remora {

/// Table of the region's segments, with their live bytes, ages and expiries.
///
/// The class has more than 25 methods and 15 fields, because a segment is in one of several lists. Each
/// change of a segment moves it between these lists, and the sums over all segments change with it.
///
/// Thread safety: any thread may call Map. The writer calls all others.
class Segments {
 public:
  using Use = SegmentUse;

  /// Free segments that only the cleaner may take. With one, it can always empty another segment.
  static constexpr std::size_t kReserve = 1;

  /// Makes a table in which all segments are free. `region` must outlive it. A retired segment is free again
  /// after `reuse_delay`. It calls `on_first_use` as StoreOptions::on_first_use says.
  Segments(std::span<std::byte> region, Duration reuse_delay,
           std::function<void(std::uint64_t end)> on_first_use = {});
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// Takes a free segment, as kIndex or kLogHead. Nothing: no more than `keep` segments are free.
  std::optional<SegmentNumber> Take(Use use, std::size_t keep);

  /// Counts all records of a head up to `end` as live, for a writer that appends many at a time. The writer
  /// may call it again with a higher `end`.
  void Extend(SegmentNumber segment, std::uint64_t end);

  /// Queues of the log's segments, by age: segments with records as they were written, and segments with
  /// records that were moved.
  enum class Queue : std::uint8_t { kWritten = 0, kMoved = 1 };

  /// Makes a full head part of the log. `end`: the offset at which its last record ends.
  void Seal(SegmentNumber segment, std::uint64_t end, TimePoint now, Queue queue = Queue::kWritten);

  /// Retires a segment of the log, to which nothing leads any more. It becomes free `reuse_delay` after the
  /// next StartGracePeriod. REQUIRES: it has no live record.
  void Retire(SegmentNumber segment, TimePoint now);

  // --- Large records, by the offset at which they begin

  /// Where a large record may find memory: in a hole or in free segments, or in a hole alone.
  enum class Growth : std::uint8_t { kAllowed = 1, kNone = 2 };
  /// Takes memory for a large record of `extent` bytes, and returns its offset. Nothing: there is neither a
  /// hole nor a run, or too few segments would stay free: kReserve, and one more, which the index may need
  /// for the record's key.
  std::optional<std::uint64_t> TakeLarge(std::uint64_t extent, Growth growth = Growth::kAllowed);
  /// Notes that the record is live, so that it may be moved.
  void MakeLargeLive(std::uint64_t offset) { large_.MakeLive(offset); }
  /// Frees at once the memory of a record to which nothing ever led. REQUIRES: it was dropped.
  void ReleaseLarge(std::uint64_t offset);
  /// Retires the memory of a record. It becomes free after `reuse_delay` from the next StartGracePeriod on.
  /// REQUIRES: the record was dropped; nothing leads to it any more when StartGracePeriod is called next.
  void RetireLarge(std::uint64_t offset);
  /// Makes a record the youngest one.
  void RenewLarge(std::uint64_t offset) { large_.Renew(offset); }
  const LargeSpace& large() const { return large_; }
  /// Returns the large record, of fewer than `most` bytes, whose move joins holes best. Nothing: none does.
  std::optional<std::uint64_t> BestJoin(std::uint64_t most) const {
    return large_.BestJoin(most, free_.stretches());
  }
  /// Returns the bytes of all large records.
  std::uint64_t large_bytes() const { return large_bytes_; }
  /// Returns whether memory of a large record is retired.
  bool has_retired_large() const { return retired_large_ > 0; }
  /// Returns whether it is, and has, with the holes, the bytes of a segment.
  bool RetiredLargeMayHelp() const {
    return has_retired_large() && retired_large_bytes_ + large_.hole_bytes() >= kSegmentSize;
  }

  /// Returns whether TakeLarge would find memory.
  bool HasLarge(std::uint64_t bytes) const;
  /// Returns the segment of large records that is emptied with the fewest bytes to move into holes of others,
  /// and keeps new records out of it until it is free. Nothing: none can be emptied in this way.
  std::optional<SegmentNumber> BeginToEmptyLarge();
  /// Keeps new records out of the holes in a segment of large records for a grace period.
  void WithholdLarge(SegmentNumber segment);

  // --- Runs

  /// Returns whether TakeLarge would find a run of this length.
  bool HasRun(std::size_t length) const;
  /// Returns whether enough segments for such a run are free, claimed or retired, adjacent or not.
  bool HasEnoughFor(std::size_t length) const;
  /// Returns whether free segments and holes between large records have so many bytes, adjacent or not.
  bool HasBytesFor(std::uint64_t bytes) const {
    return free_.count() * kSegmentSize + large_.hole_bytes() >= bytes + (kReserve + 1) * kSegmentSize;
  }
  /// Returns about the length of the longest run that this region can ever have.
  std::size_t max_run() const;

  /// Begins to make a run of this length, or notes that a caller still waits for the run that is being made.
  /// The table makes one run at a time, for all callers. Release gives it up when no caller has asked for it
  /// for kPatience. False: the cleaner could empty no stretch of this length with the other free segments.
  bool MakeRun(std::size_t length, TimePoint now);
  bool is_making_run() const { return claim_.has_value(); }
  /// Returns whether records are in the way of the run that is being made.
  bool IsRunInUse() const;
  /// Returns the offset of a large record in the way of the run that is being made.
  std::optional<std::uint64_t> LargeInWay() const;
  /// Gives up the run that is being made, if there is one.
  void CancelRun();
  static constexpr std::chrono::seconds kPatience{1};

  /// Starts the grace period of all segments that were retired since the last call. REQUIRES: the caller read
  /// `now` after they were retired.
  void StartGracePeriod(TimePoint now);
  bool has_retired() const { return just_retired_ > 0; }

  /// Frees the segments that were retired long enough ago.
  void Release(TimePoint now);
  /// Returns when Release will free the next segment, or give up a run that no caller asks for. Nothing: none
  /// is retired, and no run is being made.
  std::optional<TimePoint> next_release() const;

  /// Sets the time after which a retired segment is free; 0 while there are no readers yet.
  void set_reuse_delay(Duration delay) { delay_ = delay; }

  // --- Bytes of records, live and dead.

  void AddLive(std::uint64_t offset, std::uint64_t bytes) {
    At(offset).live += bytes;
    live_bytes_ += bytes;
  }
  /// Counts bytes that were live as dead.
  void Drop(std::uint64_t offset, std::uint64_t bytes);

  /// Returns the segment of the log whose cleaning promises most: benefit (its dead bytes) times age over
  /// cost (the bytes to read and to move). While a run is made, segments in its way come first. Nothing: no
  /// segment has `min_dead` dead bytes.
  std::optional<SegmentNumber> Best(TimePoint now, std::uint64_t min_dead) const;

  /// Returns the segment that has been in a queue for the longest time. Nothing: the queue is empty.
  std::optional<SegmentNumber> Oldest(Queue queue) const;
  std::size_t CountOf(Queue queue) const { return queues_[static_cast<std::size_t>(queue)].size; }

  // --- When records expire, in milliseconds as Clock::UnixMillis.

  static constexpr std::int64_t kNoExpiry = std::numeric_limits<std::int64_t>::max();
  static std::int64_t ExpiryOf(std::uint64_t expiry_ms) {  // of RecordHeader, where 0 stands for never
    if (expiry_ms == 0 || expiry_ms > std::uint64_t{kNoExpiry}) return kNoExpiry;
    return static_cast<std::int64_t>(expiry_ms);
  }
  static std::int64_t ExpiryOf(const RecordHeader& header) { return ExpiryOf(header.expiry_ms); }

  /// Segments become due in whole ticks, so that an idle server wakes once for all that are due in one tick.
  static constexpr std::int64_t kTickMs = 1000;
  static std::int64_t NextTick(std::int64_t unix_ms) { return unix_ms - unix_ms % kTickMs + kTickMs; }

  /// Notes that a record in the segment of `offset` expires at this time.
  void NoteExpiry(std::uint64_t offset, std::int64_t expiry_ms);
  /// Clears the expiry of a segment at the start of a sweep. The sweep visits all records, and notes the
  /// expiry of the surviving ones. The segment is not due again before `not_before_ms`.
  void ForgetExpiry(SegmentNumber segment, std::int64_t not_before_ms);
  /// Returns the segment that is due first for a sweep, and that time: a record in it has expired then, and
  /// the pause since its last sweep is over. Nothing: no record will expire.
  std::optional<std::pair<std::int64_t, SegmentNumber>> first_due() const;
  /// Returns the number of segments with a record that will expire.
  std::size_t expiring_count() const { return due_.size(); }
  /// Returns a segment in which a record has expired, due or not. Cost: a look at each segment with an
  /// expiry.
  std::optional<SegmentNumber> AnyExpired(std::int64_t unix_ms) const;

  struct Links {
    SegmentNumber previous = 0;
    SegmentNumber next = 0;
  };
  struct Segment {
    Use use = Use::kNone;
    std::uint64_t begin = 0;  // offsets in the region
    std::uint64_t end = 0;    // kLog: end of its last record; kLogHead: as set by Extend
    std::uint64_t live = 0;   // live bytes
    TimePoint sealed;
    std::int64_t expiry_ms = kNoExpiry;  // the earliest expiry of its records, including dead ones
    std::int64_t not_before_ms = 0;
    std::uint64_t retired = 0;  // how often the segment was retired, or given up by large records
    Queue queue = Queue::kWritten;
    Links by_age;
    std::int32_t list = -1;  // the list of segments with about as many dead bytes
    Links by_dead;
    /// Returns the bytes of dead records.
    std::uint64_t dead() const { return end - begin - live; }
  };
  const Segment& operator[](SegmentNumber segment) const { return segments_[segment]; }
  /// Returns the use of all segments, those before the first one included. Each was right at some moment of
  /// the call. Thread safety: any thread.
  std::vector<MappedSegment> Map() const;
  static std::uint64_t EndOf(SegmentNumber segment) { return (std::uint64_t{segment} + 1) * kSegmentSize; }

  std::size_t count() const { return segments_.size(); }
  /// Returns the number of free segments, without those that are kept for a run.
  std::size_t free_count() const { return free_.count(); }
  std::size_t retired_count() const { return retired_count_; }
  /// Returns the bytes of all live records, including those in heads of the log. A record counts from Append
  /// to Kill or Rollback.
  std::uint64_t live_bytes() const { return live_bytes_; }
  /// Returns the bytes of all records, live and dead. Records in a head count only as far as Extend counted
  /// them.
  std::uint64_t log_bytes() const { return log_bytes_; }

 private:
  // Lists of log segments by their share of dead bytes, in steps of 1/32; each in order of arrival.
  static constexpr std::int32_t kLists = 33;
  struct List {
    SegmentNumber first = 0;
    SegmentNumber last = 0;
    std::size_t size = 0;
  };
  struct Retired {
    TimePoint until;
    std::uint64_t offset;  // of a segment, or of memory of large records
    std::uint64_t large;   // bytes of the latter; 0: it is a segment
  };
  struct Claim {
    SegmentRange range;
    std::size_t ready;  // segments of the stretch that are kClaimed
    TimePoint asked;    // when a caller last asked for such a run
  };

  /// Changes the use of a segment, also in shown_.
  void SetUse(SegmentNumber number, Use use);
  /// Takes free segments so that a hole of so many bytes exists. False: there are too few.
  bool GrowLarge(std::uint64_t bytes);
  /// Returns free segments with which such a hole exists. Nothing: there are too few.
  std::optional<SegmentRange> FindForHole(std::uint64_t bytes) const;
  /// Returns whether all segments of the run that is being made are free, and kept for it.
  bool IsRunReady() const { return claim_ && claim_->ready == claim_->range.length; }
  /// Returns the bytes of stretches of free segments outside `range` that large records may take.
  std::vector<std::uint64_t> SpareBytes(SegmentRange range) const;
  /// Ends the place of a large record that was dropped, and returns its bytes.
  std::uint64_t EndLarge(std::uint64_t offset);
  /// Retires memory of large records, or holes. StartGracePeriod sets the time.
  void RetireLargeBytes(std::uint64_t offset, std::uint64_t bytes);
  void FreeLarge(std::uint64_t offset, std::uint64_t bytes);
  void ShowLargeUse(std::uint64_t offset, std::uint64_t bytes);
  void BeginClaim(SegmentRange range, TimePoint now);
  /// Tells readers in place that memory is about to be used for something else.
  void ChangeReuseEpoch();
  void ChangeGeneration(SegmentNumber number);
  void ShowRetired(SegmentNumber number, bool is_retired);
  void AddFree(SegmentNumber number);
  // Sums over the segments of a window.
  struct WindowSums {
    std::uint64_t live = 0;   // bytes of small records
    std::uint64_t large = 0;  // bytes of places of large records
    std::uint64_t runs = 0;   // segments of these
    std::uint64_t free = 0;   // free segments
  };
  std::vector<SegmentNumber> EasyStretches(std::size_t length) const;
  /// Returns whether the records of a segment may be moved elsewhere.
  bool IsMovable(SegmentNumber number) const;
  /// Adds a segment to the sums of a window; `sign`: 1, or -1 to subtract it.
  void AddTo(WindowSums* window, SegmentNumber number, int sign) const;
  SegmentRange claimed() const { return claim_ ? claim_->range : SegmentRange{}; }

  Segment& At(std::uint64_t offset) { return segments_[offset / kSegmentSize]; }
  static std::int32_t ListOf(const Segment& segment);
  void Append(List& list, Links Segment::*links, SegmentNumber number);
  void Remove(List& list, Links Segment::*links, SegmentNumber number);
  void Link(SegmentNumber number);
  void Unlink(SegmentNumber number);
  static std::int64_t DueOf(const Segment& segment) {
    const std::int64_t due_ms = std::max(segment.expiry_ms, segment.not_before_ms);
    return due_ms % kTickMs == 0 ? due_ms : NextTick(due_ms);
  }

  const std::span<std::byte> region_;
  Duration delay_;
  const std::function<void(std::uint64_t end)> on_first_use_;
  SegmentNumber reached_ = 0;  // no segment from here on was ever taken, except for runs
  std::vector<Segment> segments_;
  /// For Map: the Use of each segment and, above it, its list. Relaxed: each is a number by itself.
  std::vector<std::atomic<std::uint8_t>> shown_;
  FreeSegments free_;
  LargeSpace large_;
  std::deque<Retired> retired_;    // in the order in which they were retired
  std::size_t just_retired_ = 0;   // how many at the end of retired_ wait for StartGracePeriod
  std::size_t retired_count_ = 0;  // segments that are kRetired
  std::size_t retired_large_ = 0;  // entries of retired_ that are memory of large records
  std::uint64_t retired_large_bytes_ = 0;
  std::optional<Claim> claim_;
  // With these, MakeRun does not repeat a search that found nothing before more segments are free.
  std::uint64_t times_freed_ = 0;
  std::uint64_t searched_at_ = 0;  // times_freed_ of the search for searched_length_
  std::size_t searched_length_ = std::numeric_limits<std::size_t>::max();
  std::uint64_t compacted_at_ = ~std::uint64_t{0};  // times_freed_ when BeginToEmptyLarge found nothing
  List lists_[kLists];
  List queues_[2];                                        // by Queue
  std::set<std::pair<std::int64_t, SegmentNumber>> due_;  // segments with an expiry, by DueOf
  std::uint64_t live_bytes_ = 0;
  std::uint64_t log_bytes_ = 0;
  std::uint64_t large_bytes_ = 0;
};

}  // namespace remora
