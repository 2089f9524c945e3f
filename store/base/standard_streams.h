// Descriptors 0 to 2 are standard input, output and error, also where they are closed. A file or
// socket that got one of these numbers would receive what the process prints.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace remora {

/// Opens /dev/null at each closed descriptor of 0 to 2, for the direction that the stream does not have:
/// reads and writes there go on to fail with EBADF. To be called before the first file or socket is opened.
/// Unavailable: a descriptor is closed, and /dev/null cannot be opened.
inline absl::Status OccupyStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int opened = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened < 0) {
      return absl::UnavailableError(absl::StrCat(
          "descriptor ", stream, " is closed, and /dev/null cannot take its place: ", std::strerror(errno),
          "; open standard input, output and error"));
    }
    if (opened > STDERR_FILENO) close(opened);  // another thread was faster
  }
  return absl::OkStatus();
}

}  // namespace remora
