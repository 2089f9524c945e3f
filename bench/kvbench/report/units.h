// Units of the numbers in tables.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace remora::bench {

struct Unit {
  const char* name;
  double size;  // in the unit of the values that are shown: ns, bytes per second
};
inline constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
inline constexpr Unit kByteRateUnits[] = {{"MB/s", 1e6}, {"GB/s", 1e9}};

/// Returns the value in the unit: whole and grouped from 100 on, else with three digits.
std::string NumberIn(const Unit& unit, double value);

/// Unit of all values in one column of a table: the largest one that the smallest value fills, so no value is
/// rounded to nothing.
class ColumnUnit {
 public:
  /// `units`: ascending, one at least.
  explicit ColumnUnit(std::span<const Unit> units) : units_(units) {}

  /// A value of 0 chooses nothing.
  void Add(double value);
  const Unit& unit() const;
  const char* name() const { return unit().name; }
  std::string Text(double value) const { return NumberIn(unit(), value); }

 private:
  std::span<const Unit> units_;
  double least_ = 0;  // none
};

}  // namespace remora::bench
