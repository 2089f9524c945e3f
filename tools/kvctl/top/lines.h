// An interval as a line, for files and for other programs.
#pragma once

#include <string>

#include "tools/kvctl/top/sample.h"

namespace remora::top {

/// The names of the columns of Line, with a newline.
std::string Header();
/// One line of columns: rates in a second, then numbers at the end of the interval.
std::string Line(const Interval& interval);
/// One object of JSON on a line: unix_ms, seconds, rates (of each counter), metrics (all of them).
std::string JsonLine(const Interval& interval);

}  // namespace remora::top
