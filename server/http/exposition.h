// The metrics as Prometheus reads them, by prometheus-cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace remora {

inline constexpr char kExpositionType[] = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of the process, beside those of the registry.
struct ProcessFacts {
  std::string_view version{};  // of the release
  std::string_view commit{};   // of the sources
  double start_seconds = 0;    // since 1970
  double uptime_seconds = 0;
  bool is_ready = false;
};

/// Returns metrics in the text format of Prometheus, version 0.0.4: those of the process, then those of the
/// registry (store/format/memory/metric_registry.h). values[i] is the value of place i of the registry.
/// Metrics whose places are behind the last value are left out.
std::string PrometheusText(const ProcessFacts& process, std::span<const std::uint64_t> values);

}  // namespace remora
