// kvctl top: the changes of a server's metrics between two moments.
//
//   sample.h     a server's metrics at two moments, and their rates
//   lines.h      an interval as a line of text, or as one of JSON
//   screen.h     an interval as a page for a terminal
//   terminal.h   the terminal: its size, its keys, and its state after the end
//   ../top.cc    the loop
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace remora::top {

/// The metrics of a server at a moment, by the names of the registry.
struct Sample {
  double seconds = 0;  // of a clock that never goes back
  std::uint64_t unix_ms = 0;
  std::map<std::string, std::uint64_t, std::less<>> metrics;
};

/// Two samples, which must outlive this.
class Interval {
 public:
  Interval(const Sample& before, const Sample& after) : before_(before), after_(after) {}

  double seconds() const { return after_.seconds - before_.seconds; }
  const Sample& after() const { return after_; }
  bool Has(std::string_view name) const { return after_.metrics.contains(name); }
  /// Returns the metric at the end. 0: the server has none of that name.
  std::uint64_t Value(std::string_view name) const;
  /// Returns how much a counter grew in a second. 0 also if it shrank, as after a restart of the server.
  double Rate(std::string_view name) const;

 private:
  const Sample& before_;
  const Sample& after_;
};

/// "0", "12.3", "999", "1.2k", "34.5M": five characters at most, up to 10^15.
std::string ShortNumber(double number);
/// "512B", "64.0M", "1.5G", of 1024 each.
std::string ShortBytes(std::uint64_t bytes);
/// "900ns", "1.2us", "34.5ms", "1.5s".
std::string ShortTime(std::uint64_t nanoseconds);

}  // namespace remora::top
