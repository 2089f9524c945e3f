// Lines of the log that clients do not cause: the start, the disk, the tokens. Each is written.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

namespace remora {

/// Thread Safety: none; the server's one thread.
class OperatorLog {
 public:
  /// Each gets one line, without its end, and may be empty. `warn` gets the lines about faults;
  /// where it is empty, `log` gets them, too.
  OperatorLog(std::function<void(std::string_view)> log, std::function<void(std::string_view)> warn)
      : log_(std::move(log)), warn_(std::move(warn)) {}
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  /// Writes an event.
  void Log(std::string_view line) const {
    if (log_) log_(line);
  }
  /// Writes a fault, or its end.
  void Warn(std::string_view line) const { warn_ ? warn_(line) : Log(line); }

 private:
  const std::function<void(std::string_view)> log_;
  const std::function<void(std::string_view)> warn_;
};

}  // namespace remora
