// The region's segments: the use of each, and the time when its memory may be reused.
//
//   free -> log head -> log -> (emptied by the cleaner) -> retired for 2T -> free
//   free -> index, for good
//   free -> run of adjacent segments, for one large record -> (the record is dead) -> retired for 2T -> free
//
// If enough segments are free for a run, but are not adjacent, the store makes a run (MakeRun). It claims the
// stretch with the fewest live bytes, and the cleaner empties that stretch. Segments that become free there
// are kept for the run. Large records and buckets are never moved.
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

  /// Queues of the log's segments, by age: segments with records as they were written, segments with records
  /// that were moved, and runs.
  enum class Queue : std::uint8_t { kWritten = 0, kMoved = 1, kRuns = 2 };

  /// Makes a full head part of the log. `end`: the offset at which its last record ends.
  void Seal(SegmentNumber segment, std::uint64_t end, TimePoint now, Queue queue = Queue::kWritten);

  /// Retires a segment of the log, to which nothing leads any more. It becomes free `reuse_delay` after the
  /// next StartGracePeriod. REQUIRES: it has no live record.
  void Retire(SegmentNumber segment, TimePoint now);

  /// Takes a run of `length` segments for a record of `bytes` bytes, and returns its first segment. Nothing:
  /// there is no such run, or too few segments would stay free: kReserve, and one more, which the index may
  /// need for the record's key.
  std::optional<SegmentNumber> TakeRun(std::size_t length, std::uint64_t bytes);

  /// Frees at once a run to which nothing ever led. REQUIRES: its record was dropped.
  void ReleaseRun(SegmentNumber first);

  /// Retires a run. It becomes free after `reuse_delay` from the next StartGracePeriod on. REQUIRES: its
  /// record was dropped; nothing leads to the run any more when StartGracePeriod is called next.
  void RetireRun(SegmentNumber first);

  /// Moves a run to the end of its queue, as its youngest.
  void Renew(SegmentNumber first);
  /// Returns the bytes of all records that have runs.
  std::uint64_t run_bytes() const { return run_bytes_; }

  /// Returns whether TakeRun would find a run of this length.
  bool HasRun(std::size_t length) const;
  /// Returns whether enough segments for such a run are free, claimed or retired, adjacent or not.
  bool HasEnoughFor(std::size_t length) const;
  /// Returns about the length of the longest run that this region can ever have.
  std::size_t max_run() const;

  /// Begins to make a run of this length, or notes that a caller still waits for the run that is being made.
  /// The table makes one run at a time, for all callers. Release gives it up when no caller has asked for it
  /// for kPatience. False: the cleaner could empty no stretch of this length with the other free segments.
  bool MakeRun(std::size_t length, TimePoint now);
  bool is_making_run() const { return claim_.has_value(); }
  /// Returns whether records are in the way of the run that is being made.
  bool IsRunInUse() const;
  /// Gives up the run that is being made, if there is one.
  void CancelRun();
  static constexpr std::chrono::seconds kPatience{1};

  /// Starts the grace period of all segments that were retired since the last call. REQUIRES: the caller read
  /// `now` after they were retired.
  void StartGracePeriod(TimePoint now);
  bool has_retired() const { return just_retired_ > 0; }

  /// Frees the segments that were retired long enough ago.
  void Release(TimePoint now);
  /// Returns when Release will free the next segment. Nothing: none is retired.
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
    std::uint64_t end = 0;    // kLog, first of a run: end of its last record; kLogHead: as set by Extend
    std::uint64_t live = 0;   // live bytes
    TimePoint sealed;
    std::int64_t expiry_ms = kNoExpiry;  // the earliest expiry of its records, including dead ones
    std::int64_t not_before_ms = 0;
    std::uint64_t retired = 0;  // how often the segment was retired, or its run given back
    std::size_t run = 0;        // kRun: the run's length in its first segment, 0 in the others
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
    SegmentNumber first;
    std::size_t length;
  };
  struct Claim {
    SegmentNumber first;
    std::size_t length;
    std::size_t ready;  // segments of the stretch that are kClaimed
    TimePoint asked;    // when a caller last asked for such a run
  };

  /// Changes the use of a segment, also in shown_.
  void SetUse(SegmentNumber number, Use use);
  void EndRun(SegmentNumber first);
  void ChangeGeneration(SegmentNumber number);
  void ShowRetired(SegmentNumber number, bool is_retired);
  void AddFree(SegmentNumber first, std::size_t length);
  std::optional<SegmentNumber> EasiestStretch(std::size_t length) const;
  bool InClaim(SegmentNumber number) const {
    return claim_ && number >= claim_->first && number - claim_->first < claim_->length;
  }

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
  std::deque<Retired> retired_;    // in the order in which they were retired
  std::size_t just_retired_ = 0;   // how many at the end of retired_ wait for StartGracePeriod
  std::size_t retired_count_ = 0;  // segments of all entries of retired_
  std::optional<Claim> claim_;
  // With these, MakeRun does not repeat a search that found nothing before more segments are free.
  std::uint64_t times_freed_ = 0;
  std::uint64_t searched_at_ = 0;  // times_freed_ of the search for searched_length_
  std::size_t searched_length_ = 0;
  List lists_[kLists];
  List queues_[3];                                        // by Queue
  std::set<std::pair<std::int64_t, SegmentNumber>> due_;  // segments with an expiry, by DueOf
  std::uint64_t live_bytes_ = 0;
  std::uint64_t log_bytes_ = 0;
  std::uint64_t run_bytes_ = 0;
};

}  // namespace remora
