#include "server/main/beats.h"

#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

/// Reads a number that ends at the text's end or at `end`. Nullopt: there is none.
std::optional<std::int64_t> TakeNumber(std::string_view* text, char end) {
  std::int64_t number = 0;
  const auto [at, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(at - text->data()));
  if (end == '\0') return text->empty() ? std::optional(number) : std::nullopt;
  if (text->empty() || text->front() != end) return std::nullopt;
  text->remove_prefix(1);
  return number;
}

}  // namespace

void AskForBeats(milliseconds limit) {
  ::setenv(kBeatVariable, BeatVariable(::getpid(), BeatWatch::IntervalOf(limit)).c_str(), 1);
}

std::string BeatVariable(pid_t parent, milliseconds interval) {
  return absl::StrCat(parent, ":", interval.count());
}

milliseconds AskedBeats(const char* value, pid_t parent) {
  constexpr std::int64_t kLongest = 3'600'000;
  std::string_view text = value == nullptr ? "" : value;
  const std::optional<std::int64_t> pid = TakeNumber(&text, ':');
  if (!pid || *pid != parent) return milliseconds(0);
  const std::int64_t interval = TakeNumber(&text, '\0').value_or(0);
  return milliseconds(interval > 0 && interval <= kLongest ? interval : 0);
}

void BeatToParent() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  // A pipe that poll finds writable takes a byte without a wait.
  if (::poll(&output, 1, 0) <= 0 || (output.revents & POLLOUT) == 0) return;
  constexpr char kBeat = '.';
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, &kBeat, 1);  // else the parent has ended
}

void BeatWatch::Begin(TimePoint now) {
  next_look_ = now + interval_;
  has_beaten_ = false;
  looks_without_ = 0;
}

milliseconds BeatWatch::UntilLook(TimePoint now) const {
  return std::max(std::chrono::ceil<milliseconds>(next_look_ - now), milliseconds(0));
}

bool BeatWatch::Hangs(TimePoint now) {
  if (!is_on() || now < next_look_) return false;
  next_look_ = now + interval_;  // one look, however late it is
  const bool has_beaten = has_beaten_;
  has_beaten_ = false;
  looks_without_ = has_beaten ? 0 : looks_without_ + 1;
  if (looks_without_ < kLooks) return false;
  looks_without_ = 0;
  return true;
}

std::optional<std::string_view> ReasonToSpare(pid_t pid) {
  constexpr std::string_view kState = "State:\t", kTracer = "TracerPid:\t";
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream file(thread.path() / "status");
    for (std::string line; std::getline(file, line);) {
      const std::string_view text = line;
      if (text.starts_with(kState) && text.substr(kState.size()).starts_with('D'))
        return "it waits for a disk";
      if (text.starts_with(kTracer) && text.substr(kTracer.size()) != "0") return "a debugger holds it";
    }
  }
  return std::nullopt;
}

}  // namespace remora
