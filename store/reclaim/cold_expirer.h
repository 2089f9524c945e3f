// Removes cold keys whose records, in the durable tier, have expired. Memory does not know when those expire,
// but when the first of them does: from then on, the tier is read through, a bounded bit at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/index/index.h"
#include "store/index/load_coverage.h"
#include "store/reclaim/expirer.h"
#include "store/region/segments.h"

namespace remora {

/// Thread Safety: none; the writer's. Not while a group is being committed.
class ColdExpirer {
 public:
  /// `tier` may be null: then there is nothing to do. `known`: for which keys a cold entry tells that it is
  /// theirs.
  ColdExpirer(DurableTier* tier, Index& index, Expirer& expirer, const LoadCoverage& known,
              const UnsyncedKeys& unsynced)
      : tier_(tier), index_(index), expirer_(expirer), known_(known), unsynced_(unsynced) {}
  ColdExpirer(const ColdExpirer&) = delete;
  ColdExpirer& operator=(const ColdExpirer&) = delete;

  /// A key has become cold whose record expires then (Segments::ExpiryOf).
  void NoteExpiry(std::int64_t expiry_ms) { due_ms_ = std::min(due_ms_, expiry_ms); }

  /// Looks at up to `entries` of the tier. False: nothing is due, or the tier cannot be read.
  bool Work(std::size_t entries, TimePoint now, std::int64_t unix_ms);

  /// When Work has something to do, as of Clock::UnixMillis. Nothing: never, as it looks now.
  std::optional<std::int64_t> next_due_ms() const;

  /// From now on, changes are watched: deletions are not to be long in coming.
  void SetWatched();

 private:
  struct Pass {
    std::string next;  // the first key that was not looked at, or before it
    TimePoint began;
  };

  absl::Status Look(const DurableTier::Entry& entry, std::int64_t unix_ms);
  void End(TimePoint now, std::int64_t unix_ms);

  DurableTier* const tier_;
  Index& index_;
  Expirer& expirer_;
  const LoadCoverage& known_;
  const UnsyncedKeys& unsynced_;
  std::optional<Pass> pass_;
  std::int64_t due_ms_ = Segments::kNoExpiry;  // the earliest expiry of those that the pass does not look at
  std::int64_t not_before_ms_ = 0;
  bool watched_ = false;
};

}  // namespace remora
