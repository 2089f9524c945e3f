// Metrics of clients, for the program that has them: the number of its calls, the time that they took, and
// the paths of its GETs. A program exports them with its own metrics:
//
//   auto client = remora::Client::Connect(address, {.metrics = true});
//   ...
//   const remora::NamedClientMetrics mine{"", (*client)->metrics()};      // from any thread
//   response.set_content(remora::PrometheusText({&mine, 1}), "text/plain");
//
// docs/operating/metrics.md shows what the registry below has; tools/metrics-pages writes it there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/client_pool_counters.h"
#include "client/counters.h"
#include "store/format/memory/histogram.h"
#include "store/format/memory/metric_registry.h"

namespace remora {

// As REMORA_METRICS (store/format/memory/metric_registry.h), for numbers that stay in the client's process.
#define REMORA_CLIENT_METRICS(X)                                                                            \
  X(kGet, "get_time", "remora_client_call_seconds{call=get}", kHistogram, kSeconds, "Time of a call: Get")  \
  X(kMultiGet, "multi_get_time", "remora_client_call_seconds{call=multi_get}", kHistogram, kSeconds,        \
    "Time of a call: MultiGet, with all its keys")                                                          \
  X(kExists, "exists_time", "remora_client_call_seconds{call=exists}", kHistogram, kSeconds,                \
    "Time of a call: Exists")                                                                               \
  X(kPut, "put_time", "remora_client_call_seconds{call=put}", kHistogram, kSeconds, "Time of a call: Put")  \
  X(kMultiPut, "multi_put_time", "remora_client_call_seconds{call=multi_put}", kHistogram, kSeconds,        \
    "Time of a call: MultiPut, with all its writes")                                                        \
  X(kDelete, "delete_time", "remora_client_call_seconds{call=delete}", kHistogram, kSeconds,                \
    "Time of a call: Delete")                                                                               \
  X(kTouch, "touch_time", "remora_client_call_seconds{call=touch}", kHistogram, kSeconds,                   \
    "Time of a call: Touch and Persist")                                                                    \
  X(kIncrement, "increment_time", "remora_client_call_seconds{call=increment}", kHistogram, kSeconds,       \
    "Time of a call: Increment")                                                                            \
  X(kAppend, "append_time", "remora_client_call_seconds{call=append}", kHistogram, kSeconds,                \
    "Time of a call: Append")                                                                               \
  X(kApply, "apply_time", "remora_client_call_seconds{call=apply}", kHistogram, kSeconds,                   \
    "Time of a call: Apply, with its whole batch")                                                          \
  X(kOther, "other_time", "remora_client_call_seconds{call=other}", kHistogram, kSeconds,                   \
    "Time of a call: any other one, such as Ttl, Ping, Count, or the start of a scan")                      \
  X(kGetCached, "get_cached_time", "remora_client_get_seconds{path=cached}", kHistogram, kSeconds,          \
    "Time of a Get by its path: one READ, of a cached location")                                            \
  X(kGetSearched, "get_searched_time", "remora_client_get_seconds{path=searched}", kHistogram, kSeconds,    \
    "Time of a Get by its path: READs of a bucket and of the record, if the key exists")                    \
  X(kGetChunked, "get_chunked_time", "remora_client_get_seconds{path=chunked}", kHistogram, kSeconds,       \
    "Time of a Get by its path: a value read in pieces, as it is large or goes to registered memory")       \
  X(kGetRetried, "get_retried_time", "remora_client_get_seconds{path=retried}", kHistogram, kSeconds,       \
    "Time of a Get by its path: begun again, because it read a torn or dead record")                        \
  X(kGetAsked, "get_asked_time", "remora_client_get_seconds{path=asked}", kHistogram, kSeconds,             \
    "Time of a Get by its path: it asked the server for the place of the record")                           \
  X(kGetCold, "get_cold_time", "remora_client_get_seconds{path=cold}", kHistogram, kSeconds,                \
    "Time of a Get by its path: the record was only in the server's durable tier")                          \
  X(kUnanswered, "unanswered", "remora_client_unanswered_calls_total", kCounter, kNone,                     \
    "Calls that ended with Unavailable, DeadlineExceeded or Unknown")                                       \
  X(kValueBytesRead, "value_bytes_read", "remora_client_value_read_bytes_total", kCounter, kBytes,          \
    "Bytes of values that Get and MultiGet returned")                                                       \
  X(kValueBytesWritten, "value_bytes_written", "remora_client_value_written_bytes_total", kCounter, kBytes, \
    "Bytes of values that Put and MultiPut stored")                                                         \
  X(kReads, "reads", "remora_client_reads_total", kCounter, kNone,                                          \
    "One-sided READs, or copies through a mapping in their place")                                          \
  X(kRequests, "requests", "remora_client_requests_total", kCounter, kNone,                                 \
    "Messages sent, each one round trip")                                                                   \
  X(kRetries, "retries", "remora_client_retries_total", kCounter, kNone,                                    \
    "Reads begun again because they met a torn or dead record")                                             \
  X(kLocates, "locates", "remora_client_locates_total", kCounter, kNone,                                    \
    "Reads that asked the server for the place of a record")                                                \
  X(kCold, "cold", "remora_client_cold_reads_total", kCounter, kNone,                                       \
    "Reads of records that were only in the server's durable tier")                                         \
  X(kChunked, "chunked", "remora_client_chunked_reads_total", kCounter, kNone, "Reads of values in pieces") \
  X(kLocationHits, "location_hits", "remora_client_location_hits_total", kCounter, kNone,                   \
    "READs of a cached location that had the value")                                                        \
  X(kLocationFalseHits, "location_false_hits", "remora_client_location_false_hits_total", kCounter, kNone,  \
    "READs of a cached location that had not")                                                              \
  X(kGenerationReads, "generation_reads", "remora_client_generation_reads_total", kCounter, kNone,          \
    "READs of segment generations, for the location cache and the index mirror")                            \
  X(kMirrorHits, "mirror_hits", "remora_client_mirror_hits_total", kCounter, kNone,                         \
    "READs of a place from the index mirror that had the value")                                            \
  X(kMirrorFalseHits, "mirror_false_hits", "remora_client_mirror_false_hits_total", kCounter, kNone,        \
    "READs of a place from the index mirror that had not")                                                  \
  X(kMirrorReads, "mirror_reads", "remora_client_mirror_reads_total", kCounter, kNone,                      \
    "READs that made the index mirror, or kept it fresh")                                                   \
  X(kMirrorReadBytes, "mirror_read_bytes", "remora_client_mirror_read_bytes_total", kCounter, kBytes,       \
    "Bytes of the READs that made the index mirror, or kept it fresh")                                      \
  X(kReconnects, "reconnects", "remora_client_reconnects_total", kCounter, kNone,                           \
    "Connections made after the first one of a client")                                                     \
  X(kCompletionQueries, "completion_queries", "remora_client_completion_queries_total", kCounter, kNone,    \
    "Writes whose answer was lost, so the client asked the server for it")                                  \
  X(kPoolInUse, "pool_in_use", "remora_client_pool_in_use", kGauge, kNone,                                  \
    "Clients of a pool that threads have, or that are being connected for them")                            \
  X(kPoolIdle, "pool_idle", "remora_client_pool_idle", kGauge, kNone,                                       \
    "Clients of a pool that no thread has")                                                                 \
  X(kPoolWaiting, "pool_waiting", "remora_client_pool_waiting_threads", kGauge, kNone,                      \
    "Threads that wait for a client of a pool")                                                             \
  X(kPoolAcquires, "pool_acquires", "remora_client_pool_acquires_total", kCounter, kNone,                   \
    "Calls that asked a pool for a client")                                                                 \
  X(kPoolWaits, "pool_waits", "remora_client_pool_waits_total", kCounter, kNone,                            \
    "Calls that had to wait, as all clients of the pool were in use")                                       \
  X(kPoolTimeouts, "pool_timeouts", "remora_client_pool_timeouts_total", kCounter, kNone,                   \
    "Calls that got no client, as all were in use for too long")                                            \
  X(kPoolConnects, "pool_connects", "remora_client_pool_connects_total", kCounter, kNone,                   \
    "Clients that a pool connected")                                                                        \
  X(kPoolConnectFailures, "pool_connect_failures", "remora_client_pool_connect_failures_total", kCounter,   \
    kNone, "Attempts of a pool to connect a client that failed")                                            \
  X(kPoolReplaced, "pool_replaced", "remora_client_pool_replaced_total", kCounter, kNone,                   \
    "Clients that a pool replaced because they were lost")

/// The places of the metrics in a snapshot.
enum class ClientMetric : std::uint32_t {
// The second enumerator is the last place, behind which the next metric begins.
#define REMORA_CLIENT_METRIC_ENUMERATOR(place, name, prometheus_name, type, unit, help) \
  place, place##Last = place + MetricPlaces(MetricType::type) - 1,
  REMORA_CLIENT_METRICS(REMORA_CLIENT_METRIC_ENUMERATOR)
#undef REMORA_CLIENT_METRIC_ENUMERATOR
};

/// The registry's entries, in its order.
inline constexpr MetricEntry kClientMetrics[] = {
#define REMORA_CLIENT_METRIC_ENTRY(place, name, prometheus_name, type, unit, help) \
  {name,                                                                           \
   prometheus_name,                                                                \
   MetricType::type,                                                               \
   MetricUnit::unit,                                                               \
   help,                                                                           \
   static_cast<std::uint32_t>(ClientMetric::place)},
    REMORA_CLIENT_METRICS(REMORA_CLIENT_METRIC_ENTRY)
#undef REMORA_CLIENT_METRIC_ENTRY
};

/// Places that the metrics take.
inline constexpr std::size_t kClientMetricPlaces =
    kClientMetrics[std::size(kClientMetrics) - 1].place +
    MetricPlaces(kClientMetrics[std::size(kClientMetrics) - 1].type);

/// The metrics that ClientCounters has.
inline constexpr std::pair<ClientMetric, std::uint64_t ClientCounters::*> kCounterMetrics[] = {
    {ClientMetric::kReads, &ClientCounters::reads},
    {ClientMetric::kRequests, &ClientCounters::requests},
    {ClientMetric::kRetries, &ClientCounters::retries},
    {ClientMetric::kLocates, &ClientCounters::locates},
    {ClientMetric::kCold, &ClientCounters::cold},
    {ClientMetric::kChunked, &ClientCounters::chunked},
    {ClientMetric::kLocationHits, &ClientCounters::location_hits},
    {ClientMetric::kLocationFalseHits, &ClientCounters::location_false_hits},
    {ClientMetric::kGenerationReads, &ClientCounters::generation_reads},
    {ClientMetric::kMirrorHits, &ClientCounters::mirror_hits},
    {ClientMetric::kMirrorFalseHits, &ClientCounters::mirror_false_hits},
    {ClientMetric::kMirrorReads, &ClientCounters::mirror_reads},
    {ClientMetric::kMirrorReadBytes, &ClientCounters::mirror_read_bytes},
    {ClientMetric::kReconnects, &ClientCounters::reconnects},
    {ClientMetric::kCompletionQueries, &ClientCounters::completion_queries},
};

/// Values of all metrics, of one client, or of several together. Each value was right at some moment of the
/// call that returned the snapshot; these moments may differ. Times are in nanoseconds, sizes in bytes.
///
/// Thread safety: any thread may call const functions while no thread calls another function.
class ClientMetrics {
 public:
  /// Returns the value of a counter or gauge.
  std::uint64_t operator[](ClientMetric metric) const { return values_[static_cast<std::size_t>(metric)]; }
  /// Returns a histogram (store/format/memory/histogram.h). REQUIRES: `metric` is one.
  std::span<const std::uint64_t, kHistogramPlaces> Histogram(ClientMetric metric) const {
    return std::span(values_).subspan(static_cast<std::size_t>(metric)).first<kHistogramPlaces>();
  }
  /// Sets the value of a counter or gauge.
  void Set(ClientMetric metric, std::uint64_t value) { values_[static_cast<std::size_t>(metric)] = value; }
  /// Sets the metrics that such counters have (kCounterMetrics).
  void Set(const ClientCounters& counters);
  /// Sets the metrics of a pool.
  void Set(const ClientPoolCounters& counters);
  /// Returns all places, by ClientMetric. Valid as long as this object.
  std::span<std::uint64_t, kClientMetricPlaces> values() { return values_; }
  std::span<const std::uint64_t, kClientMetricPlaces> values() const { return values_; }

  /// Adds the metrics of other clients. The maximum of a histogram becomes the larger one.
  ClientMetrics& operator+=(const ClientMetrics& other);

  /// Returns name and number of each, in the order of the registry. A histogram becomes five numbers, with
  /// the ends _count, _sum_ns, _p50_ns, _p99_ns and _max_ns behind its name.
  std::vector<std::pair<std::string, std::uint64_t>> Shown() const;

 private:
  std::array<std::uint64_t, kClientMetricPlaces> values_{};
};

/// Metrics of one client or pool, under a name.
struct NamedClientMetrics {
  std::string name;  // any UTF-8; becomes the label `client`. Empty: no label
  ClientMetrics metrics;
};

/// Returns the metrics in the text format of Prometheus, version 0.0.4
/// (https://prometheus.io/docs/instrumenting/exposition_formats/): times in seconds, sizes in bytes. All
/// clients of a program belong into one call, each under a name of its own: the format has each metric once,
/// with a line for each name.
std::string PrometheusText(std::span<const NamedClientMetrics> clients);

}  // namespace remora
