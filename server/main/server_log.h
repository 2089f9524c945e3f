// kvserver's log: an event is a line, as text or as JSON, with time, level and the event's name
// (server/monitoring/log_events.h).
//
//   kvserver: 2026-11-27T09:30:00.125Z info loaded: loaded 1000 keys in 0.02 s: ...
//   {"time":"2026-11-27T09:30:00.125Z","level":"info","event":"loaded","message":"loaded 1000 keys ..."}
//
// The lines of server 2 of --shards begin with `kvserver[2]: `; those of JSON have "shard":2.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/monitoring/log_events.h"
#include "server/monitoring/log_writer.h"

namespace remora {

enum class LogFormat : std::uint8_t { kText = 1, kJson };

/// Returns "error", "warning" or "info".
std::string_view LogLevelName(LogLevel level);

/// Returns the line, without its end. `message` may be any bytes: the line has no control character, and
/// that of JSON is UTF-8. `unix_ms`: the time, in milliseconds since 1970. `shard`: the number of a server of
/// --shards, which the line names; negative: it is none.
std::string FormatLogLine(LogFormat format, std::int64_t unix_ms, LogEvent event, std::string_view message,
                          int shard = -1);

/// Writes a line to standard error, for a process that ends, and has no memory, or no log yet. Allocates
/// nothing, and waits at most 2 s for a reader. `message`: ASCII; at most some 700 bytes of it are written.
/// The line of `text` is "kvserver: MESSAGE".
void WriteLastLine(LogFormat format, std::int64_t unix_ms, LogEvent event, std::string_view message);

/// Formats events as lines of the log, and writes those of the chosen levels.
///
/// Thread safety: any thread.
class ServerLog {
 public:
  /// Writes to `fd`, as LogWriter::Start says. `unix_ms`: a clock, for any thread.
  static absl::StatusOr<std::unique_ptr<ServerLog>> Start(int fd, std::function<std::int64_t()> unix_ms);
  ServerLog(const ServerLog&) = delete;
  ServerLog& operator=(const ServerLog&) = delete;

  void set_format(LogFormat format) { lines_->format = format; }
  LogFormat format() const { return lines_->format; }
  /// Events of lower levels are not written from now on.
  void set_level(LogLevel level) { level_ = level; }
  LogLevel level() const { return level_; }
  /// Lines name this server of --shards from now on.
  void set_shard(int shard) { lines_->shard = shard; }

  /// `message`: one line, without its end. Waits for no reader.
  void Write(LogEvent event, std::string_view message);

 private:
  /// How lines are made. The writer's thread may be there longer than the log, and has its share.
  struct Lines {
    std::string Make(LogEvent event, std::string_view message) const {
      return FormatLogLine(format, unix_ms(), event, message, shard);
    }
    std::function<std::int64_t()> unix_ms;
    std::atomic<LogFormat> format = LogFormat::kText;
    std::atomic<int> shard = -1;
  };

  ServerLog(std::shared_ptr<Lines> lines, std::unique_ptr<LogWriter> writer)
      : lines_(std::move(lines)), writer_(std::move(writer)) {}

  const std::shared_ptr<Lines> lines_;
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
  const std::unique_ptr<LogWriter> writer_;
};

}  // namespace remora
