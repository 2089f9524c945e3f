// What a store does between opening its durable tier and serving: everything in the tier goes into memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "store/durable_tier.h"
#include "store/index.h"
#include "store/value_log.h"

namespace remora {

/// Returns the number of keys. REQUIRES: index and log are empty. OutOfRange: it does not fit; `memory_size`
/// is what the store was given, for the message. DataLoss, Unavailable: as DurableTier::ForEach.
absl::StatusOr<std::uint64_t> Recover(const DurableTier& tier, std::size_t memory_size, Index& index,
                                      ValueLog& log);

}  // namespace remora
