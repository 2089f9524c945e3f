// A second process with a store (store_process.cc).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace remora {

class TestProcess {
 public:
  /// Starts store_process with these arguments; as another user when `uid` is not 0.
  explicit TestProcess(const std::vector<std::string>& arguments, uid_t uid = 0);
  /// Kills it, if Wait was not called.
  ~TestProcess();
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  /// The next number that it printed. False: it will print no more.
  bool Read(std::uint64_t* number);
  void Kill();
  /// Its exit status.
  int Wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace remora
