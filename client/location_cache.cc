#include "client/location_cache.h"

#include <utility>

#include "store/format/layout.h"
#include "store/format/lookup.h"

namespace remora {

LocationCache::LocationCache(std::size_t bytes) : set_count_(bytes / sizeof(Set)), sets_(set_count_) {}

KnownLocation LocationCache::Find(std::uint64_t key_hash) {
  if (set_count_ == 0) return {};
  Set& set = SetOf(key_hash);
  const std::size_t way = WayOf(set, key_hash);
  if (way == kWays) return {};
  const KnownLocation found{set.ways[way].slot, set.ways[way].number};
  if (way > 0) std::swap(set.ways[way - 1], set.ways[way]);
  return found;
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

LocationCache::Set& LocationCache::SetOf(std::uint64_t key_hash) {
  // The upper half, as a fraction of 2^32: any number of sets will do. The tag is the lower half.
  return sets_[(key_hash >> 32) * set_count_ >> 32];
}

std::size_t LocationCache::WayOf(const Set& set, std::uint64_t key_hash) {
  const auto tag = static_cast<std::uint32_t>(key_hash);
  const std::uint64_t fingerprint = Fingerprint(key_hash);
  for (std::size_t way = 0; way < kWays; ++way) {
    const Entry& entry = set.ways[way];
    if (entry.tag == tag && entry.slot >> 52 == fingerprint) return way;
  }
  return kWays;
}

}  // namespace remora
