// The slot of a batch: that of all its keys.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "store/format/wire/write_batch.h"

namespace remora {

/// Returns the slot that all keys of the batch have; of an empty one, any slot. InvalidArgument: the batch
/// has a fault, or two keys have different slots, which the message names.
absl::StatusOr<std::uint32_t> SlotOfBatch(const WriteBatch& batch);

}  // namespace remora
