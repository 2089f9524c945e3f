#include "server/http/monitor.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/http/exposition.h"
#include "store/base/absl_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/metric_registry.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";

}  // namespace

Monitor::Monitor(MonitorFacts facts, const Clock& clock)
    : facts_(std::move(facts)), clock_(clock), started_(clock.Now()), started_unix_ms_(clock.UnixMillis()) {}

std::unique_ptr<HttpResponder> Monitor::MakeResponder() const {
  auto responder = std::make_unique<HttpResponder>();
  responder->Add("/metrics", [this] { return Metrics(); });
  responder->Add("/healthz", [] { return HttpAnswer{200, kPlainText, "ok\n"}; });
  responder->Add("/readyz", [this] { return Readiness(); });
  responder->Add("/info.json", [this] { return Info(); });
  return responder;
}

HttpAnswer Monitor::Metrics() const {
  const ProcessFacts process{.version = facts_.version,
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
      "{\"version\":\"%s\",\"format\":%d,\"protocol\":%d,\"durability\":\"%s\",\"memory_bytes\":%d,"
      "\"max_clients\":%d,\"started_unix_ms\":%d,\"uptime_seconds\":%.3f,\"ready\":%s,\"reason\":\"%s\","
      "\"metrics\":{",
      facts_.version, kFormatVersion, kProtocolVersion, DurabilityName(facts_.durability),
      facts_.memory_bytes, facts_.max_clients, started_unix_ms_, UptimeSeconds(),
      why.empty() ? "true" : "false", AbslView(why));
  const std::vector<std::uint64_t> values = Values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    absl::StrAppendFormat(&json, "%s\"%s\":%d", i > 0 ? "," : "", kMetrics[i].name, values[i]);
  }
  return {200, "application/json", json + "}}\n"};
}

std::string_view Monitor::WhyNotReady() const {
  const ServerStore* const store = store_.load(std::memory_order_acquire);
  if (store == nullptr) return "the store is being opened";
  if (store->Read(Counter::kLoading) != 0) return "the store is loading its keys";
  if (store->Read(Counter::kDiskRefuses) != 0) return "the disk takes no writes; the log has the reason";
  return {};
}

std::vector<std::uint64_t> Monitor::Values() const {
  std::vector<std::uint64_t> values;
  const ServerStore* const store = store_.load(std::memory_order_acquire);
  if (store == nullptr) return values;
  for (std::size_t i = 0; i < kMetricCount; ++i) values.push_back(store->Read(static_cast<Counter>(i)));
  return values;
}

double Monitor::UptimeSeconds() const {
  return std::chrono::duration<double>(clock_.Now() - started_).count();
}

}  // namespace remora
