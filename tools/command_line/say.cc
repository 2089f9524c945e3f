#include "tools/command_line/say.h"

#include <limits.h>
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>

namespace remora::command_line {
namespace {

const char* program_without_memory = "";

}  // namespace

std::size_t ControlCharacterAt(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 1;
  if (first != 0xc2 || text.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second < 0xa0 ? 2 : 0;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::size_t control = ControlCharacterAt(text);
    for (std::size_t i = 0; i < control; ++i) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(text[i]));
      printable += escaped;
    }
    if (control == 0) printable += text[0];
    text.remove_prefix(control == 0 ? 1 : control);
  }
  return printable;
}

void WriteError(std::string_view text) {
  constexpr int kPatienceMs = 2000;
  static std::atomic<bool> gave_up = false;
  while (!text.empty()) {
    pollfd output{STDERR_FILENO, POLLOUT, 0};
    const int ready = ::poll(&output, 1, gave_up ? 0 : kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    gave_up = ready == 0;
    if (ready <= 0) return;
    // A pipe that can be written takes so many bytes at once.
    const ssize_t written = ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int ErrorBuffer::sync() {
  WriteError(view());
  str({});
  return 0;
}

void EndWithoutMemory(const char* program) {
  program_without_memory = program;
  std::set_new_handler([] {
    // Nothing here may allocate.
    for (const char* const part : {program_without_memory,
                                   ": the system has no memory left for this process; raise "
                                   "its limit (ulimit -v)\n"}) {
      WriteError(part);
    }
    ::_exit(EX_OSERR);
  });
}

void SayError(std::string_view line) { WriteError(Printable(line) + "\n"); }

}  // namespace remora::command_line
