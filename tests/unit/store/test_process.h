// A second process with a store (store_process.cc).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace remora {

class TestProcess {
 public:
  /// Starts store_process with these arguments, as another user if `uid` is not 0.
  explicit TestProcess(const std::vector<std::string>& arguments, uid_t uid = 0);
  /// Kills the process if Wait was not called.
  ~TestProcess();
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  /// Reads the next number that the process printed. Returns false if it prints no more.
  bool Read(std::uint64_t* number);
  void Kill();
  /// Returns the exit status of the process.
  int Wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace remora
