// The registry of metrics, and the format of histograms (store/format/memory).
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/histogram.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/metric_registry.h"
#include "store/format/memory/record.h"
#include "store/format/memory/shown_metrics.h"

namespace remora {
namespace {

TEST(MetricRegistryTest, EachEntryHasItsOwnNames) {
  std::set<std::string> names;
  std::set<std::string> prometheus_names;
  for (const MetricEntry& entry : kMetrics) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(prometheus_names.insert(entry.prometheus_name).second) << entry.prometheus_name;
    EXPECT_GT(std::string(entry.help).size(), 5u) << entry.name;
  }
}

TEST(MetricRegistryTest, NamesFollowTheConventionsOfPrometheus) {
  const std::regex name("remora_[a-z][a-z_]*[a-z](\\{[a-z]+=[a-z_]+\\})?");
  for (const MetricEntry& entry : kMetrics) {
    std::string rest = entry.prometheus_name;
    EXPECT_TRUE(std::regex_match(rest, name)) << rest;
    const auto ends_with = [&rest](const std::string& end) {
      const bool it_does = rest.ends_with(end);
      if (it_does) rest.resize(rest.size() - end.size());
      return it_does;
    };
    rest = rest.substr(0, rest.find('{'));
    EXPECT_EQ(ends_with("_total"), entry.type == MetricType::kCounter) << entry.prometheus_name;
    EXPECT_EQ(ends_with("_bytes"), entry.unit == MetricUnit::kBytes) << entry.prometheus_name;
    EXPECT_EQ(ends_with("_seconds"), entry.unit == MetricUnit::kSeconds) << entry.prometheus_name;
  }
}

// Programs of other releases READ these places. A new metric goes behind all others. It changes no place
// here, and raises kPinned.
TEST(MetricRegistryTest, EntriesNeverMove) {
  constexpr std::size_t kPinned = 116;
  ASSERT_GE(kMetricCount, kPinned);
  std::string names;
  for (std::size_t i = 0; i < kPinned; ++i) names += std::string(kMetrics[i].name) + "\n";
  EXPECT_EQ(HashKey(names), 0xac232c75efa76935u) << names;
  EXPECT_STREQ(kMetrics[static_cast<std::size_t>(Metric::kKeys)].name, "keys");
  EXPECT_STREQ(kMetrics[static_cast<std::size_t>(Metric::kWakeups)].name, "wakeups");
  EXPECT_EQ(static_cast<std::size_t>(Metric::kConnectionsLocal), 64u);
  EXPECT_EQ(static_cast<std::size_t>(Metric::kCommitTime), 68u);
  EXPECT_EQ(static_cast<std::size_t>(Metric::kSyncTime), 68u + 22);
  EXPECT_EQ(static_cast<std::size_t>(Metric::kCommitLogUnapplied), 68u + 4 * 22);
}

TEST(MetricRegistryTest, EachBeginsWhereTheOneBeforeEnds) {  // R3
  std::size_t place = 0;
  for (const MetricEntry& entry : kMetrics) {
    EXPECT_EQ(entry.place, place) << entry.name;
    place += entry.type == MetricType::kHistogram ? kHistogramPlaces : 1;
  }
  EXPECT_EQ(kMetricPlaces, place);
}

TEST(MetricRegistryTest, TheSignatureHoldsItsCapacityNotItsSize) {
  EXPECT_EQ(LayoutSignature(), 0x4f9b2bb37b242002u)
      << "a client and a server of different releases may not talk any more";
}

TEST(MetricRegistryTest, AProgramShowsTheEntriesThatItAndTheServerKnow) {
  EXPECT_EQ(SharedMetricCount(0), 0u);
  EXPECT_EQ(SharedMetricCount(kMetricPlaces - 1), kMetricCount - 1);
  EXPECT_EQ(SharedMetricCount(kMetricPlaces), kMetricCount);
  EXPECT_EQ(SharedMetricCount(kMetricPlaces + 1), kMetricCount);
  EXPECT_EQ(SharedMetricCount(~std::uint64_t{0}), kMetricCount);
}

TEST(MetricRegistryTest, OfAHistogramAllPlacesAreShownOrNone) {  // R2
  std::vector<std::uint64_t> values(kMetricPlaces, 0);
  const auto place = static_cast<std::size_t>(Metric::kCommitTime);
  values[place + HistogramBucket(1500)] = 99;
  values[place + HistogramBucket(3'000'000)] = 1;
  values[place + kHistogramSum] = 5;
  values[place + kHistogramMax] = 3'000'000;
  const auto all = ShownMetrics(values);
  const std::vector<std::pair<std::string, std::uint64_t>> wanted = {{"commit_time_count", 100},
                                                                     {"commit_time_sum_ns", 5},
                                                                     {"commit_time_p50_ns", 1505},
                                                                     {"commit_time_p99_ns", 2000},
                                                                     {"commit_time_max_ns", 3'000'000}};
  EXPECT_EQ(std::vector(all.begin() + 68, all.begin() + 73), wanted);
  EXPECT_EQ(all.size(), kMetricCount + 5 * 4);
  values.resize(place + kHistogramPlaces - 1);
  EXPECT_EQ(ShownMetrics(values).back().first, "connections_verbs");
}

// --- Histograms -----------------------------------------------------------------------------------------

TEST(HistogramTest, ABoundBelongsToItsBucketAndTheNextTimeDoesNot) {
  EXPECT_EQ(HistogramBucket(0), 0u);
  EXPECT_EQ(HistogramBucket(1), 0u);
  for (std::size_t i = 0; i + 1 < kHistogramBuckets; ++i) {
    EXPECT_EQ(HistogramBucket(HistogramBound(i)), i);
    EXPECT_EQ(HistogramBucket(HistogramBound(i) + 1), i + 1);
  }
  EXPECT_EQ(HistogramBucket(~std::uint64_t{0}), kHistogramBuckets - 1);
  EXPECT_EQ(HistogramBound(0), 1000u);
  EXPECT_EQ(HistogramBound(12), 4'096'000u);
  EXPECT_EQ(HistogramBound(13), 16'384'000u);
  EXPECT_EQ(HistogramBound(18), 16'777'216'000u);
}

TEST(HistogramTest, PercentilesLieInTheirBucketAndNotAboveTheMaximum) {
  std::array<std::uint64_t, kHistogramPlaces> times{};
  EXPECT_EQ(HistogramPercentile(times, 99), 0u);
  times[HistogramBucket(100'000)] = 1000;
  times[kHistogramMax] = 100'000;
  EXPECT_EQ(HistogramPercentile(times, 0), 64'000u);
  EXPECT_EQ(HistogramPercentile(times, 50), 96'000u);
  EXPECT_EQ(HistogramPercentile(times, 100), 100'000u) << "the bucket ends at 128000";
  times[kHistogramBuckets - 1] = 1000;
  times[kHistogramMax] = 60'000'000'000;
  EXPECT_EQ(HistogramPercentile(times, 50), 128'000u);
  EXPECT_EQ(HistogramPercentile(times, 100), 60'000'000'000u);
  // A READ may tear: the maximum is older than the time that is in a bucket.
  times[kHistogramMax] = 0;
  EXPECT_EQ(HistogramPercentile(times, 100), 0u);
}

}  // namespace
}  // namespace remora
