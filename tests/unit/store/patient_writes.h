// Writes and reads that may have to wait until memory has rested, in a time that the test sets.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/store.h"
#include "tests/support/manual_clock.h"

namespace remora {

inline constexpr std::chrono::milliseconds kPatience{10};

/// As Store::Put and the like.
inline absl::Status CommitPatiently(Store& store, ManualClock& clock, Write write) {
  for (;;) {
    store.Commit(std::span(&write, 1));
    if (!absl::IsAborted(write.status)) return write.status;
    clock.Advance(kPatience);
  }
}

/// As Store::Get, which brings to memory what is cold: the value, or the name of what it said instead.
inline std::string GetPatiently(Store& store, ManualClock& clock, std::string_view key) {
  absl::StatusOr<Location> location = store.Locate(key);
  for (; absl::IsAborted(location.status()); location = store.Locate(key)) clock.Advance(kPatience);
  if (!location.ok()) return absl::StatusCodeToString(location.status().code());
  std::string value;
  const absl::Status status = store.Get(key, &value);
  return status.ok() ? value : absl::StatusCodeToString(status.code());
}

}  // namespace remora
