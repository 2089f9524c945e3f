// Bytes of replication, between a primary, which connects as a client, and its follower (messages.h).
//
//   WRITE FollowStart, reigns into the staging buffer
//   SEND Request (follow)           ->   the follower compares the history with its own
//                                    <-  SEND Reply: the position from which on it takes groups
//   for each group, in parts of at most a slot of the staging buffer:
//     WRITE the part                ->
//     SEND Request (replicate)      ->
//                                    <-  SEND Reply
//
// Parts, and groups, are sent without waiting for replies. Each message has a slot of its own: an equal share
// of the staging buffer for each credit. The sender uses it again once the reply has come.
//
// Request (follow): key_size 0. condition: kFollowBegins. value: FollowStart, and behind it its reigns. Or
// condition: kFollowFails. value: a text for the follower's log, why the primary does not go on.
// Reply: result: the number of the follower's last group. version: the number up to which it acknowledges
// them, at its level of durability.
//
// Or condition: kFollowAsks. Nothing in the staging buffer. payload_checksum: a number, by which a member
// finds whether the question came to itself; or 0. Reply: result as above; version: the epoch; slot: 1 if it
// is a primary. Each reply to a kFollowBegins has the life of the member in its slot.
//
// Or condition: kFollowYields, to a primary. Nothing in the staging buffer. A member in sync is to take over
// by an operator's wish. Reply: once the primary takes no more writes, and that member serves without a wait.
// The primary goes on if nobody takes over within kYieldTime.
//
// Or condition: kFollowForces, to a member that follows. Nothing in the staging buffer. It is to take over,
// although it may lack acknowledged writes. Reply: as of promote.
//
// Request (replicate): key_size 0. value: the part. condition: the number of the group. ttl_ms: the bytes of
// the whole group. payload_checksum: the place of the part in it. A part that is not the last is answered at
// once. The last one is answered when the follower has the whole group, at its level of durability.
// Reply: version: the number of the last group that the follower acknowledges.
//
// Request (copy): of a primary whose follower cannot go on from its position (kTakesCopy). condition: a
// CopyStep, which says what value, ttl_ms and payload_checksum are. They come in the order of the steps;
// groups come between files and parts, too. Reply: result: as the step says, else 0.
//
// Request (support): nothing in the staging buffer. condition: the number of a round of the primary's lease
// line (store/format/memory/lease_line.h). It has the last slot, which no part uses. Reply: as of replicate.
//
// Request (promote): nothing in the staging buffer. Reply: result: the new epoch. version: the number of the
// last group that it has. Behind it: a text, if it waits for its own followers. The reply
// comes when the lease of the primary before is over.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "store/format/memory/hash.h"

namespace remora {

inline constexpr std::uint64_t kFollowBegins = 1;
inline constexpr std::uint64_t kFollowFails = 2;
inline constexpr std::uint64_t kFollowAsks = 3;
inline constexpr std::uint64_t kFollowYields = 4;
inline constexpr std::uint64_t kFollowForces = 5;

inline constexpr std::chrono::milliseconds kYieldTime{3000};

/// Result of a reply that rejects a kFollowBegins: the follower takes a copy of the primary's data instead.
inline constexpr std::int64_t kTakesCopy = 1;

enum class CopyStep : std::uint64_t {
  kBegins = 1,  // value: FollowStart, and behind it its reigns: does the follower take a copy?
  kFiles,     // ttl_ms: bytes of all files. They come from now on. Reply: tables that the follower has of an
              // earlier copy
  kFile,      // value: its name. ttl_ms: its size
  kPart,      // value: the next bytes of the file
  kFileEnds,  // payload_checksum: of the file, by NextCopyChecksum
  kGroup,     // value: a part of a group. payload_checksum: its number. ttl_ms: its size. key_size: 0
  kEnds,      // payload_checksum: number of the files. The follower has all groups that were sent
  kKeep,  // in place of kFile. value: the name of a table. ttl_ms: its size. payload_checksum: of it. Reply:
          // 1 if the follower has it, from an earlier copy; 0: it is to be sent
};

/// Bytes of each part of a file but the last one. The checksum of a file depends on it.
inline constexpr std::size_t kCopyPart = std::size_t{16} << 10;

/// Returns the checksum of a file of a copy up to the end of this part. `before`: that up to the part; 0: it
/// is the first one.
inline std::uint64_t NextCopyChecksum(std::uint64_t before, std::span<const std::byte> part) {
  const std::uint64_t both[] = {before, HashValue(part.data(), part.size())};
  return XXH3_64bits(both, sizeof(both));
}

/// Most reigns of a message, and of a stored history.
inline constexpr std::size_t kMaxReigns = 256;

/// A time with one primary. It begins with a promotion, or with the first start of a primary.
struct Reign {
  std::uint64_t epoch = 0;  // increases with each reign; 0: none
  std::uint64_t id = 0;     // random: two primaries never begin the same reign
  std::uint64_t after = 0;  // number of the last group of the reign before; 0: there is none

  friend bool operator==(const Reign&, const Reign&) = default;
};
static_assert(sizeof(Reign) == 24 && std::has_unique_object_representations_v<Reign>);

struct FollowStart {
  std::uint64_t last = 0;        // number of the primary's last group
  std::uint32_t count = 0;       // of the reigns behind this
  std::uint8_t began_empty = 0;  // 1: the first group of the history found an empty store
  std::uint8_t is_synced = 0;    // 1: the primary's level is synced
  std::uint16_t lease_ms = 0;    // the primary's lease time
};
static_assert(sizeof(FollowStart) == 16 && std::has_unique_object_representations_v<FollowStart>);

}  // namespace remora
