// The topology of a cluster: which server has which slots. A file of it is lines of text:
//
//   # Comments begin with a number sign.
//   remora-topology 2
//   cluster 9f86d081884c7d65
//   shard a 0-8191 local:///run/remora/a.sock
//   shard b 8192-16000,16001,16002-16383 tcp://kv1:7470,local:///run/remora/b.sock
//
// The first line that is neither blank nor a comment has the version of the format. One line has the
// cluster's ID, which is the same in each topology of these servers. Each other one has a shard: its name,
// its slots, and the addresses of its server (rdma/address_list.h) up to the line's end. Each slot has one
// shard, and each shard a slot at least. Version 1 has no line for the cluster.
//
// A comment `# revision 3` says how often slots have moved between the shards since the file was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

class ClusterSlots;

/// Most shards of a cluster.
inline constexpr std::size_t kMaxShards = 1024;

/// Largest file of a topology, in bytes.
inline constexpr std::size_t kMaxTopologyBytes = std::size_t{1} << 20;

/// Consecutive slots, first and last.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

/// One shard of a topology.
struct ShardPlace {
  std::string name;       // 1 to 32 letters, digits, dots, dashes and underscores
  std::string addresses;  // as Client::Connect takes them
  std::vector<SlotRange> slots;
};

/// Returns the shard's name and addresses, as errors show them: "shard a (tcp://kv1:7470)".
std::string ShownAs(const ShardPlace& shard);

/// A division of all slots among shards.
///
/// Thread safety: any thread may call const functions while no thread calls another function.
class Topology {
 public:
  /// Reads the text of a file. `name` stands before each error, as the file's name. Outcomes:
  ///   InvalidArgument: the text is no topology. The error names the line, the shard or the slot, and says
  ///     what to do. So it does for a slot with two shards or none, for an address or name that two shards
  ///     have, and for each word out of place.
  static absl::StatusOr<Topology> Parse(std::string_view text, std::string_view name);

  /// Reads a file. Outcomes as for Parse, and:
  ///   NotFound, PermissionDenied: there is no such file, or this user may not read it.
  ///   InvalidArgument: also, it has more than kMaxTopologyBytes, or is a directory.
  ///   Unavailable: the system cannot read it.
  static absl::StatusOr<Topology> Read(const std::string& path);

  /// Returns the topology in which each of the servers has an equal part of the slots. The shards are called
  /// 0, 1 and so on. `cluster`: its ID; 0: it has none. InvalidArgument: as for Parse, or the servers are
  /// none, or more than kMaxShards.
  static absl::StatusOr<Topology> Even(std::span<const std::string> servers, std::uint64_t cluster = 0);

  /// Returns the topology of one server, without an ID. The shard has no name, so errors do not name it, and
  /// the server may be any. InvalidArgument: the text is no list of addresses (rdma/address_list.h).
  static absl::StatusOr<Topology> OfServer(std::string_view addresses);

  /// Returns the topology in which a shard has given slots to another one, with the next revision.
  ///   FailedPrecondition: not all of the slots are the shard's, or it would have none left.
  ///   NotFound: there is no shard with one of the names.
  absl::StatusOr<Topology> WithMoved(const ClusterSlots& slots, std::string_view from,
                                     std::string_view to) const;

  /// Returns the text of a file, for Parse. It has no comments but the revision. REQUIRES: the shards have
  /// names.
  std::string ToText() const;

  /// Returns the file from which Read has it, or where it comes from (topology_source.h); empty: none.
  const std::string& path() const { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }
  /// Returns whether another topology has the same shards, with the same addresses, in the same order. Their
  /// slots may differ.
  bool HasShardsOf(const Topology& other) const;
  /// Returns whether another topology of the same cluster has shards of the same names, in the same order.
  bool HasNamesOf(const Topology& other) const;

  /// Returns how often slots have moved.
  std::uint64_t revision() const { return revision_; }
  /// Returns the topology of the same division with other addresses, in the order of the shards.
  /// InvalidArgument: as for Parse, or there are more or fewer shards.
  absl::StatusOr<Topology> WithAddresses(std::span<const std::string> servers) const;
  /// Returns whether another topology of the same shards divides the slots as this one does, and no slot has
  /// moved in between.
  bool HasDivisionOf(const Topology& other) const {
    return revision_ == other.revision_ && shard_of_slot_ == other.shard_of_slot_;
  }
  /// Returns the ID of the cluster; 0: it has none, as in a file of version 1.
  std::uint64_t cluster() const { return cluster_; }
  /// Returns the shards, in the order of the file. Valid as long as the topology.
  std::span<const ShardPlace> shards() const { return shards_; }
  /// Returns the identity with which the server of a shard must greet
  /// (store/format/cluster/shard_identity.h). REQUIRES: shard < shards().size().
  ShardIdentity IdentityOfShard(std::size_t shard) const { return IdentityOf(cluster_, shards_[shard].name); }
  /// Returns the index of the slot's shard. REQUIRES: slot < kSlots (store/format/cluster/slot.h).
  std::size_t ShardOfSlot(std::uint32_t slot) const { return shard_of_slot_[slot]; }
  /// Returns the index of the key's shard: that of its slot (store/format/cluster/slot.h).
  std::size_t ShardOf(std::string_view key) const;

 private:
  class Parser;
  Topology() = default;

  std::string path_;
  std::uint64_t cluster_ = 0;
  std::uint64_t revision_ = 0;
  std::vector<ShardPlace> shards_;
  std::vector<std::uint16_t> shard_of_slot_;  // kSlots elements
};

}  // namespace remora
