// A forked process that has a copy of all that this process has, and does nothing with it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace remora {

/// A child process from the constructor to End. It has the descriptors and the memory of this process.
class WaitingChild {
 public:
  WaitingChild() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(pipe(ends.data()), 0);
    child_ = fork();
    EXPECT_NE(child_, -1);
    if (child_ == 0) {
      close(ends[1]);
      char byte = 0;
      _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);  // until this process closes its end
    }
    close(ends[0]);
    held_ = ends[1];
  }
  ~WaitingChild() { End(); }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  /// Ends the child, and waits until it has ended. Has no effect the second time.
  void End() {
    if (held_ < 0) return;
    close(held_);
    held_ = -1;
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

 private:
  pid_t child_ = -1;
  int held_ = -1;
};

}  // namespace remora
