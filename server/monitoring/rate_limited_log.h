// Lines of the log that others cause, and that may come without end. The log writes some of each group, and
// counts the others; one line says how many they are.
//
//   A window of a group begins with a line, and lasts kWindow. The first kLines in it are written. At its
//   end, if there were more, one line says how many were not; the next line begins the next window.
//
// So a group writes kLines + 1 lines in each kWindow at most, and every line is written or counted.
// A client that is rejected without end hides only lines about other rejected clients. Lines that
// do not come from outside (the start, the disk, the tokens) are not written here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "server/monitoring/log_events.h"
#include "store/base/clock.h"

namespace remora {

/// Passes lines to the log, up to a number in each window of time.
///
/// Thread safety: none; the server's one thread.
class RateLimitedLog {
 public:
  static constexpr std::size_t kLines = 30;
  static constexpr std::chrono::seconds kWindow{10};

  /// `sink` may be empty. The clock outlives this.
  RateLimitedLog(LogSink sink, const Clock& clock) : sink_(std::move(sink)), clock_(clock) {}
  RateLimitedLog(const RateLimitedLog&) = delete;
  RateLimitedLog& operator=(const RateLimitedLog&) = delete;

  /// REQUIRES: the event has a group, whose window the line counts in.
  void Write(LogEvent event, std::string_view line);

  /// Returns when FlushSummaries will have something to say. Nothing: all lines were written, or told of.
  std::optional<TimePoint> next_summary() const { return next_summary_; }
  /// Writes how many lines were left out of the windows that are over.
  void FlushSummaries();
  /// Writes how many lines were left out of all windows, as the log ends.
  void FlushAllSummaries();

 private:
  struct Window {
    std::optional<TimePoint> end{};  // nothing: none has begun
    std::size_t written = 0;
    std::uint64_t left_out = 0;
  };

  Window& WindowOf(LogEventGroup group) { return windows_[static_cast<std::size_t>(group) - 1]; }
  void Close(LogEventGroup group);

  const LogSink sink_;
  const Clock& clock_;
  std::array<Window, kBoundedLogEventGroups> windows_;  // by LogEventGroup, less kUnbounded
  std::optional<TimePoint> next_summary_;
};

}  // namespace remora
