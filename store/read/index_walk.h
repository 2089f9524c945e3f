// A walk over the index: the keys that are in memory, in the order of store/format/memory/hash_order.h.
//
// A store without a tier has its keys in the index alone, and no past of them. There a scan, in any order,
// walks over the index. It takes the keys of one bucket at a time, and copies the record of each when it
// comes to it: all that a bucket leads to may be a gigabyte.
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

/// How far a walk has come.
struct IndexWalk {
  std::uint64_t place = 0;
  bool over = false;
};

/// Adds the keys of the range that have a record in memory, of the bucket that the walk comes to; returns how
/// many records it looked at. A walk from 0 to the end finds each key that is there meanwhile exactly once.
/// Takes the store's lock.
std::size_t WalkIndex(const StoreCore& core, const ScanRange& range, IndexWalk* walk,
                      std::vector<VersionedKey>* keys);

/// Returns the header of the key's record in memory, and copies the value, unless `value` is null. Takes the
/// store's lock.
std::optional<RecordHeader> CopyRecord(const StoreCore& core, std::string_view key, std::string* value);

}  // namespace remora
