#include "server/monitoring/rate_limited_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"

namespace remora {
namespace {

constexpr std::array<LogEventGroup, kBoundedLogEventGroups> kBoundedGroups = {
    LogEventGroup::kClients, LogEventGroup::kStrangers, LogEventGroup::kShortages, LogEventGroup::kBackups,
    LogEventGroup::kFailedBackups};

std::string_view NameOf(LogEventGroup group) {
  switch (group) {
    case LogEventGroup::kClients:
      return "clients that came or went";
    case LogEventGroup::kStrangers:
      return "clients that were rejected";
    case LogEventGroup::kShortages:
      return "clients without a descriptor";
    case LogEventGroup::kBackups:
      return "backups";
    case LogEventGroup::kFailedBackups:
      return "backups that failed";
    case LogEventGroup::kUnbounded:
      break;
  }
  return "";
}

bool HasWarnings(LogEventGroup group) {
  return group == LogEventGroup::kShortages || group == LogEventGroup::kFailedBackups;
}

}  // namespace

void RateLimitedLog::Write(LogEvent event, std::string_view line) {
  if (!sink_) return;
  const LogEventGroup group = EntryOf(event).group;
  REMORA_CHECK(group != LogEventGroup::kUnbounded);
  Window& window = WindowOf(group);
  const TimePoint now = clock_.Now();
  if (window.end && now >= *window.end) Close(group);
  if (!window.end) window.end = now + kWindow;
  if (window.written < kLines) {
    ++window.written;
    return sink_(event, line);
  }
  ++window.left_out;
  next_summary_ = next_summary_ ? std::min(*next_summary_, *window.end) : *window.end;
}

void RateLimitedLog::FlushSummaries() {
  const TimePoint now = clock_.Coarse();
  if (!next_summary_ || now < *next_summary_) return;
  for (const LogEventGroup group : kBoundedGroups) {
    const Window& window = WindowOf(group);
    if (window.end && now >= *window.end) Close(group);
  }
}

void RateLimitedLog::FlushAllSummaries() {
  for (const LogEventGroup group : kBoundedGroups) Close(group);
}

void RateLimitedLog::Close(LogEventGroup group) {
  Window& closed = WindowOf(group);
  const std::uint64_t left_out = closed.left_out;
  closed = Window();
  next_summary_.reset();
  for (const Window& window : windows_) {
    if (window.left_out > 0 && (!next_summary_ || *window.end < *next_summary_)) next_summary_ = window.end;
  }
  if (left_out == 0) return;
  sink_(HasWarnings(group) ? LogEvent::kWarningsLeftOut : LogEvent::kLinesLeftOut,
        absl::StrCat(left_out, " more lines of ", AbslView(NameOf(group)), " were not written: there are ",
                     kLines, " in ", kWindow.count(), " s at most"));
}

}  // namespace remora
