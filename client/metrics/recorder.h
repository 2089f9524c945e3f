// Records the metrics of one client while it works (ClientOptions::metrics).
//
//   M1  Only the client's thread writes, with plain loads and stores. So recording needs no locked
//       instruction.
//
//   M2  Each number is one word that is stored with one access. A thread that takes a snapshot meanwhile
//       sees each number before or after a call, but perhaps not all of one call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "client/client_metrics.h"
#include "client/counters.h"
#include "store/base/clock.h"
#include "store/format/memory/histogram.h"

namespace remora {

/// Returns the histogram of a Get's path, by what the client counted during it.
inline ClientMetric PathOf(const ClientCounters& did) {
  if (did.cold > 0) return ClientMetric::kGetCold;
  if (did.locates > 0) return ClientMetric::kGetAsked;
  if (did.retries > 0) return ClientMetric::kGetRetried;
  if (did.chunked > 0) return ClientMetric::kGetChunked;
  return did.location_hits > 0 ? ClientMetric::kGetCached : ClientMetric::kGetSearched;
}

/// Counts the calls of one client, with histograms of their times.
///
/// Thread safety: Snapshot may be called from any thread; one thread at a time calls the other functions.
class ClientRecorder {
 public:
  /// Counts a call with its time and outcome.
  void RecordCall(ClientMetric call, Duration took, const absl::Status& status) {
    RecordTime(call, took);
    if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsUnknown(status)) {
      Add(ClientMetric::kUnanswered, 1);
    }
  }

  /// Counts a time in a histogram.
  void RecordTime(ClientMetric histogram, Duration took) {
    const std::int64_t elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
    const std::uint64_t ns = elapsed > 0 ? static_cast<std::uint64_t>(elapsed) : 0;
    const auto first = static_cast<std::size_t>(histogram);
    AddAt(first + HistogramBucket(ns), 1);
    AddAt(first + kHistogramSum, ns);
    std::atomic<std::uint64_t>& max = places_[first + kHistogramMax];
    if (ns > max.load(std::memory_order_relaxed)) max.store(ns, std::memory_order_relaxed);
  }

  void Add(ClientMetric counter, std::uint64_t count) { AddAt(static_cast<std::size_t>(counter), count); }

  /// Shows the counters of the client to other threads.
  void Publish(const ClientCounters& counters) {
    for (const auto& [metric, counter] : kCounterMetrics) {
      places_[static_cast<std::size_t>(metric)].store(counters.*counter, std::memory_order_relaxed);
    }
  }

  ClientMetrics Snapshot() const {
    ClientMetrics metrics;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      metrics.values()[i] = places_[i].load(std::memory_order_relaxed);
    }
    return metrics;
  }

 private:
  // Relaxed: the numbers are independent, and no code concludes anything about other memory from them.
  void AddAt(std::size_t place, std::uint64_t count) {
    std::atomic<std::uint64_t>& value = places_[place];
    value.store(value.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, kClientMetricPlaces> places_{};
};

}  // namespace remora
