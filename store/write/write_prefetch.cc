// What a group of writes is going to look at lies anywhere in memory: each key's bucket, its record, its
// counts. Asked for side by side, before they are needed, they come in the time of one. Of one write alone,
// the bucket is asked for as early as can be, and its record, which the bucket tells, before the write's
// bytes are copied.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "store/engine/store_impl.h"
#include "store/format/memory/record.h"

namespace remora {

// Of bytes that may change yet: it is a guess.
std::uint64_t Store::Impl::HashOf(const Write& write) const {
  return HashKey(write.reserved != nullptr ? core_.log.Key(PlaceOf(*write.reserved)) : write.key);
}

void Store::Impl::ForeseeBucket(std::uint64_t hash) const {
  core_.index.PrefetchBucket(hash);
  if (core_.wants_reads()) core_.frequency.Prefetch(hash);
}

std::uint64_t Store::Impl::ForeseeOne(std::span<const Write> writes) const {
  if (writes.size() != 1) return 0;
  const std::uint64_t hash = HashOf(writes.front());
  ForeseeBucket(hash);
  return hash;
}

std::size_t Store::Impl::Foresee(std::span<const Write> writes) const {
  constexpr std::size_t kMost = 16;  // a processor has no more accesses under way
  const std::size_t count = std::min(writes.size(), kMost);
  std::array<std::uint64_t, kMost> hashes;
  for (std::size_t i = 0; i < count; ++i) {
    hashes[i] = HashOf(writes[i]);
    ForeseeBucket(hashes[i]);
  }
  // That needs the buckets.
  for (const std::uint64_t hash : std::span(hashes).first(count)) core_.index.PrefetchRecords(hash);
  return count;
}

}  // namespace remora
