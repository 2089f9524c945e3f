#include "tools/kvctl/top/sample.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace remora::top {
namespace {

/// Divides by `step` until the number is below it, or the units end.
std::string Scaled(double number, double step, std::string_view units, bool is_whole) {
  std::size_t unit = 0;
  // 999.95 would be written as 1000.0.
  for (; number >= step - 0.05 && unit + 1 < units.size(); ++unit) number /= step;
  std::string text =
      unit == 0 && is_whole ? absl::StrFormat("%.0f", number) : absl::StrFormat("%.1f", number);
  if (units[unit] != ' ') text += units[unit];
  return text;
}

std::uint64_t MetricOf(const Sample& sample, std::string_view name) {
  const auto found = sample.metrics.find(name);
  return found == sample.metrics.end() ? 0 : found->second;
}

}  // namespace

std::uint64_t Interval::Value(std::string_view name) const { return MetricOf(after_, name); }

double Interval::Rate(std::string_view name) const {
  const std::uint64_t before = MetricOf(before_, name);
  const std::uint64_t after = MetricOf(after_, name);
  if (after <= before || seconds() <= 0) return 0;
  return static_cast<double>(after - before) / seconds();
}

std::string ShortNumber(double number) {
  if (number < 10 && number != std::floor(number)) return absl::StrFormat("%.1f", number);
  return Scaled(number, 1000, " kMGT", /*is_whole=*/true);
}

std::string ShortBytes(std::uint64_t bytes) {
  return Scaled(static_cast<double>(bytes), 1024, "BKMGT", /*is_whole=*/true);
}

std::string ShortTime(std::uint64_t nanoseconds) {
  const auto number = static_cast<double>(nanoseconds);
  if (number < 1e3) return absl::StrFormat("%.0fns", number);
  if (number < 1e6) return absl::StrFormat("%.1fus", number / 1e3);
  return number < 1e9 ? absl::StrFormat("%.1fms", number / 1e6) : absl::StrFormat("%.1fs", number / 1e9);
}

}  // namespace remora::top
