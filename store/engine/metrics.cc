#include "store/engine/metrics.h"

#include "store/format/memory/shown_metrics.h"

namespace remora {

std::vector<std::pair<std::string, std::uint64_t>> Metrics::ReadAll() const {
  return ShownMetrics(ReadPlaces());
}

std::vector<std::uint64_t> Metrics::ReadPlaces() const {
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < kMetricPlaces; ++i) values.push_back(Read(static_cast<Metric>(i)));
  return values;
}

}  // namespace remora
