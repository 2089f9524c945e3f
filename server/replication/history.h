// The history of a replicated store: the reigns of its primaries. A file in the data directory keeps it.
//
// A position in the history is the number of a group. Two stores of one history that are at the same position
// have the same content. Each promotion begins a reign, with a greater epoch and a random id. So two stores
// that have the same reign have all reigns before it, too.
//
// These invariants are those of a follower that is asked to follow a primary (CheckPrimary):
//   R1  It follows no primary whose epoch is less than its own, nor another one of the same epoch. It keeps
//       the epoch before it acknowledges anything. So once a follower was promoted, and another one follows
//       it, the earlier primary gets no acknowledgement.
//   R2  It follows only a primary whose history includes its own position: its own last reign, and no group
//       behind the end of that reign.
//   R3  A follower without a history follows only if its store is empty, and the history began with an empty
//       store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/format/wire/replication_messages.h"

namespace remora {

/// Name of the file in the data directory.
inline constexpr std::string_view kHistoryFile = "REMORA-REPLICATION";

struct History {
  bool is_primary = false;      // else the store follows
  bool began_empty = false;     // the first group of the history found an empty store
  std::vector<Reign> reigns{};  // in the order of their epochs; empty: none yet

  std::uint64_t epoch() const { return reigns.empty() ? 0 : reigns.back().epoch; }
  /// Adds a reign that begins behind group `after`. Forgets the oldest one beyond kMaxReigns.
  void Begin(std::uint64_t id, std::uint64_t after);

  friend bool operator==(const History&, const History&) = default;
};

/// The state of a store that is asked to follow.
struct FollowerPosition {
  std::uint64_t last = 0;  // number of its last group
  bool is_empty = false;   // it has no key
};

/// Returns whether a store with the history `own` may follow a primary with the history `primary`, whose last
/// group has the number `primary_last`.
///
/// - FailedPrecondition: it may not; the message says why, and what to do.
absl::Status CheckPrimary(const History& own, const FollowerPosition& at, const History& primary,
                          std::uint64_t primary_last);

/// Returns whether a store with the history `own`, which may not follow this primary, may take a copy of the
/// primary's data in place of its own.
///
/// - FailedPrecondition: it may not; the message says why, and what to do.
absl::Status CheckCopy(const History& own, const FollowerPosition& at, const History& primary);

/// Returns whether the reigns are in order: epochs and positions increase, and no id is 0.
bool IsInOrder(const std::vector<Reign>& reigns);

std::string FormatHistory(const History& history);
/// Returns nullopt if the text is none that FormatHistory made.
std::optional<History> ParseHistory(std::string_view text);

/// Reads the history of a data directory. Returns nullopt if there is none.
///
/// - DataLoss: the file is damaged.
/// - PermissionDenied, Unavailable: it cannot be read.
absl::StatusOr<std::optional<History>> ReadHistory(const std::string& data_dir);
/// Replaces the history of a data directory in one step. Waits until the disk has it.
///
/// - PermissionDenied, Unavailable: it cannot be written. The directory then has this history, or the one
/// before.
absl::Status WriteHistory(const std::string& data_dir, const History& history);

}  // namespace remora
