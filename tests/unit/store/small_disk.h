// A file system of a fixed size, which a test fills.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

namespace remora {

/// Mounts a file system in memory, and unmounts it at its end. Only root may mount one.
class SmallDisk {
 public:
  SmallDisk() = default;
  ~SmallDisk() {
    if (!path_.empty()) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  /// Mounts it at `path`. Returns an empty text, or the reason of a failure. `options`: options of mount,
  /// such as "size=1m".
  std::string Mount(const std::filesystem::path& path, const char* options) {
    if (geteuid() != 0) return "only root may mount a small disk";
    if (mount("tmpfs", path.c_str(), "tmpfs", 0, options) != 0) {
      return std::string("cannot mount a small disk: ") + std::strerror(errno);
    }
    path_ = path;
    return "";
  }

  /// Fills the file system with a file "ballast", except for `left` bytes. A thread of the store may take or
  /// give back space meanwhile.
  void TakeSpace(std::size_t left) const {
    const int ballast = open((path_ / "ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(ballast, 0);
    std::uintmax_t filled = 0;
    for (int tries = 0; tries < 1000; ++tries) {
      const std::uintmax_t available = std::filesystem::space(path_).available;
      if (available <= left) break;
      const auto wanted = filled + available - left;
      if (posix_fallocate(ballast, 0, static_cast<off_t>(wanted)) == 0) filled = wanted;
    }
    EXPECT_GT(filled, 0u);
    close(ballast);
  }

 private:
  std::filesystem::path path_;  // empty: not mounted
};

}  // namespace remora
