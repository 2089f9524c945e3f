// The region's segments: what each is used for, and when it may be used for something else.
//
//   free -> log head -> log -> (emptied by the cleaner) -> retired for 2T -> free
//   free -> index, for good
//   free -> run: next to each other, for one large record -> (the record is dead) -> retired for 2T -> free
//
// When enough are free for a run, but not next to each other, one is made (MakeRun): the stretch that holds
// the least is claimed, and the cleaner empties it; what comes free there is kept for the run. Large records
// and buckets are never moved.
#pragma once

#include <algorithm>
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

namespace remora {

/// Thread Safety: none; the writer's.
class Segments {
 public:
  enum class Use : std::uint8_t {
    kNone = 0,  // before the first segment
    kFree = 1,
    kIndex = 2,
    kLogHead = 3,  // records are being appended
    kLog = 4,
    kRetired = 5,  // nothing leads here any more, but readers may have been led here
    kRun = 6,      // of one large record, whose bytes and expiry the first one of them has
    kClaimed = 7,  // free, for the run that is being made
  };

  /// Segments that only the cleaner may take: with one, it can always empty another.
  static constexpr std::size_t kReserve = 1;

  /// `region` outlives this. What is retired is free again after `reuse_delay`. `on_reach`: as StoreOptions.
  Segments(std::span<std::byte> region, Duration reuse_delay,
           std::function<void(std::uint64_t end)> on_reach = {});
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// Takes a free segment, as kIndex or kLogHead. Nothing: there is none, beyond `keep`.
  std::optional<SegmentNumber> Take(Use use, std::size_t keep);

  /// Records of a head, up to `end`, count as live although nobody noted them one by one: for who appends
  /// many at a time. May be called again as they become more.
  void Extend(SegmentNumber segment, std::uint64_t end);

  /// The segments of the log stand in queues, by age: those with records as they were written, those with
  /// records that were moved, and runs.
  enum class Queue : std::uint8_t { kWritten = 0, kMoved = 1, kRuns = 2 };

  /// A full head becomes part of the log. `end`: where its last record ends.
  void Seal(SegmentNumber segment, std::uint64_t end, TimePoint now, Queue queue = Queue::kWritten);

  /// Nothing leads to this segment of the log any more: it is retired, then free.
  void Retire(SegmentNumber segment, TimePoint now);

  /// Takes a run for a record of `bytes`; its first one. Nothing: there is none, beyond kReserve and one
  /// more, which the index may need for the record's key.
  std::optional<SegmentNumber> TakeRun(std::size_t length, std::uint64_t bytes);

  /// Nothing ever led to this run: it is free at once. REQUIRES: its record was dropped.
  void GiveBackRun(SegmentNumber first);

  /// Nothing leads to this run any more, when StartGracePeriod is called next: it is retired as
  /// one, then free. REQUIRES: its record was dropped.
  void RetireRun(SegmentNumber first);

  /// A run that was the oldest is the youngest now.
  void Renew(SegmentNumber first);
  /// Bytes of records that have runs.
  std::uint64_t run_bytes() const { return run_bytes_; }

  bool HasRun(std::size_t length) const;
  /// Whether as much is free, or retired, as a run takes, if it were in one piece.
  bool HasEnoughFor(std::size_t length) const;
  /// The longest run that this region can ever have, about.
  std::size_t max_run() const;

  /// Somebody waits for a run: goes on with making one, or begins. At most one is made at a time, whoever
  /// waits; it is given up when nobody has asked for kPatience. False: there is no stretch that could be
  /// emptied with what else is free.
  bool MakeRun(std::size_t length, TimePoint now);
  bool is_making_run() const { return claim_.has_value(); }
  /// Whether records are in the way of the run that is being made.
  bool IsRunInUse() const;
  void CancelRun();
  static constexpr std::chrono::seconds kPatience{1};

  /// Starts the grace period of what was retired since the last call, at `now`, which is read after it was.
  void StartGracePeriod(TimePoint now);
  bool has_retired() const { return just_retired_ > 0; }

  /// Frees what was retired long enough ago.
  void Release(TimePoint now);
  /// When Release will free the next segment. Nothing: none is retired.
  std::optional<TimePoint> next_release() const;

  /// 0 while nobody reads yet.
  void set_reuse_delay(Duration delay) { delay_ = delay; }

  // --- Bytes of records, live and dead.

  void AddLive(std::uint64_t offset, std::uint64_t bytes) {
    At(offset).live += bytes;
    live_bytes_ += bytes;
  }
  /// Live no more.
  void Drop(std::uint64_t offset, std::uint64_t bytes);

  /// The segment of the log whose cleaning promises most: benefit (its dead bytes) times age over cost (the
  /// bytes to read and to move). While a run is made, those in its way come first. Nothing: in none are
  /// `min_dead` bytes dead.
  std::optional<SegmentNumber> Best(TimePoint now, std::uint64_t min_dead) const;

