#include "server/http/monitor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/http/console_page.h"
#include "server/http/exposition.h"
#include "server/monitoring/readiness.h"
#include "store/base/absl_view.h"
#include "store/format/memory/histogram.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/metric_registry.h"
#include "store/format/memory/shown_metrics.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"
#include "store/region/segment_map.h"

namespace remora {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kJson[] = "application/json";

void AppendHistogram(const MetricEntry& entry, std::span<const std::uint64_t> values, std::string* json) {
  const auto times = HistogramIn(values, entry);
  absl::StrAppendFormat(json, "%s\"%s\":{\"sum_ns\":%d,\"max_ns\":%d,\"buckets\":[", json->empty() ? "" : ",",
                        entry.name, times[kHistogramSum], times[kHistogramMax]);
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) absl::StrAppend(json, i > 0 ? "," : "", times[i]);
  absl::StrAppend(json, "]}");
}

// By SegmentUse.
constexpr std::array<std::string_view, 8> kSegmentUses = {"superblock", "free",    "index", "log_head",
                                                          "log",        "retired", "large", "claimed"};

/// Returns the name of the transport whose clients this metric counts.
const char* TransportName(Metric connections) {
  if (connections == Metric::kConnectionsVerbs) return "verbs";
  if (connections == Metric::kConnectionsTcp) return "tcp";
  return connections == Metric::kConnectionsTls ? "tls" : "local";
}

/// The letter of a segment in /segments.json; of one of the log, a digit: tenths that are alive.
char SegmentLetter(const MappedSegment& segment) {
  switch (segment.use) {
    case SegmentUse::kNone:
      return 's';
    case SegmentUse::kFree:
      return 'f';
    case SegmentUse::kIndex:
      return 'i';
    case SegmentUse::kLogHead:
      return 'h';
    case SegmentUse::kLog:
      return static_cast<char>('9' - segment.dead_32nds * 10 / 32);
    case SegmentUse::kRetired:
      return 'r';
    case SegmentUse::kRun:
      return 'l';
    case SegmentUse::kClaimed:
      return 'c';
  }
  return '?';
}

const char* LinkStateName(LinkState state) {
  if (state == LinkState::kConnected) return "connected";
  if (state == LinkState::kCopies) return "copies";
  return state == LinkState::kRejected ? "rejected" : "away";
}

/// Returns the text for a string of JSON. A byte that is no ASCII becomes '?', as a path may be no UTF-8.
std::string JsonText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\') {
      absl::StrAppendFormat(&escaped, "\\u%04x", byte);
    } else {
      escaped += byte < 0x80 ? c : '?';
    }
  }
  return escaped;
}

}  // namespace

Monitor::Monitor(MonitorFacts facts, const Clock& clock)
    : facts_(std::move(facts)), clock_(clock), started_(clock.Now()), started_unix_ms_(clock.UnixMillis()) {}

std::unique_ptr<HttpResponder> Monitor::MakeResponder(HostCheck hosts) const {
  auto responder = std::make_unique<HttpResponder>(std::move(hosts));
  responder->Add("/metrics", [this] { return Metrics(); });
  responder->Add("/healthz", [] { return HttpAnswer{200, kPlainText, "ok\n"}; });
  responder->Add("/readyz", [this] { return Readiness(); });
  responder->Add("/info.json", [this] { return Info(); });
  responder->Add("/segments.json", [this] { return SegmentsJson(); });
  responder->Add("/clients.json", [this] { return ClientsJson(); });
  responder->Add("/followers.json", [this] { return FollowersJson(); });
  for (const ConsoleFile& file : ConsoleFiles()) {
    responder->Add(std::string(file.path), [&file] {
      return HttpAnswer{200, std::string(file.content_type), std::string(file.content)};
    });
  }
  return responder;
}

HttpAnswer Monitor::Metrics() const {
  const ProcessFacts process{.version = facts_.version,
                             .commit = facts_.commit,
                             .start_seconds = static_cast<double>(started_unix_ms_) / 1000,
                             .uptime_seconds = UptimeSeconds(),
                             .is_ready = WhyNotReady().empty()};
  return {200, kExpositionType, PrometheusText(process, Values())};
}

HttpAnswer Monitor::Readiness() const {
  const std::string_view why = WhyNotReady();
  if (why.empty()) return {200, kPlainText, "ready\n"};
  return {503, kPlainText, absl::StrCat("not ready: ", AbslView(why), "\n")};
}

