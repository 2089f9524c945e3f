// A client of a cluster: a key-value map over several servers, each of which has some of the slots.
//
//   remora::SteadyClock clock;
//   absl::StatusOr<remora::Topology> topology = remora::Topology::Read("/etc/remora/topology");
//   auto cluster = remora::ClusterClient::Connect(*topology, {}, clock);
//   (*cluster)->Put("key", "value");
//   absl::StatusOr<std::string> value = (*cluster)->Get("key");
//
// The client finds the shard of a key by itself, so a GET costs a hash and a look into a table more than one
// of Client (docs/operating/scale.md).
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

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/client_metrics.h"
#include "client/cluster/cluster_scan.h"
#include "client/cluster/cluster_watch.h"
#include "client/cluster/topology.h"
#include "client/counters.h"
#include "client/options.h"
#include "store/base/clock.h"
#include "store/base/results.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

class ClusterShard;

/// A client of all servers of a topology, with one Client for each.
///
/// A call that names a key is the call of that name of the client of the key's shard: Client has its
/// outcomes, its cost and its guarantees. Errors that may come from the server, and not from the key, name
/// the shard and its address: all but NotFound, AlreadyExists, InvalidArgument and OutOfRange.
///
/// A server that is down concerns the keys of its shard alone. A call for one of them tries for
/// ClientOptions::timeout to reach it, and ends with Unavailable or DeadlineExceeded. Calls for other keys do
/// not wait for it. When the server is back, the next call reaches it.
///
/// All operations of keys are linearizable, as with one server: once any client was told that a value is
/// written, every GET that begins afterwards sees it. Only scans and counts have a moment for each shard.
/// Keys that belong together get a tag: `user:{42}:name` and `user:{42}:mail` have the same slot
/// (store/format/cluster/slot.h).
///
/// The servers say which shards they are (kvserver --shard), and the client compares it with the topology at
/// each connection. A call whose shard is reached at another one's address ends with FailedPrecondition, and
/// has done nothing. That is unchecked if the topology is of version 1 and the server has no --shard.
///
/// Slots may change their shards. A server that knows its slots (kvserver --slots) does nothing for a key of
/// another slot. Then the client reads the topology anew, if ReadTopology or Topology::Read made it, and
/// repeats the call, for ClientOptions::timeout at most. The names of the shards are those of Connect, and in
/// a file also the addresses. If the owner cannot be found, a call ends with FailedPrecondition, and IsMoved
/// (store/base/moved.h) is true.
///
/// A topology of servers (topology_source.h) names all members of a shard. The client goes on with the next
/// one if a member is gone, as with a list of addresses. If none answers, it asks other servers for the
/// topology, which may name other members by now, and the next call uses these.
///
/// So it goes on while `kvctl cluster move` moves slots. Calls for these wait for some milliseconds. A scan
/// or a watch that is in progress ends with an error (cluster_scan.h, cluster_watch.h). Counts and deletions
/// of many keys begin anew if slots move meanwhile; Count() may count the keys of a slot that moves right
/// then twice, or not at all.
///
/// A server without --slots takes each key. A key that another program writes there by mistake is not found
/// here, and not shown by scans; Count of a server counts it.
///
/// Memory: Client's, once for each shard. The first MultiGet or MultiPut over several shards makes a second
/// connection to each of them (side_by_side.h), unless it only reads mapped memory.
///
/// The class has more than 25 methods: one for each operation, and accessors.
///
/// Thread safety: none, as for Client. One thread at a time may use a cluster's client, with its scans and
/// its shards' clients. In a forked child each call that reaches a server ends with FailedPrecondition. The
/// child must not destroy the client.
class ClusterClient {
 public:
  /// Connects to each shard of the topology. ClientOptions::connect_timeout is for all of them together; each
  /// has its part of the time that is left. A shard whose server cannot be reached does not fail the call, as
  /// long as another one can: later calls try again. `clock` must outlive the client. Outcomes:
  ///   Unavailable, DeadlineExceeded: no server can be reached.
  ///   FailedPrecondition: a server is another shard than the topology says, or of another cluster, and the
  ///     message names its address and both identities; two shards lead to the same server; or as for
  ///     Client::Connect.
  ///   InvalidArgument, PermissionDenied, ResourceExhausted: as for Client::Connect.
  static absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(const Topology& topology,
                                                                const ClientOptions& options = {},
                                                                const Clock& clock = DefaultClock());
  /// Rejects at compile time a temporary clock, which would not outlive the client.
  static absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(const Topology& topology,
                                                                const ClientOptions& options,
                                                                const Clock&& clock) = delete;
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // --- Of one key, as Client's calls of the same names ---

