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

/// Returns the text format of Prometheus, version 0.0.4: the process, and the first metrics of the registry
/// (store/format/memory/metric_registry.h), of whose places `values` has the values.
std::string PrometheusText(const ProcessFacts& process, std::span<const std::uint64_t> values);

}  // namespace remora
