// A real kvserver over the disk of disk.h, to be killed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "disk.h"

namespace remora {

/// Where a server lives: a folder, with the disk that is watched in it, its journal, switches, and socket.
class ServerPlace {
 public:
  /// REQUIRES: the folder is empty.
  explicit ServerPlace(std::string root);

  std::string disk() const { return root_ + "/disk"; }
  std::string data_dir() const { return root_ + "/disk/data"; }
  std::string journal() const { return root_ + "/journal"; }
  std::string faults() const { return root_ + "/faults"; }
  std::string boot() const { return root_ + "/boot"; }
  std::string address() const { return "local://" + root_ + "/socket"; }
  std::string errors() const { return root_ + "/errors"; }
  /// The last line of errors().
  std::string LastError() const;
  /// The machine is started again: a cut of its power does that.
  void StartMachine(std::uint64_t boot) const;
  /// For a server that runs, too.
  void Set(Fault fault, std::uint8_t value) const;

 private:
  std::string root_;
};

class ServerProcess {
 public:
  /// Begins; WaitUntilReady says when it serves.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& program,
                                                              const ServerPlace& place,
                                                              const std::vector<std::string>& flags);
  /// Kills it, as Kill does.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// Internal: it ended, or is not ready after a minute; its messages are in its place's errors().
  absl::Status WaitUntilReady();
  /// By SIGKILL; returns when it is gone, and all that it had locked is free. False: it had ended by itself.
  bool Kill();

 private:
  ServerProcess(pid_t pid, int ready) : pid_(pid), ready_(ready) {}

  pid_t pid_;
  const int ready_;  // readable once it serves, or has ended
};

}  // namespace remora
