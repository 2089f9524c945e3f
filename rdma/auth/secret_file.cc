#include "rdma/auth/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace remora::rdma {
namespace {

constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;

absl::Status CheckMode(const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return absl::InvalidArgumentError("it is no regular file");
  // The file's group may read it, for example the group of a service with a user of its own.
  if ((file.st_mode & (S_IRWXO | S_IWGRP)) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "others can read or change it, and what it has is secret: chmod 600 it; if they could for a while, "
      "make new tokens (kvctl create_token), or a new key");
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  // Not to wait for the writer of a pipe.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot be opened");
  std::string text;
  struct stat file {};
  absl::Status status = ::fstat(fd, &file) == 0 ? CheckMode(file) : absl::ErrnoToStatus(errno, "fstat");
  std::array<char, 4096> piece;
  while (status.ok()) {
    const ssize_t size = ::read(fd, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) status = absl::ErrnoToStatus(errno, "read");
    if (size <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(size));
    if (text.size() > kMaxFileSize)
      status = absl::InvalidArgumentError("it is too large for tokens or a key");
  }
  ::close(fd);
  if (!status.ok()) return status;
  return text;
}

}  // namespace remora::rdma
