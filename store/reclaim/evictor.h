// The evictor, which chooses the records that leave memory when it is full of live records. With a durable
// tier, their keys become cold: the index keeps them, and a client that asks for one gets it from the tier.
// Without a durable tier, they are lost.
//
// Segments stand in two queues (Segments::Queue), and the cleaner empties the oldest segment of one (S3-FIFO;
// Yang, Zhang, Qiu, Yue and Vinayak, 2023). Records that were written or promoted begin in the first queue,
// which is kept short: a tenth of the log. From there, a record that was used again moves to the second
// queue, and all others leave memory. So a scan displaces nothing in the second queue. From the head of the
// second queue, records that are used often move to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/base/clock.h"
#include "store/changes/change_ring.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/index/index.h"
#include "store/ordered/ordered_index.h"
#include "store/reclaim/access_frequency.h"
#include "store/reclaim/cold_expirer.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Evictor of a store.
///
/// Thread safety: none; used by the writer.
class Evictor {
 public:
  enum class Mode : std::uint8_t {
    kOff = 0,
    kMarkCold = 1,  // an evicted record is in the durable tier
    kDrop = 2,      // an evicted record is lost
  };

  /// Makes an evictor. All arguments must outlive it. With kMarkCold, it asks `tier` whether the tier has a
  /// record before it evicts that record. Null: the tier has every record at once. `changes`: null, or
  /// the change log, in which kDrop is a deletion. `ordered`: null, or the index that lists the keys.
  /// `unsynced`: their records stay for it (V7 of ordered_index.h).
  Evictor(Mode mode, Segments& segments, ValueLog& log, Index& index, OrderedIndex* ordered,
          ColdExpirer& cold_expirer, const AccessFrequency& frequency, const DurableTier* tier,
          ChangeRing* changes, const UnsyncedKeys& unsynced)
      : mode_(mode),
        segments_(segments),
        log_(log),
        index_(index),
        ordered_(ordered),
        cold_expirer_(cold_expirer),
        frequency_(frequency),
        tier_(tier),
        changes_(changes),
        unsynced_(unsynced) {}
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  bool is_on() const { return mode_ != Mode::kOff; }

  /// Returns the segment of the log that the cleaner should empty next. Nothing: there is none, or eviction
  /// is off.
  std::optional<SegmentNumber> Next();

  /// Returns whether the cleaner should move a live record of that segment rather than evict it.
  bool Stays(const Place& place, std::uint64_t key_hash);

  /// Returns whether a record that is in the tier alone, and is used now, should come back to memory: it
  /// would stay there. It was used as often as records of the second queue that stay.
  bool Admits(std::uint64_t key_hash) const { return frequency_.Of(key_hash) + 1 >= enough_; }

  /// Returns whether nothing is lost if the record leaves (C6 of store/durable/tier_log/tier_log.h). False:
  /// the tier does not have it, and the disk fails.
  bool MayLeave(const Place& place) const;

  /// Evicts the live record to which `entry` leads. False: the record stays, for one of these reasons:
  ///   - The index has no space there for a cold key.
  ///   - The index has a cold key with the same hash.
  ///   - There is an ordered index, and the key has a pending write.
  ///   - It may not leave.
  bool Evict(std::uint64_t key_hash, const Index::Entry& entry, TimePoint now);

  std::uint64_t evictions() const { return evictions_; }

 private:
  // Uses with which a record stays; writing or promoting it counts as one.
  static constexpr std::uint32_t kUsedAgain = 2;

  const Mode mode_;
  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  OrderedIndex* const ordered_;
  ColdExpirer& cold_expirer_;
  const AccessFrequency& frequency_;
  const DurableTier* const tier_;
  ChangeRing* const changes_;
  const UnsyncedKeys& unsynced_;

  Segments::Queue queue_ = Segments::Queue::kWritten;  // of the segment that Next last returned
  std::uint64_t judged_ = 0;                           // bytes of that segment for which Stays was called
  std::uint64_t stayed_ = 0;                           // bytes among these for which it returned true
  std::uint32_t enough_ = kUsedAgain;                  // uses with which a record of the second queue stays
  std::uint64_t evictions_ = 0;
};

}  // namespace remora
