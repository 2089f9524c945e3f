// What was written to a durable tier, in its order, read again (store/format/types/change.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/format.h"
#include "store/format/types/change.h"

namespace remora {

/// Goes through the changes of keys. Thread Safety: none; while others write. REQUIRES: does not outlive its
/// tier.
class ChangeLog {
 public:
  ChangeLog() = default;
  virtual ~ChangeLog() = default;
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  /// kChange: *change, until the next step. kNone: none up to sequence `end` that was not shown. kLost: go on
  /// with another one that is opened at position(); log files come and go. OutOfRange: what comes next is not
  /// kept. DataLoss: not a log of a store's. Unavailable.
  enum class Step : std::uint8_t { kChange = 1, kNone = 2, kLost = 3 };
  virtual absl::StatusOr<Step> Next(std::uint64_t end, Change* change) = 0;

  /// All that is before this was shown, or is no change of a key.
  virtual std::uint64_t position() const = 0;
};

/// OutOfRange, for a feed whose next change is not kept; and what it can do.
absl::Status NotKept(const char* why);

/// Where a feed goes on that was at `place`: the sequence of what comes next. OutOfRange: what it has shown
/// is not what is before that, or nobody knows. InvalidArgument: it cannot have been there. `end`: of what is
/// written, the last sequence.
absl::StatusOr<std::uint64_t> Continue(const std::vector<Opening>& openings, const ChangePlace& place,
                                       std::uint64_t end);

}  // namespace remora
