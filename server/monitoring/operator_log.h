// Lines of the log that clients do not cause: the start, the disk, the tokens. Each is written.
#pragma once

#include <string_view>
#include <utility>

#include "server/monitoring/log_events.h"

namespace remora {

/// Passes lines to the log, without a limit.
///
/// Thread safety: none; the server's one thread.
class OperatorLog {
 public:
  /// `sink` may be empty.
  explicit OperatorLog(LogSink sink) : sink_(std::move(sink)) {}
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  /// `line`: without its end.
  void Write(LogEvent event, std::string_view line) const {
    if (sink_) sink_(event, line);
  }

 private:
  const LogSink sink_;
};

}  // namespace remora
