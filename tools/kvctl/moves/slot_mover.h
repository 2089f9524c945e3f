// One move of slots: the commands to its two servers, from step to step (server/cluster/slot_moves.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_source.h"
#include "store/base/clock.h"
#include "store/format/cluster/cluster_slots.h"

namespace remora::kvctl {

/// Slots that go from one shard of a topology to another one.
struct PlannedMove {
  ClusterSlots slots{};
  std::size_t from = 0;
  std::size_t to = 0;
};

/// Returns the moves that give these slots to a shard: one for each shard that has some of them.
std::vector<PlannedMove> PlanMove(const Topology& topology, const ClusterSlots& slots, std::size_t to);
/// Returns the fewest moves after which the shards have equally many slots, or one more. Each shard gives its
/// last slots.
std::vector<PlannedMove> PlanRebalance(const Topology& topology);
/// Divides slots into parts of so many, in their order.
std::vector<ClusterSlots> DivideSlots(const ClusterSlots& slots, std::uint32_t most);

/// Returns the topology of the greatest revision that these clients' servers tell, or that one.
Topology LatestOf(const Topology& topology, std::span<Client* const> clients);

/// Moves slots between two servers. Shards that fail over need commands to the source alone.
///
/// Thread safety: none.
class SlotMover {
 public:
  /// Returns the client of a shard, which reconnects.
  using ClientOf = absl::FunctionRef<absl::StatusOr<Client*>(std::size_t shard)>;

  /// `topology`: of a file, which the servers change, or of servers, whose division is in etcd.
  SlotMover(const Topology& topology, ClientOf clients, const Clock& clock)
      : topology_(topology), clients_(clients), clock_(clock), is_in_etcd_(IsOfServers(topology.path())) {}
  SlotMover(const SlotMover&) = delete;
  SlotMover& operator=(const SlotMover&) = delete;

  /// Moves slots. OK: the destination serves them. Other outcomes: the source still does, unless the text
  /// says something else. `bytes_per_second`: of the copy; 0: no limit.
  absl::Status Move(const PlannedMove& move, std::uint64_t bytes_per_second);

  /// Returns how long the slots took no writes in the last move.
  Duration pause() const { return pause_; }

 private:
  const ShardPlace& Place(std::size_t shard) const { return topology_.shards()[shard]; }
  absl::Status Begin(const PlannedMove& move, std::uint64_t bytes_per_second);
  /// Asks the destination to take the slots, after a move whose sender has ended has made way.
  absl::Status BeginToTake(const PlannedMove& move);
  absl::Status AwaitCopy();
  absl::Status CloseAndConfirm();
  /// Waits until the source is in this state.
  absl::Status AwaitSource(const char* state);
  absl::Status Give(const PlannedMove& move);
  absl::Status AwaitServing(const PlannedMove& move);
  /// Reads the topology as it is now: the file, or what both shards know.
  absl::StatusOr<Topology> ReadNow() const;
  /// Has both servers go on as before, if the source knows that it has not swapped.
  void Cancel();
  /// Returns the end of a move that the servers gave up: which of them, and why. `when`: in which step.
  absl::Status WasGivenUp(absl::string_view when) const;
  /// Returns why a server gave the move up, as it says; empty: it knows nothing of that. `incarnation`: of
  /// the server when the move began.
  std::string WhyAt(Client& server, const ShardPlace& shard, std::uint64_t incarnation) const;
  absl::StatusOr<std::string> ToSource(const char* command) const;
  absl::StatusOr<std::string> ToDestination(const char* command) const;

  const Topology& topology_;
  const ClientOf clients_;
  const Clock& clock_;
  const bool is_in_etcd_;
  std::string move_;  // its number
  PlannedMove now_;   // the move in progress
  std::uint64_t source_incarnation_ = 0;
  std::uint64_t destination_incarnation_ = 0;
  Client* source_ = nullptr;
  Client* destination_ = nullptr;
  Duration pause_{0};
};

}  // namespace remora::kvctl
