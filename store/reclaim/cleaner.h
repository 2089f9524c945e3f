// The cleaner, which makes segments free. It picks the segment that promises most (Segments::Best). If too
// few bytes are dead for that to pay, it picks the segment that the evictor names. It removes live records
// that have expired, moves the others to another segment or lets the evictor evict them, and retires the
// emptied segment (store/region/segments.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/base/clock.h"
#include "store/index/index.h"
#include "store/reclaim/evictor.h"
#include "store/reclaim/expirer.h"
#include "store/reclaim/large_mover.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Cleaner of a store's log.
///
/// Thread safety: none; used by the writer, and not while it commits a group, because a staged record that is
/// not published looks dead.
class Cleaner {
 public:
  Cleaner(Segments& segments, ValueLog& log, Index& index, Expirer& expirer, Evictor& evictor)
      : segments_(segments),
        log_(log),
        index_(index),
        expirer_(expirer),
        evictor_(evictor),
        mover_(segments, log, index) {}
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Looks at `bytes` of records or a few more, or copies a piece of a large record (LargeMover::kStep).
  /// False: cleaning would gain nothing, or there is no space to move a record to until retired memory
  /// becomes free.
  bool Work(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms);

  /// Does a step to empty the segment of large records whose records fit into the holes of others with the
  /// least work. False: there is none.
  bool EmptyLarge(std::int64_t unix_ms);
  /// Does a step to join holes between large records, by a move of a record of fewer than `most` bytes.
  /// False: no such move makes large holes larger.
  bool JoinHoles(std::uint64_t most, std::int64_t unix_ms);
  /// Returns whether a segment of large records is being emptied.
  bool is_emptying_large() const { return emptied_.has_value(); }
  /// Returns whether a large record is being moved.
  bool is_moving_large() const { return mover_.is_busy(); }

  std::uint64_t segments_cleaned() const { return segments_cleaned_; }

 private:
  /// Begins to move a live large record, and copies at most `*left` bytes. False: it must stay, or there is
  /// no space to move it to. REQUIRES: no large record is being moved.
  bool MoveLarge(std::uint64_t offset, std::uint64_t* left, std::int64_t unix_ms);
  bool PickVictim(TimePoint now);
  /// Moves or evicts a live record. False: neither is possible.
  bool MoveOrEvict(const Place& place, TimePoint now);
  /// Moves a live record. False: there is no space to move it to.
  bool Move(const Index::Entry& entry, std::string_view key, std::uint64_t key_hash, TimePoint now);

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  Expirer& expirer_;
  Evictor& evictor_;
  LargeMover mover_;
  std::optional<SegmentNumber> emptied_;  // the segment of large records that is being emptied
  std::optional<SegmentNumber> victim_;
  std::uint64_t victim_retired_ = 0;  // the victim's Segment::retired when the cleaner picked it
  bool evicting_ = false;             // the evictor named the victim
  std::uint64_t next_ = 0;            // offset of the victim's next record to look at
  std::uint64_t segments_cleaned_ = 0;
};

}  // namespace remora
