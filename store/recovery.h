// What a store does between opening its durable tier and serving: everything in the tier goes into memory,
// except what has expired: that leaves the tier.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/durable_tier.h"
#include "store/index.h"
#include "store/value_log.h"

namespace remora {

/// Returns how many entries had expired. REQUIRES: index and log are empty, and nobody reads them yet.
/// OutOfRange: it does not fit; `memory_size` is what the store was given, for the message. DataLoss,
/// Unavailable: as DurableTier::ForEach and Write.
absl::StatusOr<std::uint64_t> Recover(DurableTier& tier, std::size_t memory_size, Index& index, ValueLog& log,
                                      TimePoint now, std::int64_t unix_ms);

}  // namespace remora
