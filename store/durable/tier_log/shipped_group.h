// Decoder of the groups that a primary ships (store/durable/group_sink.h). They come from another machine, so
// it checks all that the durable tier of a follower will rely on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "store/durable/commit_log/format.h"

namespace remora {

/// A group of a primary. The views in its entries point into the bytes that were decoded.
struct ShippedGroup {
  std::uint64_t number = 0;
  std::uint64_t checksum = 0;  // of all its bytes
  std::vector<LogEntry> entries;
  // Facts about the entries.
  std::uint64_t version_limit = 0;  // the last one that they set; 0: none
  std::uint64_t first_version = 0;  // the versions of its writes increase; 0: it has no version
  std::uint64_t last_version = 0;
  bool is_copied = false;  // its records came from another store, with versions that count for nothing here
};

/// Decodes the group that a sink got with this number.
///
/// - DataLoss: the bytes are damaged, belong to another number, or do what no group of a store does.
absl::StatusOr<ShippedGroup> ReadShippedGroup(std::uint64_t number, std::string_view bytes);

}  // namespace remora
