// The groups of a primary for one follower: from memory or, if they are not there any more, from the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/replication/shipped_groups.h"
#include "store/durable/tier_log/group_history.h"

namespace remora {

/// The groups of the primary.
struct GroupSource {
  const ShippedGroups& shipped;
  /// Reads the log, like ServerStore::ReadGroups. Any thread.
  std::function<absl::StatusOr<std::unique_ptr<GroupHistory>>(std::uint64_t from)> read;
};

/// Finds groups in the order of their numbers.
///
/// Thread safety: none; the thread of the link.
class GroupCursor {
 public:
  /// `source` outlives this.
  explicit GroupCursor(const GroupSource& source) : source_(source) {}

  /// Returns the group with this number. Null: it has not come yet. Cost: from the log, a read; of the whole
  /// log, if the call before was not for this group or the one before it.
  ///
  /// - OutOfRange: neither memory nor the log has it any more. Other errors are those of the log.
  absl::StatusOr<ShippedGroups::Group> Find(std::uint64_t number);
  /// Forgets the group that it found last.
  void Reset();

 private:
  const GroupSource& source_;
  std::unique_ptr<GroupHistory> from_log_;
  ShippedGroups::Group current_;
  std::uint64_t number_ = 0;  // of current_
};

}  // namespace remora
