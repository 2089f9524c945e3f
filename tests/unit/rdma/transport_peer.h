// A process that runs peer_process.cc, to be killed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "rdma/address.h"
#include "store/base/check.h"

namespace remora::rdma {

class PeerProcess {
 public:
  /// Returns when the process has said that it is ready, or has ended.
  PeerProcess(const std::string& role, const std::string& address) {
    std::array<int, 2> ends;
    REMORA_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = REMORA_TEST_PEER, argument1 = role, argument2 = address;
    const std::array<char*, 4> arguments = {program.data(), argument1.data(), argument2.data(), nullptr};
    REMORA_CHECK(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) line_ += c;
    close(ends[0]);
  }
  ~PeerProcess() {
    Kill();
    waitpid(pid_, nullptr, 0);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Sends SIGKILL and returns at once.
  void Kill() { kill(pid_, SIGKILL); }
  /// Returns the line that the peer printed.
  const std::string& line() const { return line_; }

 private:
  pid_t pid_ = 0;
  std::string line_;
};

/// Returns the argument with which a peer program serves at `where`.
inline std::string ServeArgument(const Address& where) {
  if (where.kind == TransportKind::kVerbs) return "verbs://" + where.host;
  if (where.kind == TransportKind::kTcp) return (where.tls ? "tls://" : "tcp://") + where.host;
  return where.ToString();
}

}  // namespace remora::rdma
