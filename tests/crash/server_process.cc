#include "server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "store/base/check.h"

namespace remora {

ServerPlace::ServerPlace(std::string root) : root_(std::move(root)) {
  std::filesystem::create_directory(disk());
  std::ofstream(faults()) << std::string(kFaultBytes, '\0');
  StartMachine(0);
}

void ServerPlace::StartMachine(std::uint64_t boot_id) const {
  std::ofstream(boot(), std::ios::trunc) << boot_id << '\n';
}

void ServerPlace::Set(Fault fault, std::uint8_t value) const {
  const int file = open(faults().c_str(), O_WRONLY | O_CLOEXEC);
  REMORA_CHECK(pwrite(file, &value, 1, static_cast<off_t>(fault)) == 1);
  close(file);
}

std::string ServerPlace::LastError() const {
  std::ifstream file(errors());
  std::string last = "it said nothing";
  for (std::string line; std::getline(file, line);) last = line;
  return last;
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& program,
                                                                    const ServerPlace& place,
                                                                    const std::vector<std::string>& flags) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  constexpr int kReadyFd = 3;
  std::vector<std::string> arguments = {program, "--listen=" + place.address(),
                                        "--data_dir=" + place.data_dir(),
                                        absl::StrCat("--ready_fd=", kReadyFd)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<std::string> settings = {
      std::string("LD_PRELOAD=") + REMORA_DISK_LIBRARY, "REMORA_DISK=" + place.disk(),
      "REMORA_DISK_JOURNAL=" + place.journal(), "REMORA_DISK_FAULTS=" + place.faults(),
      "REMORA_DISK_BOOT=" + place.boot()};
  for (const char* const name : {"REMORA_MUTANT", "REMORA_MUTANT_REACHED"}) {  // tests/mutation
    if (const char* const value = std::getenv(name)) settings.push_back(absl::StrCat(name, "=", value));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int errors = open(place.errors().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

  // The child only calls what may be called where other threads were at work.
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    if (ready[1] == kReadyFd) {
      fcntl(kReadyFd, F_SETFD, 0);
    } else {
      dup2(ready[1], kReadyFd);
    }
    execve(argv.front(), argv.data(), environment.data());
    _exit(127);
  }
  close(ready[1]);
  close(nothing);
  close(errors);
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid, ready[0]));
}

absl::Status ServerProcess::WaitUntilReady() {
  pollfd wait{.fd = ready_, .events = POLLIN, .revents = 0};
  char byte = 0;
  constexpr int kPatienceMs = 60'000;
  if (poll(&wait, 1, kPatienceMs) == 1 && read(ready_, &byte, 1) == 1) return absl::OkStatus();
  return absl::InternalError("kvserver is not ready");
}

ServerProcess::~ServerProcess() {
  Kill();
  close(ready_);
}

bool ServerProcess::Kill() {
  if (pid_ < 0) return true;
  int status = 0;
  kill(pid_, SIGKILL);
  REMORA_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace remora
