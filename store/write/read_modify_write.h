// TOUCH, INCREMENT and APPEND: records made of those that are there. A published record never changes
// (layout.h, I4), so each is a whole record, written beside the old one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/write/staged_write.h"

namespace remora {

/// Thread Safety: none; the writer's.
class ReadModifyWrite {
 public:
  /// `core` outlives it.
  explicit ReadModifyWrite(StoreCore& core) : core_(core) {}

  /// For kTouch, kIncrement and kAppend: appends the record with the value that is made of the old one.
  /// `exists`: there is one. Aborted: no room.
  absl::Status Apply(StagedWrite& staged, const KnownRecord& old, bool exists, TimePoint now) REMORA_WRITER;

 private:
  /// Calls take(value, its hash), which returns a status, with the old record's value.
  template <typename Take>
  absl::Status ReadOld(const StagedWrite& staged, const KnownRecord& old,
                       const Take& take) const REMORA_WRITER;

  StoreCore& core_;
  std::string appended_ REMORA_WRITERS;  // a value, as Apply makes it; kept for its memory
};

}  // namespace remora
