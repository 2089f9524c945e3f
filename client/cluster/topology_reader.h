// The topology of a cluster for clients that do not wait: those of kvgate and remora.aio, which have a client
// for each shard. A thread beside them reads it anew, from where it came (topology_source.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/cluster/topology.h"
#include "client/options.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora {

/// Reads a topology again and again, and has the last one.
///
/// Invariants:
///   T1: of servers, no text replaces one of a greater revision. One server may learn of a move later.
///   T2: each shard that can be reached is asked: those between which slots have moved know of it first.
///   T3: the shards stay: their names, their order and, in a file, their addresses.
///
/// Thread safety: any thread may call all functions. Reads follow each other, and callers that wait for the
/// same one share it.
class TopologyReader {
 public:
  /// `first`: of ReadTopology. `options`: those of the clients of the shards. `clock` outlives the reader.
  TopologyReader(Topology first, const ClientOptions& options, const Clock& clock);
  TopologyReader(const TopologyReader&) = delete;
  TopologyReader& operator=(const TopologyReader&) = delete;

  /// Returns the topology as it was read last.
  Topology latest() const;
  /// Returns whether servers tell the topology, and not a file.
  bool is_of_servers() const { return is_of_servers_; }

  /// Reads the topology anew, and returns the latest. Blocks: for a file, or for an answer of each shard, and
  /// at most about half a second for one that is silent. Errors leave the latest as it is:
  ///   FailedPrecondition: it has other shards now (T3).
  ///   Others: it cannot be read. A file may be in the midst of being replaced.
  absl::StatusOr<Topology> Read();

 private:
  /// The connection by which a shard is asked.
  struct Asked {
    std::unique_ptr<Client> client{};  // null: there is none
    std::string addresses{};           // of it
    TimePoint next_attempt{};
  };

  absl::StatusOr<Topology> ReadNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  absl::StatusOr<Topology> ReadFile() const;
  absl::StatusOr<Topology> AskAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  /// Returns what a shard tells; nothing: it tells none, or cannot be reached.
  std::optional<Topology> AskShard(const Topology& before, std::size_t shard)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  absl::StatusOr<Topology> Take(Topology fresh);

  const ClientOptions options_;
  const Clock& clock_;
  const bool is_of_servers_;
  mutable Mutex mutex_;
  Topology latest_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;  // reads
  Mutex reading_;                                    // held while one is in progress
  absl::StatusOr<Topology> result_ ABSL_GUARDED_BY(reading_) =
      absl::UnavailableError("topology: it was not read anew yet");
  std::vector<Asked> asked_ ABSL_GUARDED_BY(reading_);  // of the shards; only of servers
};

}  // namespace remora
