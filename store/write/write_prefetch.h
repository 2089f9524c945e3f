// What a group of writes is going to look at lies anywhere in memory: each key's bucket, its record, its
// counts. Asked for side by side, before they are needed, they come in the time of one. Of one write alone,
// the bucket is asked for as early as can be, and its record, which the bucket tells, before the write's
// bytes are copied.
//
// No effect but on time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "store/engine/core.h"
#include "store/store.h"
#include "store/write/large_records.h"

namespace remora {

/// Thread Safety: PrefetchOne from any thread; PrefetchSome is the writer's.
class WritePrefetcher {
 public:
  /// Both outlive it.
  WritePrefetcher(const StoreCore& core, const LargeRecords& large) : core_(core), large_(large) {}

  /// Prefetches what the first of these writes need; returns of how many.
  std::size_t PrefetchSome(std::span<const Write> writes) const;
  /// Prefetches the bucket of one write alone; returns the hash of its key, as it may be. 0: there are more.
  std::uint64_t PrefetchOne(std::span<const Write> writes) const;

 private:
  void PrefetchBucket(std::uint64_t key_hash) const;
  std::uint64_t HashOf(const Write& write) const;

  const StoreCore& core_;
  const LargeRecords& large_;
};

}  // namespace remora
