// What a group of writes is going to look at lies anywhere in memory: each key's bucket, its record, its
// counts. Asked for side by side, before they are needed, they come in the time of one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "store/format/record.h"
#include "store/store_impl.h"

namespace remora {

std::size_t Store::Impl::Foresee(std::span<const Write> writes) const {
  constexpr std::size_t kMost = 16;  // a processor has no more accesses under way
  std::array<std::uint64_t, kMost> hashes;
  const std::size_t count = std::min(writes.size(), kMost);
  for (std::size_t i = 0; i < count; ++i) {
    // Of bytes that may change yet: it is a guess.
    const Write& write = writes[i];
    hashes[i] = HashKey(write.reserved != nullptr ? log_.Key(PlaceOf(*write.reserved)) : write.key);
    index_.PrefetchBucket(hashes[i]);
    frequency_.Prefetch(hashes[i]);
  }
  // That needs the buckets. One write alone comes to it about as soon.
  for (std::size_t i = 0; i < count && count > 1; ++i) index_.PrefetchRecords(hashes[i]);
  return count;
}

}  // namespace remora
