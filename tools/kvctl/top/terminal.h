// The terminal of kvctl top: a page that replaces itself, and the state in which the terminal is left.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tools/kvctl/top/screen.h"

namespace remora::top {

/// Returns whether standard output is a terminal that moves its cursor.
bool HasTerminal();

/// The terminal of standard output, with a page of its own. SIGINT, SIGTERM, SIGHUP and SIGQUIT bring back
/// what was there before, and then end the process as they always do; so does SIGTSTP, until the process goes
/// on. There is one of it at a time.
class Terminal {
 public:
  /// REQUIRES: HasTerminal.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  ScreenSize size() const;
  /// Returns the bytes that replace the page by these lines.
  static std::string Drawn(const std::vector<std::string>& lines);

  enum class Event { kTime = 1, kRedraw, kQuit };
  /// Waits until the time is over, the page must be drawn again because of another size, or q was typed.
  Event Wait(std::chrono::milliseconds time);
};

}  // namespace remora::top
