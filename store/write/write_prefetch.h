// Prefetch for a group of writes. The bucket of each key, its record and its access frequency lie anywhere in
// memory. If the writer prefetches those of several writes together, they arrive in the time of one. For a
// single write, it prefetches the bucket as early as possible. The bucket leads to the old record, which the
// writer prefetches before it copies the bytes of the write.
//
// Prefetches change timing only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "store/engine/core.h"
#include "store/write/large_records.h"
#include "store/write/write.h"

namespace remora {

/// Prefetches the memory that writes will access.
///
/// Thread safety: any thread may call PrefetchOne; the caller of PrefetchSome holds the store's lock.
class WritePrefetcher {
 public:
  /// Both arguments outlive this.
  WritePrefetcher(const StoreCore& core, const LargeRecords& large) : core_(core), large_(large) {}

  /// Prefetches buckets and records for the first of these writes. Returns their number.
  std::size_t PrefetchSome(std::span<const Write> writes) const;
  /// Prefetches the bucket of a single write. Returns the hash of its key, which may still change; 0 if
  /// `writes` is not a single write.
  std::uint64_t PrefetchOne(std::span<const Write> writes) const;

 private:
  void PrefetchBucket(std::uint64_t key_hash) const;
  std::uint64_t HashOf(const Write& write) const;

  const StoreCore& core_;
  const LargeRecords& large_;
};

}  // namespace remora
