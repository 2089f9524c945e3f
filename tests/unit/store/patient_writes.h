// Writes and reads that wait until retired memory is free. The test's clock advances meanwhile.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/server_store.h"
#include "tests/support/manual_clock.h"

namespace remora {

inline constexpr std::chrono::milliseconds kPatience{10};

/// Commits a write, and repeats it while it is Aborted. Returns its status.
inline absl::Status CommitPatiently(ServerStore& store, ManualClock& clock, Write write) {
  for (;;) {
    store.Commit(std::span(&write, 1));
    if (!absl::IsAborted(write.status)) return write.status;
    clock.Advance(kPatience);
  }
}

/// Returns the value of a key, or the name of the status. Promotes
/// the key if it is cold, and repeats that while it is Aborted.
inline std::string GetPatiently(ServerStore& store, ManualClock& clock, std::string_view key) {
  absl::StatusOr<Location> location = store.Locate(key);
  for (; absl::IsAborted(location.status()); location = store.Locate(key)) clock.Advance(kPatience);
  if (!location.ok()) return absl::StatusCodeToString(location.status().code());
  std::string value;
  const absl::Status status = store.Get(key, &value);
  return status.ok() ? value : absl::StatusCodeToString(status.code());
}

}  // namespace remora
