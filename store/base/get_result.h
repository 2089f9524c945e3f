// What a MultiGet says of each key.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace remora {

struct GetResult {
  absl::Status status;  // as of a Get of the key
  // If that is OK; else unspecified. The value's memory is used again.
  std::string value;
  std::uint64_t version = 0;
};

}  // namespace remora
