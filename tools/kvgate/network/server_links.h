// The connections of a gateway thread to its servers: one for each shard.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_reader.h"
#include "client/coroutine_client.h"
#include "client/options.h"
#include "store/base/clock.h"
#include "tools/kvgate/keys/helper_thread.h"
#include "tools/kvgate/network/inbox.h"
#include "tools/kvgate/network/slot_owners.h"

namespace remora::kvgate {

/// A client for each shard of a topology. Where a connection is lost, a helper thread dials anew. A shard
/// that is away delays only operations of its keys. If it has other members by then, as other servers tell,
/// its client goes on with these.
///
/// Thread safety: none. All calls are those of the inbox's thread.
class ServerLinks {
 public:
  /// Connects to all shards. `reader`, `inbox` and `clock` live longer. Outcomes as for
  /// AsyncClient::Connect, with the name of the shard.
  static absl::StatusOr<std::unique_ptr<ServerLinks>> Connect(TopologyReader& reader,
                                                              const ClientOptions& options, Inbox& inbox,
                                                              const Clock& clock);
  /// Ends all operations with Cancelled. Coroutines that await them resume, and may begin others.
  ~ServerLinks();
  ServerLinks(const ServerLinks&) = delete;
  ServerLinks& operator=(const ServerLinks&) = delete;

  const Topology& topology() const { return owners_.topology(); }
  /// Returns the shards of the slots.
  SlotOwners& owners() { return owners_; }
  /// Returns the client of a shard. Null: it is being destroyed.
  CoroutineClient* client(std::size_t shard) const { return links_[shard]->kv.get(); }
  /// Returns the shard of a key.
  std::size_t ShardOf(std::string_view key) const { return owners_.ShardOf(key); }
  /// Runs a task up to its first wait, and owns it until its end.
  void Start(Task<void> task) { client(0)->Start(std::move(task)); }

  /// Does all work that is due. Returns whether an operation has ended.
  bool Poll();
  bool has_in_flight() const;
  /// Make the descriptors readable once there is work, and end that (AsyncClient::Arm).
  void Arm();
  void Disarm();
  std::vector<int> fds() const;
  /// Returns when Poll has work that no descriptor announces.
  std::optional<TimePoint> next_deadline() const;
  bool is_dialling() const;
  /// Waits for the helper threads. The inbox must then still be drained.
  void StopDialling();

 private:
  struct Link {
    std::unique_ptr<CoroutineClient> kv;
    std::unique_ptr<HelperThread> dialer;
    bool is_dialling = false;
    std::string addresses{};  // that the client dials
  };

  ServerLinks(TopologyReader& reader, std::chrono::milliseconds timeout, Inbox& inbox, const Clock& clock)
      : owners_(reader, timeout, inbox, clock), inbox_(inbox) {}

  void BeginDialling(Link& link);
  /// Has the clients dial the addresses of a topology that was read anew.
  void TakeAddresses();

  SlotOwners owners_;  // first: operations that end use it
  Inbox& inbox_;
  std::uint64_t adopted_ = 0;  // the topology whose addresses all links have (SlotOwners::adopted)
  std::vector<std::unique_ptr<Link>> links_;  // of the shards; the first one runs the tasks
};

}  // namespace remora::kvgate
