// The evictor: what leaves memory when it is full of live records. With a durable tier, their keys become
// cold: the index still knows them, and whoever asks for one gets it from the tier. Without, they are gone.
//
// Segments stand in two queues (Segments::Queue), and the oldest of one is emptied (S3-FIFO; Yang, Zhang,
// Qiu, Yue and Vinayak, 2023). What was written or brought back begins in the first, which is kept short: a
// tenth of the log. Who was used again meanwhile is moved to the second, all others leave: so a scan goes by
// and takes nothing along. In the second, those that are used often are moved to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/index/index.h"
#include "store/reclaim/access_frequency.h"
#include "store/reclaim/cold_expirer.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Thread Safety: none; the writer's.
class Evictor {
 public:
  enum class Mode : std::uint8_t {
    kOff = 0,
    kMarkCold = 1,  // what leaves is in the durable tier
    kDrop = 2,      // it is nowhere else
  };

  /// All that it is given outlives it.
  /// `tier`: with kMarkCold, gets all that is in memory; null: it has that at once.
  Evictor(Mode mode, Segments& segments, ValueLog& log, Index& index, ColdExpirer& cold_expirer,
          const AccessFrequency& frequency, const DurableTier* tier)
      : mode_(mode),
        segments_(segments),
        log_(log),
        index_(index),
        cold_expirer_(cold_expirer),
        frequency_(frequency),
        tier_(tier) {}
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  bool is_on() const { return mode_ != Mode::kOff; }

  /// The segment of the log that is to be emptied next. Nothing: there is none, or eviction is off.
  std::optional<SegmentNumber> Next();

  /// Whether a live record of that segment is to be moved rather than evicted.
  bool Stays(const Place& place, std::uint64_t key_hash);

  /// Evicts the live record that `entry` leads to. False: the index has no room for a cold key there, or
  /// knows another one of this hash; or the tier does not have the record, and cannot take it.
  bool Evict(std::uint64_t key_hash, const Index::Entry& entry, TimePoint now);

  std::uint64_t evictions() const { return evictions_; }

 private:
  // Uses that let a record stay: its own writing or fetching is one.
  static constexpr std::uint32_t kUsedAgain = 2;

  const Mode mode_;
  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  ColdExpirer& cold_expirer_;
  const AccessFrequency& frequency_;
  const DurableTier* const tier_;

  Segments::Queue queue_ = Segments::Queue::kWritten;  // that of the segment that Next said last
  std::uint64_t judged_ = 0;           // bytes of it that Stays was asked about, and of these,
  std::uint64_t stayed_ = 0;           // those that stayed
  std::uint32_t enough_ = kUsedAgain;  // uses that let a record of the second queue stay
  std::uint64_t evictions_ = 0;
};

}  // namespace remora
