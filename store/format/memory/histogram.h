// A histogram of times in registered memory. One thread at a time records; any reader may read.
//
//   ┌──────────┬──────────┬─────┬───────────┬────────┬────────┐
//   │ bucket 0 │ bucket 1 │ ... │ bucket 19 │ sum_ns │ max_ns │   8 bytes each
//   └──────────┴──────────┴─────┴───────────┴────────┴────────┘
//
// Bucket i counts the times up to HistogramBound(i), and above the bound before it: 1, 2, 4, ... 4096 us,
// then 16.4, 65.5, 262 ms, 1.05, 4.2 and 16.8 s. The last bucket has no bound. The number of times is the sum
// of the buckets. So it never contradicts them, and a record has no word of its own for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace remora {

inline constexpr std::size_t kHistogramBuckets = 20;
inline constexpr std::size_t kHistogramSum = kHistogramBuckets;      // place of sum_ns
inline constexpr std::size_t kHistogramMax = kHistogramBuckets + 1;  // place of max_ns
inline constexpr std::size_t kHistogramPlaces = kHistogramBuckets + 2;

/// Up to this bucket, each bound is twice the one before; from there on, four times.
inline constexpr std::size_t kHistogramDoublings = 12;

/// Returns the upper bound of a bucket, in nanoseconds; it belongs to the bucket. REQUIRES: `bucket` is not
/// the last one.
constexpr std::uint64_t HistogramBound(std::size_t bucket) {
  const std::size_t quadruplings = bucket - std::min(bucket, kHistogramDoublings);
  return std::uint64_t{1000} << (bucket + quadruplings);
}

/// Returns the bucket of a time in nanoseconds.
constexpr std::size_t HistogramBucket(std::uint64_t ns) {
  const auto doublings = static_cast<std::size_t>(std::bit_width((ns - (ns > 0 ? 1 : 0)) / 1000));
  if (doublings <= kHistogramDoublings) return doublings;
  return std::min((kHistogramDoublings + doublings + 1) / 2, kHistogramBuckets - 1);
}

/// Returns the number of times that the histogram has counted.
constexpr std::uint64_t HistogramCount(std::span<const std::uint64_t, kHistogramPlaces> histogram) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) count += histogram[i];
  return count;
}

/// Returns about the time, in nanoseconds, that `percent` of the times do not exceed: as if the times of a
/// bucket lay at equal distances in it. 0: there is none. REQUIRES: `percent` is 0 to 100.
constexpr std::uint64_t HistogramPercentile(std::span<const std::uint64_t, kHistogramPlaces> histogram,
                                            double percent) {
  const auto wanted = static_cast<double>(HistogramCount(histogram)) * percent / 100;
  double before = 0;
  std::uint64_t bound = 0;
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) {
    const auto count = static_cast<double>(histogram[i]);
    const std::uint64_t next =
        i + 1 < kHistogramBuckets ? HistogramBound(i) : std::max(bound, histogram[kHistogramMax]);
    if (count > 0 && before + count >= wanted) {
      const double share = (wanted - before) / count;
      const std::uint64_t found =
          bound + static_cast<std::uint64_t>(static_cast<double>(next - bound) * share);
      return std::min(found, histogram[kHistogramMax]);
    }
    before += count;
    bound = next;
  }
  return 0;
}

}  // namespace remora
