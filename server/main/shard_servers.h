// The servers of --shards: a process each, which this one starts, watches, and ends. This process serves
// nothing itself.
//
// The topology file says which server has which keys. It is written before the first server starts: the data
// directory of each keeps the cluster that the file names, so the two never differ.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "rdma/unique_fd.h"
#include "server/main/child_program.h"
#include "server/main/flags.h"
#include "server/monitoring/log_events.h"

namespace remora {

/// Reads the topology of --shards, or makes it. A file that has the same shards at other addresses is written
/// anew. Makes --data_dir and --backup_dir, if they are missing. REQUIRES: StartsShards(flags). Errors:
///   FailedPrecondition: the file has another division of the keys; or it is missing, and there are data.
///   Unavailable: the disk is full, or fails.
///   InvalidArgument, NotFound, PermissionDenied: those of Topology::Read, and of the system.
absl::StatusOr<Topology> PrepareTopology(const Flags& flags, const LogSink& log);

/// Keeps other processes of --shards away from the topology file, until it is destroyed. AlreadyExists: one
/// holds it. Others: the file PATH.lock cannot be made.
absl::StatusOr<rdma::UniqueFd> LockTopology(const std::string& path);

/// The arguments of the servers, and the work of this process beside them.
struct ShardServersOptions {
  std::vector<std::string> arguments;  // of each server, beside its --shard
  LogSink log;
  int ready_fd = -1;                          // leads nowhere in the servers
  std::chrono::milliseconds hang_timeout{0};  // of ChildProgramOptions
  std::function<void()> on_ready;
  std::function<void()> on_reload;             // at HUP, which the servers get, too; may be empty
  std::function<void()> beat;                  // called in the interval; may be empty
  std::chrono::milliseconds beat_interval{0};  // 0: never
};

/// Runs the servers of a topology on this host.
///
/// Thread safety: one thread makes, runs and destroys it. There is one at a time, which hears TERM, INT and
/// HUP.
class ShardServers {
 public:
  /// Starts the servers. ResourceExhausted: the system has no threads or descriptors for them.
  static absl::StatusOr<std::unique_ptr<ShardServers>> Start(const Topology& topology,
                                                             ShardServersOptions options);
  /// Ends all servers.
  ~ShardServers();
  ShardServers(const ShardServers&) = delete;
  ShardServers& operator=(const ShardServers&) = delete;

  /// Serves until TERM or INT, or Stop, and forwards HUP. Returns 0, or the exit status of a server that
  /// never served.
  int Run();
  /// Has Run return. Any thread may call it.
  void Stop();

 private:
  ShardServers(ShardServersOptions options, int wake_fd) : options_(std::move(options)), wake_fd_(wake_fd) {}
  /// Waits for a signal, or for news of a server.
  void Wait() const;

  const ShardServersOptions options_;
  const int wake_fd_;                     // readable: something has changed below, or a signal has come
  std::atomic<std::uint32_t> ready_ = 0;  // servers that have served
  std::atomic<int> failure_ = 0;          // exit status of a server that never served
  std::atomic<bool> is_stopped_ = false;
  std::vector<std::unique_ptr<ChildProgram>> servers_;
};

}  // namespace remora
