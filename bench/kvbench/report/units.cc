#include "bench/kvbench/report/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "bench/kvbench/report/report.h"

namespace remora::bench {

std::string NumberIn(const Unit& unit, double value) {
  const double number = value / unit.size;
  if (number >= 100) return Grouped(static_cast<std::uint64_t>(std::llround(number)));
  if (number > 0 && number < 0.1) return absl::StrFormat("%.2g", number);
  return absl::StrFormat("%.*f", number >= 10 ? 1 : 2, number);
}

void ColumnUnit::Add(double value) {
  if (value > 0) least_ = least_ > 0 ? std::min(least_, value) : value;
}

const Unit& ColumnUnit::unit() const {
  std::size_t number = 0;
  while (number + 1 < units_.size() && least_ >= units_[number + 1].size) ++number;
  return units_[number];
}

}  // namespace remora::bench