  /// The one that has been longest in a queue of the log; how many are.
  std::optional<SegmentNumber> Oldest(Queue queue) const;
  std::size_t CountOf(Queue queue) const { return queues_[static_cast<std::size_t>(queue)].size; }

  // --- When records expire, in milliseconds as Clock::UnixMillis.

  static constexpr std::int64_t kNoExpiry = std::numeric_limits<std::int64_t>::max();
  static std::int64_t ExpiryOf(std::uint64_t expiry_ms) {  // as RecordHeader says it
    if (expiry_ms == 0 || expiry_ms > std::uint64_t{kNoExpiry}) return kNoExpiry;
    return static_cast<std::int64_t>(expiry_ms);
  }
  static std::int64_t ExpiryOf(const RecordHeader& header) { return ExpiryOf(header.expiry_ms); }

  /// Segments come due in whole ticks: a server with nothing else to do wakes once for all that is due in
  /// one.
  static constexpr std::int64_t kTickMs = 1000;
  static std::int64_t NextTick(std::int64_t unix_ms) { return unix_ms - unix_ms % kTickMs + kTickMs; }

  /// A record in this segment expires then.
  void NoteExpiry(std::uint64_t offset, std::int64_t expiry_ms);
  /// Who looks at all records of a segment, and notes again when those expire that are left, begins with
  /// this. The segment is not due again before `not_before_ms`.
  void ForgetExpiry(SegmentNumber segment, std::int64_t not_before_ms);
  /// The segment that is due first to be looked at: a record in it has expired, and it was not looked at just
  /// before. And when that is.
  std::optional<std::pair<std::int64_t, SegmentNumber>> first_due() const;
  /// Segments with a record that will expire.
  std::size_t expiring_count() const { return due_.size(); }
  /// A segment in which a record has expired, due or not. Looks at all segments.
  std::optional<SegmentNumber> AnyExpired(std::int64_t unix_ms) const;

  struct Links {
    SegmentNumber previous = 0;
    SegmentNumber next = 0;
  };
  struct Segment {
    Use use = Use::kNone;
    std::uint64_t begin = 0;  // offsets in the region
    std::uint64_t end = 0;    // kLog, the first of a run: of its last record; kLogHead: as Extend told
    std::uint64_t live = 0;   // bytes
    TimePoint sealed;
    std::int64_t expiry_ms = kNoExpiry;  // the earliest of its records, those included that are dead since
    std::int64_t not_before_ms = 0;
    std::uint64_t retired = 0;  // how often it was
    std::size_t run = 0;        // kRun: the length, where this is the first
    Queue queue = Queue::kWritten;
    Links by_age;
    std::int32_t list = -1;  // the list of those with about as many dead bytes
    Links by_dead;
    /// Bytes of records that are dead.
    std::uint64_t dead() const { return end - begin - live; }
  };
  const Segment& operator[](SegmentNumber segment) const { return segments_[segment]; }
  static std::uint64_t EndOf(SegmentNumber segment) { return (std::uint64_t{segment} + 1) * kSegmentSize; }

  std::size_t count() const { return segments_.size(); }
  /// Without those that are kept for a run.
  std::size_t free_count() const { return free_.count(); }
  std::size_t retired_count() const { return retired_count_; }
  /// Of all records in the log and its heads; and of those in the log, live and dead, with what Extend told
  /// of, without other heads.
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t log_bytes() const { return log_bytes_; }

 private:
  // Lists of log segments by the share that is dead, in 1/32; in each the first came first.
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
    std::size_t ready;  // those of it that are kClaimed
    TimePoint asked;    // for a run of this length
  };

  void EndRun(SegmentNumber first);
  void ChangeGeneration(SegmentNumber number);
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
  const std::function<void(std::uint64_t end)> on_reach_;
  SegmentNumber reached_ = 0;  // none from here on was ever taken, but for runs
  std::vector<Segment> segments_;
  FreeSegments free_;
  std::deque<Retired> retired_;    // in the order of time
  std::size_t just_retired_ = 0;   // the last of these
  std::size_t retired_count_ = 0;  // segments of all of these
  std::optional<Claim> claim_;
  // So that a search that found nothing is not made again before more is free.
  std::uint64_t times_freed_ = 0;
  std::uint64_t searched_at_ = 0;  // times_freed_ of the search for searched_length_
  std::size_t searched_length_ = 0;
  List lists_[kLists];
  List queues_[3];                                        // by Queue
  std::set<std::pair<std::int64_t, SegmentNumber>> due_;  // those with an expiry, by DueOf
  std::uint64_t live_bytes_ = 0;
  std::uint64_t log_bytes_ = 0;
  std::uint64_t run_bytes_ = 0;
};

}  // namespace remora