  absl::StatusOr<std::string> Get(std::string_view key);
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr);
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                     std::uint64_t* version = nullptr);
  absl::StatusOr<bool> Exists(std::string_view key);
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);
  absl::Status Put(std::string_view key, std::string_view value);
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options);
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {});
  absl::Status Persist(std::string_view key, const WriteOptions& options = {});
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options = {});
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options = {});

  // --- Of several keys ---

  /// Gets each of `keys` and stores its outcome into the element of `results` with the same index. Asks the
  /// shards side by side, so the call takes about as long as the part of the slowest one. Through mapped
  /// memory a READ is a copy, and the parts follow each other. Outcomes:
  ///   OK: each result has the outcome of its key, as for Client::MultiGet.
  ///   InvalidArgument: `results` and `keys` differ in size.
  ///   Any other: a shard failed, and the message names it, the first one if several did. The results of its
  ///     keys that were incomplete have such a status. All others have their outcomes.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results);

  /// Puts each of `requests`, and stores its outcome into the element of `results` with the same index. The
  /// shards work side by side. Requests of the same shard keep their order. Outcomes:
  ///   OK: each result has the outcome of its write, as for Client::MultiPut.
  ///   InvalidArgument: `results` and `requests` differ in size.
  ///   Any other: a shard failed, as for MultiGet. Its writes without an answer may or may not have been
  ///     done.
  absl::Status MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results);

  /// Does all writes of a batch or none, as Client::Apply. All its keys must have the same slot. Outcomes as
  /// for Client::Apply, and:
  ///   InvalidArgument: two keys have different slots. The message names them; give both the same tag.
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version = nullptr,
                     std::optional<Durability> durability = {});

  /// Begins a scan of all shards, which merges their keys (client/cluster/cluster_scan.h). The caller owns
  /// the scan, and destroys it before the client. Cost: that of a scan of each shard. Outcomes as for
  /// Client::Scan; also each failure of a shard, with its name.
  absl::StatusOr<std::unique_ptr<ClusterScan>> Scan(const ScanOptions& options = {});

  /// Begins a watch of all shards (client/cluster/cluster_watch.h). All of them must be reached for it. The
  /// caller owns the watch. Outcomes as for Client::Watch, with the name of the shard; and:
  ///   InvalidArgument: the resume token is of another number of shards.
  absl::StatusOr<std::unique_ptr<ClusterWatch>> Watch(const WatchOptions& options = {});

  /// Returns the sum of the shards' counts, each as of its own moment. Outcomes as for Client::Count, with
  /// the name of the first shard that failed.
  absl::StatusOr<std::uint64_t> Count();
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range);

  /// Deletes the keys of the range, or all keys, in one shard after the other, and returns how many it
  /// deleted. Outcomes as for Client::DeleteRange. If a shard fails, the others have nevertheless deleted
  /// theirs; the message names the first one that failed and says how many keys the others deleted.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DeleteAll();

  // --- Shards ---

  /// Returns the topology of Connect, or the last one that was read since. Valid as long as this client.
  const Topology& topology() const { return topology_; }
  /// Returns the number of shards.
  std::size_t size() const { return clients_.size(); }
  /// Returns the client of a shard, for calls that concern one server: Ping, Stats, Settings, Backup,
  /// registered memory. Connects it if it is not. Valid as long as this client. REQUIRES: index < size().
  /// Outcomes as for Client::Connect, and FailedPrecondition: the server is not the shard's.
  absl::StatusOr<Client*> shard(std::size_t index);
  /// Returns the client of a key's shard, as `shard` does.
  absl::StatusOr<Client*> shard_of(std::string_view key) { return shard(topology_.ShardOf(key)); }

  /// Returns the sums over all connections since Connect, as Client::counters and Client::metrics. Keys of a
  /// MultiGet or MultiPut over several shards count as Gets and Puts there.
  ClientCounters counters() const;
  ClientMetrics metrics() const;

 private:
  class Parts;
  friend class ClusterScan;

  ClusterClient(const Topology& topology, const ClientOptions& options, const Clock& clock);

  absl::Status ConnectAll(const ClientOptions& options, const Clock& clock);
  /// Connects a shard that has no client, within `timeout`, and checks that no other shard has its server.
  absl::StatusOr<Client*> ConnectShard(std::size_t index, std::chrono::milliseconds timeout);
  /// Tries of a call whose slot was another server's.
  struct MovedTries {
    int count = 0;
    TimePoint deadline{};
  };
  /// Returns whether to try a call again that ended with `status`: it is Moved, and the topology was read
  /// anew, behind a pause from the second time on.
  bool TriesAgain(const absl::Status& status, MovedTries* tries);
  /// Reads the topology anew, if it is that of a file or of servers. Returns false if it has other shards
  /// now. If it cannot be read, all stays as it is: perhaps a file is being replaced.
  bool Refresh();
  /// Asks all servers that it knows, until one answers. Returns as Refresh.
  bool AskOthers();
  /// Takes a topology that was read, unless it is older than that before. Returns as Refresh.
  bool Take(Topology fresh);
  /// Asks other servers for the topology, if `status` says that a server cannot be reached. Its shard may
  /// have other members by now. The next call uses them.
  void NoteSilence(const absl::Status& status);
  /// Returns the result of `call`, which concerns all shards, once no slot has moved while it ran. `call`
  /// runs again if one has.
  template <typename Call>
  auto WhileNothingMoves(absl::string_view operation, const Call& call);
  /// Returns the result of `call` with the client of the key's shard.
  template <typename Call>
  auto On(std::string_view key, const Call& call);
  /// Returns the sum of the results of `call` with each shard's client.
  template <typename Call>
  absl::StatusOr<std::uint64_t> Sum(const Call& call);
  template <typename Call>
  absl::StatusOr<std::uint64_t> DeleteIn(const Call& call);
  /// Does it once, and adds to *deleted.
  template <typename Call>
  absl::StatusOr<std::uint64_t> DeleteInAll(const Call& call, std::uint64_t* deleted);

  Topology topology_;
  std::uint64_t divisions_ = 0;  // how often Refresh found another division
  const ClientOptions options_;
  const Clock& clock_;
  const std::chrono::milliseconds timeout_;
  TimePoint next_question_{};  // NoteSilence asks no earlier
  std::vector<std::unique_ptr<ClusterShard>> shards_;
  std::vector<std::unique_ptr<ClusterShard>> replaced_;  // whose servers had other addresses
  std::vector<Client*> clients_;                         // of the shards; null: not connected yet
  std::unique_ptr<Parts> parts_;                         // of a call with several keys
};

}  // namespace remora
