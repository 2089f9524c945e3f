#include "tests/support/etcd_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "tests/support/loopback.h"
#include "tests/support/server_thread.h"

namespace remora {
int FreePort() { return FreshAddress(rdma::TransportKind::kTcp, /*directory=*/"").port; }

EtcdProcess::EtcdProcess(Tls tls) : tls_(std::move(tls)) {
  folder_ = std::filesystem::temp_directory_path() / "remora-etcd-XXXXXX";
  REMORA_CHECK(::mkdtemp(folder_.data()) != nullptr);
  // A port that another process takes meanwhile ends the etcd.
  for (int attempts = 0; attempts < 5 && pid_ < 0; ++attempts) {
    port_ = FreePort();
    const std::string peers = absl::StrCat("http://127.0.0.1:", FreePort());
    endpoint_ = absl::StrCat(tls_.cert.empty() ? "http" : "https", "://127.0.0.1:", port_);
    arguments_ = {"etcd",
                  "--name=one",
                  absl::StrCat("--data-dir=", folder_, "/data", attempts),
                  absl::StrCat("--listen-client-urls=", endpoint_),
                  absl::StrCat("--advertise-client-urls=", endpoint_),
                  absl::StrCat("--listen-peer-urls=", peers),
                  absl::StrCat("--initial-advertise-peer-urls=", peers),
                  absl::StrCat("--initial-cluster=one=", peers)};
    if (!tls_.cert.empty()) {
      arguments_.push_back(absl::StrCat("--cert-file=", tls_.cert));
      arguments_.push_back(absl::StrCat("--key-file=", tls_.key));
    }
    Start();
  }
  REMORA_CHECK(pid_ > 0);
}

EtcdProcess::~EtcdProcess() {
  Kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void EtcdProcess::Start() {
  std::vector<char*> arguments;
  for (std::string& argument : arguments_) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const std::string log = folder_ + "/log";
  pid_ = ::fork();
  REMORA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with this program, also if that aborts
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvp("etcd", arguments.data());
    ::_exit(127);
  }
  while (!IsListening()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool EtcdProcess::IsListening() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(static_cast<std::uint16_t>(port_));
  const bool listens = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return listens;
}

void EtcdProcess::Kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void EtcdProcess::Signal(int number) const {
  if (pid_ <= 0) return;
  ::kill(pid_, number);
  // The last thread that stops says so. Until then, others may answer.
  if (number == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);
}

int EtcdProcess::Control(const std::string& arguments) const {
  return std::system(
      absl::StrCat("ETCDCTL_API=3 etcdctl --endpoints=", endpoint_, " ", arguments, " >/dev/null 2>&1")
          .c_str());
}

}  // namespace remora
