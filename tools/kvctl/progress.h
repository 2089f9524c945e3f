// The progress of a long command: a line of standard error that replaces itself, if that is a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/base/clock.h"

namespace remora::kvctl {

/// Returns the line for `done` of `total` (0: it is not known) things after `time`: a bar, the share, the
/// rate and the time that is left. It has fewer than 80 columns for up to 10^10 keys.
std::string ProgressLine(std::string_view what, std::uint64_t done, std::uint64_t total, Duration time);

/// Draws the progress line of one command, and takes it away again.
///
/// Thread safety: none.
class Progress {
 public:
  /// `what`: of which there are `total`, as "keys".
  Progress(std::string_view what, std::uint64_t total, const Clock& clock);
  ~Progress() { Hide(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws the line, a few times a second at the most.
  void Show(std::uint64_t done);
  /// Takes the line away, for other output. The next Show draws it again.
  void Hide();

 private:
  const std::string what_;
  const std::uint64_t total_;
  const Clock& clock_;
  const TimePoint begin_;
  const bool is_terminal_;
  TimePoint next_;
  bool is_shown_ = false;
};

}  // namespace remora::kvctl
