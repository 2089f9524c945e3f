#include "server/monitoring/rate_limited_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

constexpr std::array kKinds = {RateLimitedLog::Kind::kClients, RateLimitedLog::Kind::kStrangers,
                               RateLimitedLog::Kind::kBackups};

std::string_view NameOf(RateLimitedLog::Kind kind) {
  switch (kind) {
    case RateLimitedLog::Kind::kClients:
      return "clients that came or went";
    case RateLimitedLog::Kind::kStrangers:
      return "clients that were refused";
    case RateLimitedLog::Kind::kBackups:
      return "backups";
  }
  return "";
}

}  // namespace

void RateLimitedLog::Write(Kind kind, std::string_view line) {
  if (!write_) return;
  Window& window = windows_[static_cast<std::size_t>(kind)];
  const TimePoint now = clock_.Now();
  if (window.end && now >= *window.end) Close(kind);
  if (!window.end) window.end = now + kWindow;
  if (window.written < kLines) {
    ++window.written;
    return write_(line);
  }
  ++window.left_out;
  next_summary_ = next_summary_ ? std::min(*next_summary_, *window.end) : *window.end;
}

void RateLimitedLog::FlushSummaries() {
  const TimePoint now = clock_.Coarse();
  if (!next_summary_ || now < *next_summary_) return;
  for (const Kind kind : kKinds) {
    const Window& window = windows_[static_cast<std::size_t>(kind)];
    if (window.end && now >= *window.end) Close(kind);
  }
}

void RateLimitedLog::FlushAllSummaries() {
  for (const Kind kind : kKinds) Close(kind);
}

void RateLimitedLog::Close(Kind kind) {
  Window& closed = windows_[static_cast<std::size_t>(kind)];
  const std::uint64_t left_out = closed.left_out;
  closed = Window();
  next_summary_.reset();
  for (const Window& window : windows_) {
    if (window.left_out > 0 && (!next_summary_ || *window.end < *next_summary_)) next_summary_ = window.end;
  }
  if (left_out == 0) return;
  write_(absl::StrCat(left_out, " more lines of ", AbslView(NameOf(kind)), " were not written: there are ",
                      kLines, " in ", kWindow.count(), " s at most"));
}

}  // namespace remora
