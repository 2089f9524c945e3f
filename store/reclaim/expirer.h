// The expirer: removes records that have expired, so that their memory comes back though nobody reads them.
//
// Segments know when the first of their records expires. When that has passed, the segment is swept: all its
// records are looked at, those that have expired are removed, and when the next one expires is noted. What is
// dead then is the cleaner's to make use of; a segment in which nothing is left is retired at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/index/index.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Thread Safety: none; the writer's. Not while a group is being committed: its writes were decided by what
/// was there.
class Expirer {
 public:
  /// `tier` may be null. Keys that are unsynced are left alone: a deletion would come behind their last
  /// write.
  Expirer(Segments& segments, ValueLog& log, Index& index, DurableTier* tier, const UnsyncedKeys& unsynced)
      : segments_(segments), log_(log), index_(index), tier_(tier), unsynced_(unsynced) {}
  Expirer(const Expirer&) = delete;
  Expirer& operator=(const Expirer&) = delete;

  enum class Pace : std::uint8_t {
    kDue = 1,    // no segment more often than the pause says
    kHurry = 2,  // wherever a record has expired
  };
  /// Looks at `bytes` of records or a few more. False: nothing has expired, or it is too soon to look again.
  bool Work(std::uint64_t bytes, Pace pace, TimePoint now, std::int64_t unix_ms);

  /// When Work has something to do, as of Clock::UnixMillis. Nothing: never, as it looks now.
  std::optional<std::int64_t> next_due_ms() const;

  /// Removes a live record if it has expired by now. The durable tier learns of it with Flush at the latest.
  bool RemoveIfExpired(const Place& place, std::int64_t unix_ms);

  /// Removes a cold key whose record, in the durable tier, has expired.
  void RemoveCold(std::string_view key, const Index::ColdEntry& entry);

  /// Removes what has expired of the durable tier, and has no entry.
  void RemoveStored(std::string_view key);

  /// Deletes from the durable tier what was removed from memory.
  void Flush();

  std::uint64_t removed() const { return removed_; }

  /// From now on, changes are watched: deletions are not to be long in coming.
  void SetWatched() { watched_ = true; }

 private:
  struct Sweep {
    SegmentNumber segment = 0;
    std::uint64_t retired = 0;                     // of the segment, when the sweep began
    std::uint64_t next = 0;                        // offset of the first record that was not looked at
    std::int64_t expiry_ms = Segments::kNoExpiry;  // the earliest of those that are left
  };

  bool Begin(Pace pace, std::int64_t unix_ms);
  void Removed(std::string_view key);
  /// Of keys whose deletions the tier did not take, once more.
  void DeleteAgain();
  void End(TimePoint now);

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  DurableTier* const tier_;
  const UnsyncedKeys& unsynced_;
  std::optional<Sweep> sweep_;
  bool watched_ = false;
  std::vector<std::string> unflushed_;  // keys that were removed since Flush
  std::vector<std::string> lost_;       // those whose deletions the tier did not take
  std::int64_t again_ms_ = 0;           // when they are tried again
  std::uint64_t removed_ = 0;
};

}  // namespace remora
