// Results of a MultiGet for each key, and of a MultiPut for each write.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace remora {

/// Result of one get.
struct GetResult {
  absl::Status status;  // as of a Get of the key
  // If that is OK; else unspecified. The value's memory is used again.
  std::string value;
  std::uint64_t version = 0;
};

/// Result of one put. If the status is OK, the write has this version.
struct PutResult {
  absl::Status status{};
  std::uint64_t version = 0;
};

}  // namespace remora
