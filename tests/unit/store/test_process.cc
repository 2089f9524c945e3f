#include "test_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/check.h"

namespace remora {

TestProcess::TestProcess(const std::vector<std::string>& arguments, uid_t uid) {
  std::vector<char*> argv = {const_cast<char*>(REMORA_TEST_PROCESS)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  REMORA_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  // Opens the program before the change of the user, who may have no access to the folder of the program.
  const int program = open(REMORA_TEST_PROCESS, O_RDONLY | O_CLOEXEC);
  REMORA_CHECK(program >= 0);
  pid_ = fork();
  REMORA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    if (uid != 0 && setresuid(uid, uid, uid) != 0) _exit(99);
    fexecve(program, argv.data(), environ);
    _exit(98);
  }
  close(program);
  close(ends[1]);
  output_ = ends[0];
}

TestProcess::~TestProcess() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
  close(output_);
}

bool TestProcess::Read(std::uint64_t* number) {
  // The process writes numbers as a whole and below PIPE_BUF, so a read never returns a part of one.
  return read(output_, number, sizeof(*number)) == static_cast<ssize_t>(sizeof(*number));
}

void TestProcess::Kill() { kill(pid_, SIGKILL); }

int TestProcess::Wait() {
  int status = 0;
  REMORA_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace remora
