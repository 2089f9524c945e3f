// The metrics of a store, in its superblock, where clients READ them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/base/clock.h"
#include "store/format/memory/histogram.h"
#include "store/format/memory/layout.h"
#include "store/region/atomic_word.h"

namespace remora {

/// Counts the operations of a store, and its contents. All accesses are relaxed: the counters are independent
/// numbers, and no code concludes from one of them anything about other memory.
///
/// Thread safety: any thread may call all members. A counter changes either by Add, or by Set and CountOne;
/// only one thread at a time uses the latter.
class Metrics {
 public:
  /// `superblock` must outlive this object.
  explicit Metrics(Superblock& superblock) : superblock_(superblock) {}

  void Add(Metric metric, std::int64_t delta) const {
    std::atomic_ref(At(metric)).fetch_add(static_cast<std::uint64_t>(delta), std::memory_order_relaxed);
  }
  void Set(Metric metric, std::uint64_t value) const {
    StoreWord(At(metric), value, std::memory_order_relaxed);
  }
  /// Adds one with a plain load and store. Add is a memory barrier, which would wait for all earlier stores.
  void CountOne(Metric metric) const { Set(metric, Read(metric) + 1); }
  std::uint64_t Read(Metric metric) const { return LoadWord(At(metric), std::memory_order_relaxed); }
  /// Counts a time in a histogram, with plain loads and stores. One thread at a time does it for each
  /// histogram.
  void Record(Metric histogram, Duration took) const {
    const auto ns = static_cast<std::uint64_t>(
        std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(), 0));
    const auto place = [histogram](std::size_t i) {
      return static_cast<Metric>(static_cast<std::size_t>(histogram) + i);
    };
    CountOne(place(HistogramBucket(ns)));
    Set(place(kHistogramSum), Read(place(kHistogramSum)) + ns);
    if (ns > Read(place(kHistogramMax))) Set(place(kHistogramMax), ns);
  }

  /// Returns the values of all places of the registry.
  std::vector<std::uint64_t> ReadPlaces() const;
  /// Returns all metrics as (name, value), in a fixed order (ShownMetrics).
  std::vector<std::pair<std::string, std::uint64_t>> ReadAll() const;

 private:
  std::uint64_t& At(Metric metric) const { return superblock_.counters[static_cast<std::size_t>(metric)]; }

  Superblock& superblock_;
};

}  // namespace remora
