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

  /// Fills the file system with a file "ballast", except for `left` bytes.
  void TakeSpace(std::size_t left) const {
    const auto space = std::filesystem::space(path_);
    ASSERT_GT(space.available, left);
    const int ballast = open((path_ / "ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(ballast, 0);
    EXPECT_EQ(posix_fallocate(ballast, 0, static_cast<off_t>(space.available - left)), 0);
    close(ballast);
  }

 private:
  std::filesystem::path path_;  // empty: not mounted
};

}  // namespace remora