HttpAnswer Monitor::Info() const {
  const std::string_view why = WhyNotReady();
  // No text here needs an escape: names of this program, and numbers.
  std::string json = absl::StrFormat(
      "{\"version\":\"%s\",\"commit\":\"%s\",\"shard\":\"%s\",\"format\":%d,\"protocol\":%d,\"durability\":"
      "\"%s\",\"memory_bytes\":%d,"
      "\"max_clients\":%d,\"started_unix_ms\":%d,\"uptime_seconds\":%.3f,\"ready\":%s,\"reason\":\"%s\","
      "\"metrics\":{",
      facts_.version, facts_.commit, facts_.shard, kFormatVersion, kProtocolVersion,
      DurabilityName(facts_.durability), facts_.memory_bytes, facts_.max_clients, started_unix_ms_,
      UptimeSeconds(), why.empty() ? "true" : "false", AbslView(why));
  const std::vector<std::uint64_t> values = Values();
  std::string histograms;
  const char* comma = "";
  for (std::size_t i = 0; i < SharedMetricCount(values.size()); ++i) {
    const MetricEntry& entry = kMetrics[i];
    if (entry.type == MetricType::kHistogram) {
      AppendHistogram(entry, values, &histograms);
    } else {
      absl::StrAppendFormat(&json, "%s\"%s\":%d", std::exchange(comma, ","), entry.name, values[entry.place]);
    }
  }
  absl::StrAppend(&json, "},\"histogram_bounds_ns\":[");
  for (std::size_t i = 0; i + 1 < kHistogramBuckets; ++i) {
    absl::StrAppend(&json, i > 0 ? "," : "", HistogramBound(i));
  }
  return {200, kJson, absl::StrCat(json, "],\"histograms\":{", histograms, "}}\n")};
}

HttpAnswer Monitor::SegmentsJson() const {
  const ServerStore* const store = store_.load(std::memory_order_acquire);
  const std::vector<MappedSegment> map =
      store == nullptr ? std::vector<MappedSegment>() : store->SegmentMap();
  std::string letters;
  letters.reserve(map.size());
  std::map<std::string_view, std::size_t> counts;
  for (const std::string_view use : kSegmentUses) counts[use] = 0;
  for (const MappedSegment& segment : map) {
    letters.push_back(SegmentLetter(segment));
    ++counts[kSegmentUses[static_cast<std::size_t>(segment.use)]];
  }
  std::string json =
      absl::StrFormat("{\"segment_bytes\":%d,\"count\":%d,\"counts\":{", kSegmentSize, map.size());
  const char* comma = "";
  for (const auto& [use, count] : counts) {
    absl::StrAppend(&json, std::exchange(comma, ","), "\"", AbslView(use), "\":", count);
  }
  return {200, kJson, absl::StrCat(json, "},\"map\":\"", letters, "\"}\n")};
}

HttpAnswer Monitor::ClientsJson() const {
  const ClientActivities* const shown = clients_.load(std::memory_order_acquire);
  std::vector<ClientActivity> clients = shown == nullptr ? std::vector<ClientActivity>() : shown->Read();
  std::ranges::sort(clients, {}, &ClientActivity::number);
  std::string json = absl::StrFormat("{\"now_unix_ms\":%d,\"clients\":[", clock_.UnixMillis());
  const char* comma = "";
  for (const ClientActivity& client : clients) {
    absl::StrAppendFormat(&json,
                          "%s{\"number\":%d,\"transport\":\"%s\",\"since_unix_ms\":%d,\"requests\":%d,"
                          "\"bytes\":%d}",
                          std::exchange(comma, ","), client.number, TransportName(client.transport),
                          client.since_unix_ms, client.requests, client.bytes);
  }
  return {200, kJson, absl::StrCat(json, "]}\n")};
}

HttpAnswer Monitor::FollowersJson() const {
  const FollowerActivities* const shown = followers_.load(std::memory_order_acquire);
  const FollowerActivities::View view = shown == nullptr ? FollowerActivities::View() : shown->Read();
  std::string json = absl::StrFormat("{\"now_unix_ms\":%d,\"last_group\":%d,\"followers\":[",
                                     clock_.UnixMillis(), view.last_group);
  const char* comma = "";
  for (const FollowerActivity& follower : view.followers) {
    absl::StrAppendFormat(&json, "%s{\"address\":\"%s\",\"state\":\"%s\",\"acknowledged\":%d}",
                          std::exchange(comma, ","), JsonText(follower.address),
                          LinkStateName(follower.state), follower.acknowledged);
  }
  return {200, kJson, absl::StrCat(json, "]}\n")};
}

std::string_view Monitor::WhyNotReady() const {
  const ServerStore* const store = store_.load(std::memory_order_acquire);
  if (store == nullptr) return "the store is being opened";
  for (const Obstacle& obstacle : kObstacles) {
    if (IsThere(obstacle, store->Read(obstacle.metric))) return obstacle.text;
  }
  return {};
}

std::vector<std::uint64_t> Monitor::Values() const {
  const ServerStore* const store = store_.load(std::memory_order_acquire);
  return store == nullptr ? std::vector<std::uint64_t>() : store->ReadMetrics();
}

double Monitor::UptimeSeconds() const {
  return std::chrono::duration<double>(clock_.Now() - started_).count();
}

}  // namespace remora
