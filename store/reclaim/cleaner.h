// The cleaner: makes free segments. It picks the one that promises most, or, where too little is dead to be
// worth it, the one that the evictor says. It moves the records that are live to another, removes them if
// they have expired, or lets the evictor take them, and retires the emptied one (store/region/segments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/base/clock.h"
#include "store/index/index.h"
#include "store/reclaim/evictor.h"
#include "store/reclaim/expirer.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Thread Safety: none; the writer's. Not while a group is being committed: what is staged and not published
/// looks dead.
class Cleaner {
 public:
  Cleaner(Segments& segments, ValueLog& log, Index& index, Expirer& expirer, Evictor& evictor)
      : segments_(segments), log_(log), index_(index), expirer_(expirer), evictor_(evictor) {}
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Looks at `bytes` of records or a few more. False: there is nothing that cleaning would gain, or nowhere
  /// to move a record to until a retired segment is free.
  bool Work(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms);

  std::uint64_t segments_cleaned() const { return segments_cleaned_; }

 private:
  bool PickVictim(TimePoint now);
  /// Moves or evicts a live record. False: neither is possible.
  bool Rehouse(const Place& place, TimePoint now);
  /// False: nowhere to move it to.
  bool Move(const Index::Entry& entry, std::string_view key, std::uint64_t key_hash, TimePoint now);

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  Expirer& expirer_;
  Evictor& evictor_;
  std::optional<SegmentNumber> victim_;
  std::uint64_t victim_retired_ = 0;  // Segment::retired, when it was picked
  bool evicting_ = false;             // it was picked by the evictor
  std::uint64_t next_ = 0;            // offset of the victim's first record that was not looked at
  std::uint64_t segments_cleaned_ = 0;
};

}  // namespace remora
