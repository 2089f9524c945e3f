#include "client/cache/location_cache.h"

#include <new>

namespace remora {

LocationCache::LocationCache(std::size_t bytes) : set_count_(bytes / sizeof(Set)) {
  if (set_count_ == 0) return;
  // The size comes from the caller of Connect, who is to be told.
  sets_.reset(new (std::nothrow) Set[set_count_]());
  if (sets_ != nullptr) return;
  lacks_memory_ = true;
  set_count_ = 0;
}

void LocationCache::Remember(std::uint64_t key_hash, const KnownLocation& location) {
  if (set_count_ == 0) return;
  Set& set = SetOf(key_hash);
  std::size_t way = WayOf(set, key_hash);
  for (std::size_t i = 0; way == kWays && i < kWays; ++i) {
    if (set.ways[i].slot == 0) way = i;
  }
  if (way == kWays) way = kWays - 1;
  set.ways[way] = {location.slot, static_cast<std::uint32_t>(key_hash), location.number};
}

void LocationCache::Forget(std::uint64_t key_hash) {
  if (set_count_ == 0) return;
  Set& set = SetOf(key_hash);
  const std::size_t way = WayOf(set, key_hash);
  if (way < kWays) set.ways[way] = {};
}

}  // namespace remora
