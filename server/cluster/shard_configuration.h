// The configuration of a shard: which of its replicas have each acknowledged write, and which one is the
// primary. It is a JSON text in etcd, and changes as a whole (config_store.h).
//
//   { "epoch": 12, "primary": "b", "in_sync": [{"id": "b", "life": "00…07"}, {"id": "c", "life": "00…09"}],
//     "min_in_sync": 2, "complete": [], "replicas": ["a", "b", "c"],
//     "addresses": {"a": "tcp://…", "b": "tcp://…", "c": "tcp://…"}, "lineage": [[1, 1], [12, 9002]],
//     "change": "5f…" }
//
// The functions below compute the next configuration. They are pure: ConfigStore makes sure that the one
// before is still in place (K1). A *life* is a random number of a member's data. It changes when the member
// may have lost something that it had acknowledged. The allowed changes keep these invariants:
//
//   K5   Each takeover begins a new epoch, greater by one, whose primary is the member that made it.
//   K7   Only a member whose life is in the configuration takes over, unless an operator forces it. One
//        that lost something has another life, and joins anew.
//   K8   A member that leaves in_sync while that is at its minimum is complete. No write is
//        acknowledged until another member joins, so it has them all, and may take over. Once one
//        joins, it may not any more.
//   K9   The lineage has the first group of each epoch, in order: no takeover begins before the one
//        before it. A forced one drops the epochs that begin behind it.
//   K12  An operator's change of the members leaves the primary and the epoch as they are, and adds
//        nobody to those that acknowledge or may take over. So a primary that does not know it yet
//        waits for more members than it has to.
//   K13  Versions that a lost primary may have given are not given again: from a forced takeover on,
//        each epoch begins at versions_from at least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

inline constexpr std::size_t kMaxReplicas = 16;
inline constexpr std::size_t kMaxMemberId = 64;
/// Greatest versions_from.
inline constexpr std::uint64_t kMaxVersionsFrom = std::uint64_t{1} << 62;
/// Most epochs of a stored lineage. The oldest are forgotten.
inline constexpr std::size_t kMaxLineage = 64;

/// A member, with the life in which it has the acknowledged writes.
struct Member {
  std::string id;
  std::uint64_t life = 0;  // not 0

  friend bool operator==(const Member&, const Member&) = default;
};

struct Replica {
  std::string id;
  std::string address;

  friend bool operator==(const Replica&, const Replica&) = default;
};

struct EpochStart {
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;  // number of its first group

  friend bool operator==(const EpochStart&, const EpochStart&) = default;
};

struct ShardConfiguration {
  std::uint64_t epoch = 0;            // 0: the shard was never served
  std::string primary{};              // empty in epoch 0
  std::vector<Member> in_sync{};      // that acknowledge each write, by ID; the primary is one of them
  std::uint32_t min_in_sync = 1;      // fewer acknowledge no write
  std::vector<Member> complete{};     // others that have all acknowledged writes, by ID
  std::vector<Replica> replicas{};    // all members, by ID
  std::vector<EpochStart> lineage{};  // by epochs
  std::uint64_t versions_from = 0;    // K13; 0: no takeover was forced
  std::uint64_t change = 0;           // random: of the swap that wrote it, so that its author recognises it

  /// Returns whether the member is in in_sync, with this life.
  bool IsInSync(const Member& member) const;
  /// Returns whether the member may take over, by its life (K7, K8).
  bool MayTakeOver(const Member& member) const;
  /// Returns the address of a replica. Empty: it is none.
  std::string_view AddressOf(std::string_view id) const;
  /// Returns whether enough members acknowledge writes.
  bool has_minimum() const { return in_sync.size() >= min_in_sync; }

  friend bool operator==(const ShardConfiguration&, const ShardConfiguration&) = default;
};

/// Returns OK if this may be the ID of a member: 1 to 64 of a-z, 0-9, '-', '_' and '.'.
absl::Status CheckMemberId(std::string_view id);
/// Returns OK if the configuration is well formed. FailedPrecondition: it is not; the message says why.
absl::Status CheckConfiguration(const ShardConfiguration& configuration);

/// Returns the text of a configuration. REQUIRES: CheckConfiguration.
std::string EncodeConfiguration(const ShardConfiguration& configuration);
/// Returns the configuration of a text. Fields that it does not know are ignored.
///
/// - DataLoss: the text is none that EncodeConfiguration made; the message says where.
absl::StatusOr<ShardConfiguration> DecodeConfiguration(std::string_view text);

// Each of these returns the next configuration, without its `change`. FailedPrecondition: the change is not
// allowed; the message says why.

/// The first configuration of a shard.
absl::StatusOr<ShardConfiguration> FirstConfiguration(std::vector<Replica> replicas,
                                                      std::uint32_t min_in_sync);

/// A replica with an empty store begins the shard: epoch 1, and itself in sync.
absl::StatusOr<ShardConfiguration> BeginShard(const ShardConfiguration& now, const Member& member);

/// A member takes over from a primary that it does not hear, or from its own process before; its next group
/// is `first`. It then has to bring the others in sync to its position.
absl::StatusOr<ShardConfiguration> TakeOver(const ShardConfiguration& now, const Member& member,
                                            std::uint64_t first);

/// The primary leaves out a member. `is_open`: it serves already, so all in sync have what it has published.
absl::StatusOr<ShardConfiguration> Shrink(const ShardConfiguration& now, std::string_view primary,
                                          bool is_open, std::string_view leaves);

/// The primary, which is open, adds a member that acknowledges all groups already.
absl::StatusOr<ShardConfiguration> Join(const ShardConfiguration& now, std::string_view primary,
                                        const Member& joins);

/// The primary, which takes no writes any more, names another one, whose next group is `first`. That one then
/// takes over by itself.
absl::StatusOr<ShardConfiguration> Switch(const ShardConfiguration& now, std::string_view primary,
                                          std::string_view to, std::uint64_t first);

// --- Changes of an operator

/// Removes a member for good. `min_in_sync`: the minimum from then on; 0: the same.
absl::StatusOr<ShardConfiguration> RemoveReplica(const ShardConfiguration& now, std::string_view id,
                                                 std::uint32_t min_in_sync);

/// Adds a member, which the primary then brings into sync. `min_in_sync`: as in RemoveReplica.
absl::StatusOr<ShardConfiguration> AddReplica(const ShardConfiguration& now, const Replica& replica,
                                              std::uint32_t min_in_sync);

/// A member takes over that may lack acknowledged writes, because those that have them are lost for good. Its
/// next group is `first`, and its versions begin at `versions_from` at least. It is in sync alone.
absl::StatusOr<ShardConfiguration> ForceTakeOver(const ShardConfiguration& now, const Member& member,
                                                 std::uint64_t first, std::uint64_t versions_from);

}  // namespace remora
