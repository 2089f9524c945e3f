#include "store/durable/synced_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace remora {
namespace {

/// Returns 0, or errno.
int WriteAndSync(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

}  // namespace

std::optional<WriteFault> WriteSynced(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return WriteFault{"make", path, errno};
  const int error = WriteAndSync(file, text);
  ::close(file);
  if (error != 0) return WriteFault{"write", path, error};
  return std::nullopt;
}

std::optional<WriteFault> ReplaceSynced(const std::string& path, std::string_view text) {
  const std::string next = path + ".new";
  if (std::optional<WriteFault> fault = WriteSynced(next, text)) return fault;
  if (std::rename(next.c_str(), path.c_str()) != 0) return WriteFault{"replace", path, errno};
  return std::nullopt;
}

}  // namespace remora
