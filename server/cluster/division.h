// The division of a cluster's slots among shards whose members agree in etcd
// (docs/decisions/0102-slots-of-replicated-shards.md). One key has it, as the text of a topology:
//
//   /remora/clusters/9f86d081884c7d65/slots
//
// The addresses in that text are those with which the cluster began. Where a shard's configuration names its
// members, these take their place in the text for clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cluster/config_store.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Returns the key of a cluster's division in etcd.
std::string DivisionKey(std::uint64_t cluster);

/// Content of a division, for one of its shards.
struct DivisionView {
  ClusterSlots own{};                    // the slots of this shard
  std::vector<std::string> shards{};     // all names, in the order of the text
  std::vector<std::string> addresses{};  // of each, as the text has them
};

/// Reads the text of a division.
///
/// Thread safety: any thread may call it.
class DivisionFormat {
 public:
  DivisionFormat() = default;
  virtual ~DivisionFormat() = default;
  DivisionFormat(const DivisionFormat&) = delete;
  DivisionFormat& operator=(const DivisionFormat&) = delete;

  /// FailedPrecondition: the text is no division, or one of another cluster, or does not have `self`.
  virtual absl::StatusOr<DivisionView> Read(std::string_view text, const ShardIdentity& self) const = 0;
  /// Returns the text with other addresses, in the order of the shards. FailedPrecondition: it has a fault.
  virtual absl::StatusOr<std::string> WithAddresses(std::string_view text,
                                                    std::span<const std::string> addresses) const = 0;
  /// Returns the text in which a shard has given slots to another one, with the next revision.
  /// FailedPrecondition: the text has a fault, not all of the slots are the shard's, or it would have none
  /// left, or one of the shards is not there.
  virtual absl::StatusOr<std::string> WithMoved(std::string_view text, const ClusterSlots& slots,
                                                const ShardIdentity& from, std::string_view to) const = 0;
};

/// The division, as a member read it last. Each call blocks as ConfigStore does.
///
/// Thread safety: none.
class DivisionReader {
 public:
  DivisionReader(std::shared_ptr<const DivisionFormat> format, const ShardIdentity& self)
      : format_(std::move(format)), self_(self) {}

  /// Reads the division. Errors leave what was read before:
  ///   NotFound: etcd has none. FailedPrecondition: as DivisionFormat::Read. Others: as ConfigStore::Read.
  absl::Status Read(ConfigStore& store);
  /// Reads the addresses of the members of the next shard in turn; of one that cannot be read, those before
  /// stay. REQUIRES: Read was OK once.
  void ReadAddressesOfNext(ConfigStore& store);

  /// Returns the addresses of each shard, by its name: those of its configuration, if that was read.
  std::map<std::string, std::string> Addresses() const;
  bool is_known() const { return topology_ != nullptr; }
  /// Returns the slots of this shard. REQUIRES: is_known().
  const ClusterSlots& own() const { return view_.own; }
  /// Returns the topology for clients. Null: it is not known.
  std::shared_ptr<const std::string> topology() const { return topology_; }

 private:
  absl::Status Compose();

  const std::shared_ptr<const DivisionFormat> format_;
  const ShardIdentity self_;
  std::string text_;
  DivisionView view_;
  std::vector<std::string> addresses_;  // of the shards, as their configurations have them; empty: not read
  std::size_t next_ = 0;
  std::shared_ptr<const std::string> topology_;
};

}  // namespace remora
