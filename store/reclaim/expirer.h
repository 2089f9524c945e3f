// The expirer, which removes records that have expired, so that their memory becomes free even if no client
// reads them.
//
// Each segment has the time at which the first of its records expires. After that time, the expirer sweeps
// the segment: it looks at all records, removes those that have expired, and notes when the next one expires.
// The cleaner makes the dead bytes usable. If no live record is left in the segment, the expirer retires it
// at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/clock.h"
#include "store/changes/change_ring.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/index/index.h"
#include "store/ordered/ordered_index.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Expirer of records in memory.
///
/// Thread safety: none; used by the writer, and not while it commits a group. The outcomes of the group's
/// writes depend on the records that existed when the writer decided them.
class Expirer {
 public:
  /// Makes an expirer. `tier`, `ordered` and `changes` may be null. All arguments must outlive it. It skips
  /// unsynced keys, because its deletion would come after their last write. It removes nothing while
  /// `follows` is true: the deletions come from the primary (G7 of store/durable/group_sink.h).
  Expirer(Segments& segments, ValueLog& log, Index& index, OrderedIndex* ordered, DurableTier* tier,
          ChangeRing* changes, const UnsyncedKeys& unsynced, const std::atomic<bool>& follows)
      : segments_(segments),
        log_(log),
        index_(index),
        ordered_(ordered),
        tier_(tier),
        changes_(changes),
        unsynced_(unsynced),
        follows_(follows) {}
  Expirer(const Expirer&) = delete;
  Expirer& operator=(const Expirer&) = delete;

  enum class Pace : std::uint8_t {
    kDue = 1,    // sweeps a segment only after the pause since its last sweep
    kHurry = 2,  // sweeps every segment in which a record has expired
  };
  /// Returns whether it may remove records.
  bool is_on() const { return !follows_.load(std::memory_order_relaxed); }  // relaxed: only the writer asks

  /// Looks at `bytes` of records or a few more. False: nothing has expired, or it is too soon for the next
  /// sweep.
  bool Work(std::uint64_t bytes, Pace pace, TimePoint now, std::int64_t unix_ms);

  /// Returns the time, by Clock::UnixMillis, at which Work next has something to do. Nothing: no record will
  /// expire.
  std::optional<std::int64_t> next_due_ms() const;
  /// Returns false only if no record in memory has expired.
  bool MayHaveExpired(std::int64_t unix_ms) const {
    return sweep_ || segments_.AnyExpired(unix_ms).has_value() || (has_left_ && !unsynced_.empty());
  }

  /// Removes a live record if it has expired by now, and returns whether it did. The deletion reaches the
  /// durable tier with Flush at the latest.
  bool RemoveIfExpired(const Place& place, std::int64_t unix_ms);

  /// Removes a cold key whose record in the durable tier has expired.
  void RemoveCold(std::string_view key, const Index::ColdEntry& entry);

  /// Removes a key of which the durable tier has an expired record, and the index no entry.
  void RemoveStored(std::string_view key);

  /// Deletes the removed keys from the durable tier.
  void Flush();

  std::uint64_t removed() const { return removed_; }

  /// Makes sweeps more frequent from now on, because a client watches changes and expects deletions soon.
  void SetWatched() { watched_ = true; }

 private:
  struct Sweep {
    SegmentNumber segment = 0;
    std::uint64_t retired = 0;                     // the segment's Segment::retired when the sweep began
    std::uint64_t next = 0;                        // offset of the next record to look at
    std::int64_t expiry_ms = Segments::kNoExpiry;  // the earliest expiry of the records that are left
  };

  bool Begin(Pace pace, std::int64_t unix_ms);
  void Removed(std::string_view key);
  /// Repeats the deletions that the tier did not take.
  void DeleteAgain();
  void End(TimePoint now);

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  OrderedIndex* const ordered_;
  DurableTier* const tier_;
  ChangeRing* const changes_;
  const UnsyncedKeys& unsynced_;
  const std::atomic<bool>& follows_;
  std::optional<Sweep> sweep_;
  bool watched_ = false;
  bool has_left_ = false;  // a sweep has left an expired record to a pending write, since none was pending
  std::vector<std::string> unflushed_;  // keys removed since the last Flush
  std::vector<std::string> lost_;       // keys whose deletions the tier did not take
  std::int64_t again_ms_ = 0;           // when the expirer repeats these deletions
  std::uint64_t removed_ = 0;
};

}  // namespace remora
