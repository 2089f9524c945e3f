#include "client/client_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/metrics/recorder.h"

namespace remora {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

std::vector<std::string> LinesOf(const std::string& text, std::string_view begin) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with(begin)) lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

TEST(ClientMetricsRegistry, NamesAreThoseOfOneMetricEach) {
  std::set<std::string> names, prometheus_names;
  for (const MetricEntry& entry : kClientMetrics) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(prometheus_names.insert(entry.prometheus_name).second) << entry.prometheus_name;
    EXPECT_TRUE(std::string_view(entry.prometheus_name).starts_with("remora_client_"));
    for (const MetricEntry& server : kMetrics) EXPECT_STRNE(entry.prometheus_name, server.prometheus_name);
  }
}

TEST(ClientMetricsRegistry, HasEachCounter) {
  // Each is a word, and none is left out.
  static_assert(std::size(kCounterMetrics) == sizeof(ClientCounters) / sizeof(std::uint64_t));
  ClientCounters counters;
  std::uint64_t next = 1;
  for (const auto& [metric, counter] : kCounterMetrics) counters.*counter = next++;
  ClientMetrics metrics;
  metrics.Set(counters);
  next = 1;
  for (const auto& [metric, counter] : kCounterMetrics) EXPECT_EQ(metrics[metric], next++);
}

TEST(ClientMetricsTest, AreAdded) {
  ClientRecorder one, other;
  one.RecordTime(ClientMetric::kGet, microseconds(3));
  one.RecordTime(ClientMetric::kGet, microseconds(90));
  other.RecordTime(ClientMetric::kGet, microseconds(3));
  other.RecordTime(ClientMetric::kPut, nanoseconds(-5));  // a clock that was set back counts as no time
  other.Add(ClientMetric::kValueBytesRead, 7);
  ClientMetrics sum = one.Snapshot();
  sum += other.Snapshot();
  EXPECT_EQ(HistogramCount(sum.Histogram(ClientMetric::kGet)), 3u);
  EXPECT_EQ(sum.Histogram(ClientMetric::kGet)[kHistogramSum], 96'000u);
  EXPECT_EQ(sum.Histogram(ClientMetric::kGet)[kHistogramMax], 90'000u);
  EXPECT_EQ(sum.Histogram(ClientMetric::kPut)[0], 1u);
  EXPECT_EQ(sum[ClientMetric::kValueBytesRead], 7u);
  sum += sum;
  EXPECT_EQ(sum.Histogram(ClientMetric::kGet)[kHistogramMax], 90'000u);
  EXPECT_EQ(sum[ClientMetric::kValueBytesRead], 14u);
}

TEST(ClientMetricsTest, AreShownByName) {
  ClientRecorder recorder;
  recorder.RecordTime(ClientMetric::kPut, microseconds(3));
  recorder.Publish({.requests = 5});
  std::map<std::string, std::uint64_t> shown;
  for (const auto& [name, value] : recorder.Snapshot().Shown()) shown[name] = value;
  EXPECT_EQ(shown["put_time_count"], 1u);
  EXPECT_EQ(shown["put_time_sum_ns"], 3000u);
  EXPECT_EQ(shown["put_time_max_ns"], 3000u);
  EXPECT_EQ(shown["get_time_count"], 0u);
  EXPECT_EQ(shown["requests"], 5u);
}

TEST(ClientMetricsTest, APathIsTheCostliestThingThatAGetDid) {
  EXPECT_EQ(PathOf({.reads = 2}), ClientMetric::kGetSearched);
  EXPECT_EQ(PathOf({.reads = 1, .location_hits = 1}), ClientMetric::kGetCached);
  EXPECT_EQ(PathOf({.reads = 9, .chunked = 1, .location_hits = 1}), ClientMetric::kGetChunked);
  EXPECT_EQ(PathOf({.reads = 9, .retries = 1, .chunked = 2}), ClientMetric::kGetRetried);
  EXPECT_EQ(PathOf({.reads = 9, .retries = 8, .locates = 1}), ClientMetric::kGetAsked);
  EXPECT_EQ(PathOf({.reads = 9, .retries = 8, .locates = 1, .cold = 1}), ClientMetric::kGetCold);
}

TEST(PrometheusTextTest, HasEachFamilyOnceWithALineForEachClient) {
  ClientRecorder recorder;
  recorder.RecordTime(ClientMetric::kGetCached, microseconds(3));
  recorder.RecordTime(ClientMetric::kGetCached, std::chrono::hours(1));
  recorder.Add(ClientMetric::kValueBytesRead, 12);
  const std::vector<NamedClientMetrics> clients = {{"a\\b\"c\nd", recorder.Snapshot()}, {"e", {}}};
  const std::string text = PrometheusText(clients);
  EXPECT_THAT(LinesOf(text, "# TYPE remora_client_get_seconds"),
              testing::ElementsAre("# TYPE remora_client_get_seconds histogram"));
  EXPECT_THAT(LinesOf(text, "# HELP remora_client_get_seconds"),
              testing::ElementsAre("# HELP remora_client_get_seconds Time of a Get by its path"));
  EXPECT_THAT(LinesOf(text, "remora_client_value_read_bytes_total"),
              testing::ElementsAre("remora_client_value_read_bytes_total{client=\"a\\\\b\\\"c\\nd\"} 12",
                                   "remora_client_value_read_bytes_total{client=\"e\"} 0"));
  EXPECT_THAT(LinesOf(text, "remora_client_get_seconds_count{client=\"a\\\\b\\\"c\\nd\",path=\"cached\"}"),
              testing::ElementsAre(testing::EndsWith(" 2")));
  EXPECT_THAT(LinesOf(text, "remora_client_get_seconds_sum{client=\"e\",path=\"cold\"}"),
              testing::ElementsAre(testing::EndsWith(" 0")));
  EXPECT_EQ(LinesOf(text, "remora_client_get_seconds_bucket").size(), 2 * 6 * kHistogramBuckets);
}

TEST(PrometheusTextTest, BucketsAddUp) {
  ClientRecorder recorder;
  recorder.RecordTime(ClientMetric::kGetCached, microseconds(3));
  recorder.RecordTime(ClientMetric::kGetCached, std::chrono::hours(1));
  const NamedClientMetrics client{"", recorder.Snapshot()};
  const std::string text = PrometheusText({&client, 1});
  const std::string bucket = "remora_client_get_seconds_bucket{path=\"cached\",le=";
  EXPECT_THAT(LinesOf(text, bucket + "\"2e-06\"}"), testing::ElementsAre(testing::EndsWith(" 0")));
  EXPECT_THAT(LinesOf(text, bucket + "\"4e-06\"}"), testing::ElementsAre(testing::EndsWith(" 1")));
  EXPECT_THAT(LinesOf(text, bucket + "\"+Inf\"}"), testing::ElementsAre(testing::EndsWith(" 2")));
  EXPECT_THAT(LinesOf(text, "remora_client_get_seconds_sum{path=\"cached\"}"),
              testing::ElementsAre(testing::EndsWith(" 3600")));
  EXPECT_THAT(LinesOf(text, "remora_client_reads_total"),
              testing::ElementsAre("remora_client_reads_total 0"));
  EXPECT_THAT(LinesOf(PrometheusText({}), "remora"), testing::IsEmpty());
}

}  // namespace
}  // namespace remora
