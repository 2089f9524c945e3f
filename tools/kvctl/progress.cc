#include "tools/kvctl/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/base/absl_view.h"
#include "tools/command_line/say.h"

namespace remora::kvctl {
namespace {

constexpr std::chrono::milliseconds kPause{200};
constexpr std::uint64_t kBarWidth = 20;
constexpr std::string_view kErase = "\r\x1b[K";

std::string TimeText(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole >= 3600) return absl::StrFormat("%d h %d min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d s", whole);
}

}  // namespace

std::string ProgressLine(std::string_view what, std::uint64_t done, std::uint64_t total, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (total == 0) return absl::StrFormat("%d %s, %.0f/s", done, AbslView(what), rate);
  // More may come than there were when they were counted.
  const std::uint64_t shown = std::min(done, total);
  const double share = static_cast<double>(shown) / static_cast<double>(total);
  const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  std::string line =
      absl::StrFormat("[%s%s] %3.0f%% of %d %s, %.0f/s", std::string(full, '#'),
                      std::string(kBarWidth - full, '-'), share * 100, total, AbslView(what), rate);
  if (rate > 0 && shown < total) {
    absl::StrAppend(&line, ", ", TimeText(static_cast<double>(total - shown) / rate), " left");
  }
  return line;
}

Progress::Progress(std::string_view what, std::uint64_t total, const Clock& clock)
    : what_(what),
      total_(total),
      clock_(clock),
      begin_(clock.Now()),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      next_(begin_) {}

void Progress::Show(std::uint64_t done) {
  if (!is_terminal_ || clock_.Now() < next_) return;
  next_ = clock_.Now() + kPause;
  command_line::WriteError(
      absl::StrCat(AbslView(kErase), ProgressLine(what_, done, total_, clock_.Now() - begin_)));
  is_shown_ = true;
}

void Progress::Hide() {
  if (!is_shown_) return;
  command_line::WriteError(kErase);
  is_shown_ = false;
  next_ = clock_.Now();
}

}  // namespace remora::kvctl
