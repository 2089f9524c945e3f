#include "server/monitoring/rate_limited_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

constexpr std::array kKinds = {BoundedLog::Kind::kClients, BoundedLog::Kind::kStrangers,
                               BoundedLog::Kind::kBackups};

std::string_view NameOf(BoundedLog::Kind kind) {
  switch (kind) {
    case BoundedLog::Kind::kClients:
      return "clients that came or went";
    case BoundedLog::Kind::kStrangers:
      return "clients that were refused";
    case BoundedLog::Kind::kBackups:
      return "backups";
  }
  return "";
}

}  // namespace

void BoundedLog::Write(Kind kind, std::string_view line) {
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
  next_telling_ = next_telling_ ? std::min(*next_telling_, *window.end) : *window.end;
}

void BoundedLog::TellDue() {
  const TimePoint now = clock_.Coarse();
  if (!next_telling_ || now < *next_telling_) return;
  for (const Kind kind : kKinds) {
    const Window& window = windows_[static_cast<std::size_t>(kind)];
    if (window.end && now >= *window.end) Close(kind);
  }
}

void BoundedLog::TellAll() {
  for (const Kind kind : kKinds) Close(kind);
}

void BoundedLog::Close(Kind kind) {
  Window& closed = windows_[static_cast<std::size_t>(kind)];
  const std::uint64_t left_out = closed.left_out;
  closed = Window();
  next_telling_.reset();
  for (const Window& window : windows_) {
    if (window.left_out > 0 && (!next_telling_ || *window.end < *next_telling_)) next_telling_ = window.end;
  }
  if (left_out == 0) return;
  write_(absl::StrCat(left_out, " more lines of ", AbslView(NameOf(kind)), " were not written: there are ",
                      kLines, " in ", kWindow.count(), " s at most"));
}

}  // namespace remora
