// The groups that come to a follower: a state machine without I/O.
//
// These invariants hold:
//   R7   The follower takes parts from one primary, the last one that Begin named. It drops the groups of an
//        earlier one that it has not applied.
//   R8   It applies the groups in the order of their numbers, each as a whole: a part is taken only if it
//        continues what came before.
//   R9   acknowledged() counts a group only after the store has applied it and, if it syncs, after the disk
//        has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Joins parts to groups, and applies these.
///
/// Thread safety: none; the server's one thread.
class GroupReceiver {
 public:
  /// Applies a group, like ServerStore::ApplyGroup.
  using ApplyFunction = std::function<absl::Status(std::uint64_t number, std::string_view bytes)>;

  /// Largest group: a commit log has no larger file.
  static constexpr std::uint64_t kMaxGroup = std::uint64_t{1} << 30;
  /// While so many bytes wait for space in the store, the primary is to send no more.
  static constexpr std::size_t kFullBytes = std::size_t{32} << 20;

  explicit GroupReceiver(ApplyFunction apply) : apply_(std::move(apply)) {}

  /// Takes groups from this primary, a session, from number `last` + 1 on. `syncs`: it acknowledges what the
  /// disk has.
  void Begin(const void* primary, std::uint64_t last, bool syncs);
  /// Takes groups from nobody.
  void End();
  /// Returns whether groups come from this primary.
  bool IsFrom(const void* primary) const { return primary_ == primary && primary != nullptr; }
  bool has_primary() const { return primary_ != nullptr; }

  struct Part {
    std::uint64_t number = 0;  // of the group
    std::uint64_t group_size = 0;
    std::uint64_t offset = 0;  // in the group
    std::span<const std::byte> bytes;
    bool is_last() const { return offset + bytes.size() == group_size; }
  };
  /// Takes a part, and copies its bytes. REQUIRES: it comes from the primary of Begin.
  ///
  /// - InvalidArgument: it does not continue what came before (R8). Nothing was taken.
  absl::Status Take(const Part& part);
  /// Applies the groups that have come. Stops at one that the store takes later. Returns whether it applied
  /// one. Other errors are those of ApplyGroup: groups come from nobody then.
  absl::StatusOr<bool> Apply();
  /// The disk has the groups up to this number.
  void NoteSynced(std::uint64_t number);

  /// Returns whether a group waits to be applied.
  bool has_work() const { return !groups_.empty(); }
  bool is_full() const { return bytes_ >= kFullBytes; }
  bool syncs() const { return syncs_; }
  /// Returns the number of the last group that was applied.
  std::uint64_t applied() const { return applied_; }
  std::uint64_t acknowledged() const { return syncs_ ? synced_ : applied_; }

 private:
  const ApplyFunction apply_;
  const void* primary_ = nullptr;
  bool syncs_ = false;
  std::uint64_t applied_ = 0;
  std::uint64_t synced_ = 0;        // at most applied_
  std::deque<std::string> groups_;  // whole ones, behind applied_
  std::string begun_;               // the beginning of the group behind them
  std::size_t bytes_ = 0;           // of groups_
};

}  // namespace remora
