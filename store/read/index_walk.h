// A walk over the index, which finds the keys in memory in the order of store/format/memory/hash_order.h.
//
// A store without durable tier has its keys in the index alone, and keeps no past state of them. There a scan
// (in any order) walks over the index. It takes the keys of one bucket at a time. It copies the record of a
// key only when it shows the key, because all records of a bucket together may take a gigabyte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/engine/core.h"
#include "store/format/memory/layout.h"
#include "store/format/types/scan_range.h"

namespace remora {

struct VersionedKey {
  std::string key;
  std::uint64_t version = 0;
};

/// Position of a walk.
struct IndexWalk {
  std::uint64_t place = 0;
  bool over = false;
};

/// Appends to `keys` those keys of the walk's next bucket that are in the range and have a record in memory.
/// Returns how many records it looked at. A walk from 0 to the end finds each key that exists during all of
/// it exactly once. Takes the store's lock.
std::size_t WalkIndex(const StoreCore& core, const ScanRange& range, IndexWalk* walk,
                      std::vector<VersionedKey>* keys);

/// Returns the header of the key's record in memory, or nullopt if there is none. Copies the value, unless
/// `value` is null. Takes the store's lock.
std::optional<RecordHeader> CopyRecord(const StoreCore& core, std::string_view key, std::string* value);

}  // namespace remora
