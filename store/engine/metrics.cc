#include "store/engine/metrics.h"

namespace remora {

std::vector<std::pair<std::string, std::uint64_t>> Metrics::ReadAll() const {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    all.emplace_back(kMetrics[i].name, Read(static_cast<Counter>(i)));
  }
  return all;
}

}  // namespace remora
