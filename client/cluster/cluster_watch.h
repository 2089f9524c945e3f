// A watch of all shards of a cluster, which shows their changes in one stream.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "client/watch.h"
#include "store/base/clock.h"
#include "store/format/types/change.h"

namespace remora {

class ClusterClient;

/// A watch of the writes to a cluster (ClusterClient::Watch).
///
/// It shows the changes of each shard as ClientWatch does, in that shard's order. Changes of different shards
/// come in any order: of two writes to different shards, the later one may come first, and one may come
/// between two of a batch. A key has one shard, so the changes of a key are in order. So a copy is kept up to
/// date as with ClientWatch. The watch does not show a key that lies in the wrong shard, because no call of
/// the cluster's client finds it.
///
/// If slots leave a shard, the watch ends with OutOfRange, as one does that has missed changes. It may have
/// shown changes of the next owner before earlier ones. Begin a new one, and then scan.
///
/// While no change comes, the client READs a word of each shard's memory every 1 to 16 ms.
///
/// After its client is destroyed, Next ends with FailedPrecondition. resume_token() still returns the
/// position.
///
/// Thread safety: that of its client.
class ClusterWatch {
 public:
  ~ClusterWatch();
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  /// Goes to the next change of any shard, and waits for it up to `wait`. Returns false if no change came in
  /// this time. Outcomes are those of ClientWatch::Next, with the name of the shard. Those that are final
  /// there are final for the watch of all shards. After any other error the caller may call Next again, which
  /// asks the other shards first. A shard that is down takes ClientOptions::timeout in each round.
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);

  // The change's parts, valid until the next call of Next. REQUIRES: Next returned true.
  ChangeKind kind() const { return watches_[current_]->kind(); }
  std::string_view key() const { return watches_[current_]->key(); }
  std::string_view value() const { return watches_[current_]->value(); }       // empty for a deletion
  std::uint64_t version() const { return watches_[current_]->version(); }      // 0 for a deletion
  std::uint64_t expiry_ms() const { return watches_[current_]->expiry_ms(); }  // of its server; 0: never
  /// Returns the change's number among those of its shard, where it increases.
  std::uint64_t sequence() const { return watches_[current_]->sequence(); }
  /// Returns the number of its shard in the topology.
  std::size_t shard() const { return current_; }

  /// Returns a resume token for WatchOptions::resume_token of ClusterClient::Watch, with which any client of
  /// this cluster may continue after the change that was shown last. It has one token of a ClientWatch for
  /// each shard, with dots in between. So the topology must have the same shards in the same order.
  std::string resume_token() const;

 private:
  friend class ClusterClient;
  ClusterWatch(const Topology& topology, const Clock& clock) : topology_(topology), clock_(clock) {}

  absl::Status Begin(ClusterClient& client, const WatchOptions& options);
  /// Makes one look at a shard, without a wait. Returns whether it has a change, which is the next one.
  absl::StatusOr<bool> Look(std::size_t shard);

  const Topology topology_;
  const Clock& clock_;                                 // the client's
  std::vector<std::unique_ptr<ClientWatch>> watches_;  // of the shards
  std::size_t current_ = 0;                            // shard of the change shown
  std::size_t next_ = 0;                               // shard to ask first
  std::size_t in_a_row_ = 0;                           // changes that it has shown
  absl::Status failed_;                                // final
};

}  // namespace remora
