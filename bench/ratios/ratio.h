// Median, and the end of main, for the programs that measure ratios.
#pragma once

#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace remora::bench {

/// Returns the median; of an even number of values, the larger of the two in the middle. REQUIRES: there are
/// some.
inline double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the exit status of a program that ends with `status`. Says an error on standard error, behind
/// `who`, which names the program, and what it measured if that is not clear.
inline int ExitStatusOf(std::string_view who, const absl::Status& status) {
  if (status.ok()) return EX_OK;
  std::cerr << who << ": " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? EX_USAGE : EX_UNAVAILABLE;
}

}  // namespace remora::bench
