#include "server/main/server_log.h"

#include <jansson.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/command_line/say.h"
#include "tools/json/json.h"

namespace remora {
namespace {

std::string JsonLine(std::string_view time, const LogEventEntry& entry, std::string_view message, int shard) {
  const json::Value line(json_object());
  json_object_set_new(line.get(), "time", json::NewString(time));
  json_object_set_new(line.get(), "level", json::NewString(LogLevelName(entry.level)));
  json_object_set_new(line.get(), "event", json::NewString(entry.name));
  if (shard >= 0) json_object_set_new(line.get(), "shard", json_integer(shard));
  json_object_set_new(line.get(), "message", json::NewString(message));
  return json::Text(line.get());
}

/// Text of a bounded size, of which the rest is left out.
class LineBuffer {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(c);
  }
  /// Adds a part of a string of JSON.
  void AddEscaped(std::string_view text) {
    for (const char c : text.substr(0, kMaxMessage)) {
      if (static_cast<unsigned char>(c) < 0x20) {
        std::array<char, 8> escaped;
        std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
        Add(escaped.data());
        continue;
      }
      if (c == '"' || c == '\\') AddByte('\\');
      AddByte(c);
    }
  }
  /// Adds the time in UTC; absl::FormatTime would allocate.
  void AddTime(std::int64_t unix_ms) {
    using std::chrono::days;
    const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(unix_ms)};
    const auto day = std::chrono::floor<days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                  static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                  static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                  static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
                  static_cast<int>(clock.subseconds().count()));
    Add(text.data());
  }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  static constexpr std::size_t kMaxMessage = 700;

  void AddByte(char c) {
    if (size_ < bytes_.size()) bytes_[size_++] = c;
  }

  std::array<char, 6 * kMaxMessage + 256> bytes_;
  std::size_t size_ = 0;
};

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

std::string FormatLogLine(LogFormat format, std::int64_t unix_ms, LogEvent event, std::string_view message,
                          int shard) {
  const LogEventEntry& entry = EntryOf(event);
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
  if (format == LogFormat::kJson) return JsonLine(time, entry, message, shard);
  const std::string program = shard >= 0 ? absl::StrCat("kvserver[", shard, "]: ") : "kvserver: ";
  return absl::StrCat(program, time, " ", AbslView(LogLevelName(entry.level)), " ", AbslView(entry.name),
                      ": ", command_line::Printable(message));
}

void WriteLastLine(LogFormat format, std::int64_t unix_ms, LogEvent event, std::string_view message) {
  LineBuffer line;
  if (format == LogFormat::kJson) {
    const LogEventEntry& entry = EntryOf(event);
    line.Add(R"({"time":")");
    line.AddTime(unix_ms);
    line.Add(R"(","level":")");
    line.Add(LogLevelName(entry.level));
    line.Add(R"(","event":")");
    line.Add(entry.name);
    line.Add(R"(","message":")");
    line.AddEscaped(message);
    line.Add("\"}\n");
  } else {
    line.Add("kvserver: ");
    line.Add(message);
    line.Add("\n");
  }
  command_line::WriteError(line.text());
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
