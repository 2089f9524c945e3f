// The cleaner: makes free segments out of dead bytes. It picks the segment that promises most, moves the
// records that are live to another, or removes them if they have expired, and lets the emptied one rest
// (store/segments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/base/clock.h"
#include "store/index.h"
#include "store/segments.h"
#include "store/sweeper.h"
#include "store/value_log.h"

namespace remora {

/// Thread Safety: none; the writer's. Not while a group is being committed: what is staged and not published
/// looks dead.
class Cleaner {
 public:
  Cleaner(Segments& segments, ValueLog& log, Index& index, Sweeper& sweeper)
      : segments_(segments), log_(log), index_(index), sweeper_(sweeper) {}
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Looks at `bytes` of records or a few more. False: there is nothing that cleaning would gain, or nowhere
  /// to move a record to until a segment has rested.
  bool Work(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms);

  /// Whether it is worth it at the moment.
  bool HasWork(TimePoint now) const { return victim_.has_value() || segments_.Best(now).has_value(); }

  std::uint64_t segments_cleaned() const { return segments_cleaned_; }

 private:
  /// False: nowhere to move it to.
  bool Move(const Place& place, TimePoint now);

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  Sweeper& sweeper_;
  std::optional<SegmentNumber> victim_;
  std::uint64_t victim_retired_ = 0;  // Segment::retired, when it was picked
  std::uint64_t next_ = 0;            // offset of the victim's first record that was not looked at
  std::uint64_t segments_cleaned_ = 0;
};

}  // namespace remora
