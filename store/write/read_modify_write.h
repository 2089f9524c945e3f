// TOUCH, INCREMENT and APPEND, which make a new record from an existing one. A published record never changes
// (layout.h, I4), so each writes a whole record beside the old one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/write/staged_write.h"

namespace remora {

/// Makes the records of kTouch, kIncrement and kAppend.
///
/// Thread safety: none; the caller holds the store's lock.
class ReadModifyWrite {
 public:
  /// `core` outlives this.
  explicit ReadModifyWrite(StoreCore& core) : core_(core) {}

  /// Appends a record with the new value, made from the old one, and sets `staged` and the write's result.
  /// `exists`: the key exists.
  /// Aborted: there is no space in the log.
  /// FailedPrecondition: kIncrement of a value that is not a number.
  /// OutOfRange: the sum is not a 64-bit number, or the appended value would be too large.
  /// NotFound, DataLoss, Unavailable: the old value cannot be read from the tier.
  absl::Status Apply(StagedWrite& staged, const KnownRecord& old, bool exists, TimePoint now) REMORA_WRITER;

 private:
  /// Calls take(value, hash of value) with the old record's value, and returns its status.
  template <typename Take>
  absl::Status ReadOld(const StagedWrite& staged, const KnownRecord& old,
                       const Take& take) const REMORA_WRITER;

  StoreCore& core_;
  std::string appended_ REMORA_WRITERS;  // the value that Apply makes; reused, to allocate no memory
};

}  // namespace remora
