#include "server/main/server_log.h"

#include <jansson.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/command_line/say.h"
#include "tools/json/json.h"

namespace remora {
namespace {

std::string JsonLine(std::string_view time, const LogEventEntry& entry, std::string_view message) {
  const json::Value line(json_object());
  json_object_set_new(line.get(), "time", json::NewString(time));
  json_object_set_new(line.get(), "level", json::NewString(LogLevelName(entry.level)));
  json_object_set_new(line.get(), "event", json::NewString(entry.name));
  json_object_set_new(line.get(), "message", json::NewString(message));
  const std::unique_ptr<char, decltype(&std::free)> text(json_dumps(line.get(), JSON_COMPACT), std::free);
  return text.get();
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
  }
  return "";
}

std::string FormatLogLine(LogFormat format, std::int64_t unix_ms, LogEvent event, std::string_view message) {
  const LogEventEntry& entry = EntryOf(event);
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
  if (format == LogFormat::kJson) return JsonLine(time, entry, message);
  return absl::StrCat("kvserver: ", time, " ", AbslView(LogLevelName(entry.level)), " ", AbslView(entry.name),
                      ": ", command_line::Printable(message));
}

absl::StatusOr<std::unique_ptr<ServerLog>> ServerLog::Start(int fd, std::function<std::int64_t()> unix_ms) {
  auto lines = std::make_shared<Lines>();
  lines->unix_ms = std::move(unix_ms);
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<LogWriter> writer, LogWriter::Start(fd, [lines](std::uint64_t dropped) {
        return lines->Make(
            LogEvent::kLinesDropped,
            absl::StrCat(dropped, " lines were dropped here, because standard error was not read in time"));
      }));
  return std::unique_ptr<ServerLog>(new ServerLog(std::move(lines), std::move(writer)));
}

void ServerLog::Write(LogEvent event, std::string_view message) {
  if (EntryOf(event).level <= level_) writer_->Write(lines_->Make(event, message));
}

}  // namespace remora
