// Lines of the log that others cause, and that may come without end. Of each kind some are written,
// the others are counted, and one line says how many.
//
//   A window of a kind begins with a line, and lasts kWindow. The first kLines in it are written. At its end,
//   if there were more, one line says how many were not; the next line begins the next window.
//
// So a kind writes kLines + 1 lines in each kWindow at most, and every line is written or counted.
// A client that is rejected without end hides only lines about other rejected clients. Lines that
// do not come from outside (the start, the disk, the tokens) are not written here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "store/base/clock.h"

namespace remora {

/// Thread Safety: none; the server's one thread.
class RateLimitedLog {
 public:
  enum class Kind { kClients, kStrangers, kBackups };
  static constexpr std::size_t kLines = 30;
  static constexpr std::chrono::seconds kWindow{10};

  /// `write` gets the lines; it may be empty. The clock outlives this.
  RateLimitedLog(std::function<void(std::string_view)> write, const Clock& clock)
      : write_(std::move(write)), clock_(clock) {}
  RateLimitedLog(const RateLimitedLog&) = delete;
  RateLimitedLog& operator=(const RateLimitedLog&) = delete;

  void Write(Kind kind, std::string_view line);

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

  void Close(Kind kind);

  const std::function<void(std::string_view)> write_;
  const Clock& clock_;
  std::array<Window, 3> windows_;  // by Kind
  std::optional<TimePoint> next_summary_;
};

}  // namespace remora
