// Removes cold keys whose records in the durable tier have expired. Memory knows only when the first of these
// records expires. From then on, the cold expirer reads through the tier, in passes of bounded steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/engine/owned_slots.h"
#include "store/index/index.h"
#include "store/index/load_coverage.h"
#include "store/reclaim/expirer.h"
#include "store/region/segments.h"

namespace remora {

/// Expirer of cold keys.
///
/// Thread safety: none; used by the writer, and not while it commits a group.
class ColdExpirer {
 public:
  /// Makes a cold expirer. If `tier` is null, it has nothing to do. It removes only keys of `slots` that
  /// `known` covers, because a cold entry with another key's hash could otherwise pass for theirs. All
  /// arguments must outlive it.
  ColdExpirer(DurableTier* tier, Index& index, Expirer& expirer, const OwnedSlots& slots,
              const LoadCoverage& known, const UnsyncedKeys& unsynced)
      : tier_(tier), index_(index), expirer_(expirer), slots_(slots), known_(known), unsynced_(unsynced) {}
  ColdExpirer(const ColdExpirer&) = delete;
  ColdExpirer& operator=(const ColdExpirer&) = delete;

  /// Notes the expiry (Segments::ExpiryOf) of a record whose key is cold.
  void NoteExpiry(std::int64_t expiry_ms) { due_ms_ = std::min(due_ms_, expiry_ms); }

  /// Looks at up to `entries` entries of the tier. False: nothing is due, or the tier cannot be read.
  bool Work(std::size_t entries, TimePoint now, std::int64_t unix_ms);

  /// Returns false only if no record of a cold key has expired.
  bool MayHaveExpired(std::int64_t unix_ms) const {
    return pass_ || due_ms_ <= unix_ms || (has_left_ && !unsynced_.empty());
  }

  /// Returns the time, by Clock::UnixMillis, at which Work next has something to do. Nothing: no expiry is
  /// noted.
  std::optional<std::int64_t> next_due_ms() const;

  /// Makes passes more frequent from now on, because a client watches changes and expects deletions soon.
  void SetWatched();

 private:
  struct Pass {
    std::string next;  // the key to go on with: no key before it is left to look at
    TimePoint began;
  };

  absl::Status Look(const DurableTier::Entry& entry, std::int64_t unix_ms);
  void End(TimePoint now, std::int64_t unix_ms);

  DurableTier* const tier_;
  Index& index_;
  Expirer& expirer_;
  const OwnedSlots& slots_;
  const LoadCoverage& known_;
  const UnsyncedKeys& unsynced_;
  std::optional<Pass> pass_;
  std::int64_t due_ms_ = Segments::kNoExpiry;  // the earliest expiry noted since the last pass began
  std::int64_t not_before_ms_ = 0;
  bool has_left_ =
      false;  // a pass has left a record with an expiry to a pending write, since none was pending
  bool watched_ = false;
};

}  // namespace remora
