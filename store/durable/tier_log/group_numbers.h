// The numbers of the groups of a replicated store, and the way of a group to the sink
// (store/durable/group_sink.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/durable/commit_log/format.h"
#include "store/durable/group_sink.h"
#include "store/durable/tier_log/group_builder.h"

namespace remora {

/// Key in the meta family of the number of the last group, in 8 bytes. Each group of a replicated store sets
/// it (G5 of store/durable/group_sink.h).
inline constexpr std::string_view kGroupNumberKey = "group_number";

/// Decodes the value of kGroupNumberKey. Returns nullopt if it has the wrong size, or is 0.
std::optional<std::uint64_t> ReadGroupNumber(std::string_view stored);

/// Numbers the groups that a store writes, and hands them to its sink.
///
/// Thread safety: none; the writer uses it.
class GroupNumbers {
 public:
  /// Returns whether Add and NoteWritten have something to do.
  bool is_on() const { return is_on_; }
  /// Returns the number of the last group. 0: the store is in no history of groups.
  std::uint64_t last() const { return last_; }
  /// Says which number the tier has stored, when it is opened.
  void Restore(std::uint64_t last);

  /// Has the sink get all groups from now on. `sink` outlives this, or the call of End.
  void Begin(GroupSink* sink);
  /// Hands out no more groups, and counts those that were handed out as acknowledged.
  void End();
  /// Says that the next group has this number, and an entry that says so: it comes from a primary. 0: it did
  /// not get written.
  void Follow(std::uint64_t number);

  /// Adds the number to a group that is about to be written. Outside of a history, it removes the stored
  /// number (G5 of group_sink.h).
  void Add(GroupBuilder* group) const;
  /// Notes that a group was written, of which Add was called, and hands it to the sink. `before`: the end of
  /// the log before it.
  void NoteWritten(std::span<const LogEntry> entries, Lsn before);

  /// Says that the followers have all groups up to this number.
  void Acknowledge(std::uint64_t number);
  /// Returns the end of the last group that is acknowledged, and all before it are; `appended` if all are.
  Lsn AcknowledgedTo(Lsn appended) const {
    return unacknowledged_.empty() ? appended : unacknowledged_.front().before;
  }

 private:
  struct Shipped {
    std::uint64_t number = 0;
    Lsn before;
  };

  void Ship(std::span<const LogEntry> entries);

  bool is_on_ = false;
  GroupSink* sink_ = nullptr;
  std::uint64_t incarnation_ = 0;  // of the groups since Begin
  std::uint64_t last_ = 0;
  std::uint64_t followed_ = 0;          // see Follow
  std::deque<Shipped> unacknowledged_;  // in the order of their numbers
  std::vector<std::uint64_t> encoded_;  // the last group, aligned to 8; reused
};

}  // namespace remora
