// GET in place: search the index and the log without a lock, verify, copy the value out.
//
// Nearly all are done by one look: at one cache line of the key's bucket, where its slot is most likely, and
// at the record that this names. A live one is the key's wherever it was found.
//
// The others make the search that a remote reader makes, with loads instead of READs. In one process no word
// is torn, but the window between an old record's end and the new slot is there all the same, and the checks
// are the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/engine/core.h"
#include "store/read/promote.h"
#include "store/store.h"

namespace remora {

/// Thread Safety: any thread. It takes the store's lock only for a key that is not in memory, or was written
/// time and again meanwhile.
class PointReader {
 public:
  /// Both outlive it.
  PointReader(StoreCore& core, Promoter& promoter) : core_(core), promoter_(promoter) {}

  /// As Store::Get, Exists, Ttl and Locate. Exists: OK, if the key is there.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version);
  absl::Status Exists(std::string_view key);
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);
  absl::StatusOr<Location> Locate(std::string_view key);

 private:
  /// Gets a record where nothing comes in between: true, and it is done. False: nothing is known yet.
  bool TryFastGet(std::string_view key, std::string* value, std::uint64_t* version);
  /// Calls `take`(header copy, slot) with a record that was the key's live one at some moment of the call.
  /// Aborted: it could not be promoted right now.
  template <typename Take>
  absl::Status Find(std::string_view key, const Take& take);
  /// The same, once more while it is Aborted.
  template <typename Take>
  absl::Status FindWithRetry(std::string_view key, const Take& take);

  StoreCore& core_;
  Promoter& promoter_;
};

}  // namespace remora
