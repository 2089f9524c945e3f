#include "store/write/write_prefetch.h"

#include <algorithm>
#include <array>

#include "store/format/memory/record.h"

namespace remora {

// Returns a guess: the client may still change the bytes of the key.
std::uint64_t WritePrefetcher::HashOf(const Write& write) const {
  return HashKey(write.reserved != nullptr ? core_.log.Key(large_.PlaceOf(*write.reserved)) : write.key);
}

void WritePrefetcher::PrefetchBucket(std::uint64_t hash) const {
  core_.index.PrefetchBucket(hash);
  if (core_.wants_reads()) core_.frequency.Prefetch(hash);
}

std::uint64_t WritePrefetcher::PrefetchOne(std::span<const Write> writes) const {
  if (writes.size() != 1) return 0;
  const std::uint64_t hash = HashOf(writes.front());
  PrefetchBucket(hash);
  return hash;
}

std::size_t WritePrefetcher::PrefetchSome(std::span<const Write> writes) const {
  constexpr std::size_t kMaxPrefetched = 16;  // a CPU has no more accesses in flight
  const std::size_t count = std::min(writes.size(), kMaxPrefetched);
  std::array<std::uint64_t, kMaxPrefetched> hashes;
  for (std::size_t i = 0; i < count; ++i) {
    hashes[i] = HashOf(writes[i]);
    PrefetchBucket(hashes[i]);
  }
  // A second pass, because PrefetchRecords reads the buckets.
  for (const std::uint64_t hash : std::span(hashes).first(count)) core_.index.PrefetchRecords(hash);
  return count;
}

}  // namespace remora
