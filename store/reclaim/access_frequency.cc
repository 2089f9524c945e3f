#include "store/reclaim/access_frequency.h"

#include <algorithm>

#include "store/region/atomic_word.h"

namespace remora {
namespace {

constexpr std::size_t kMemoryPerBlock = std::size_t{8} << 10;

constexpr std::uint64_t kUsesPerKey = 10;

constexpr std::uint64_t kCountMask = 15;

}  // namespace

AccessFrequency::AccessFrequency(std::size_t memory_size) : blocks_(memory_size / kMemoryPerBlock) {}

std::size_t AccessFrequency::BlockOf(std::uint64_t key_hash) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>(Wide{key_hash} * blocks_.size() >> 64);
}

std::array<AccessFrequency::Place, AccessFrequency::kCounters> AccessFrequency::PlacesOf(
    std::uint64_t key_hash) {
  std::array<Place, kCounters> places;
  for (std::size_t i = 0; i < kCounters; ++i) {
    const std::uint64_t bits = key_hash >> (7 * i) & 127;
    // Each counter has two words of its own, so no two of a key's counters coincide.
    places[i] = {2 * i + (bits >> 6), static_cast<unsigned>(bits % 16) * 4};
  }
  return places;
}

// All accesses are relaxed: nothing else depends on the counts.

std::uint32_t AccessFrequency::Count(const Block& block, const std::array<Place, kCounters>& places) {
  std::uint64_t least = kMaxCount;
  for (const Place& place : places) {
    const std::uint64_t word = LoadWord(block.words[place.word], std::memory_order_relaxed);
    least = std::min(least, word >> place.shift & kCountMask);
  }
  return static_cast<std::uint32_t>(least);
}

std::uint32_t AccessFrequency::Of(std::uint64_t key_hash) const {
  return blocks_.empty() ? 0 : Count(blocks_[BlockOf(key_hash)], PlacesOf(key_hash));
}

void AccessFrequency::Note(std::uint64_t key_hash) {
  if (blocks_.empty()) return;
  Block& block = blocks_[BlockOf(key_hash)];
  const std::array<Place, kCounters> places = PlacesOf(key_hash);
  const std::uint32_t count = Count(block, places);
  if (count == kMaxCount) return;
  // Only the counters at the minimum grow: uses of other keys raised the others.
  for (const Place& place : places) {
    const std::uint64_t word = LoadWord(block.words[place.word], std::memory_order_relaxed);
    if ((word >> place.shift & kCountMask) != count) continue;
    StoreWord(block.words[place.word], word + (std::uint64_t{1} << place.shift), std::memory_order_relaxed);
  }
  const std::uint64_t notes = notes_.load(std::memory_order_relaxed) + 1;
  const bool forget = notes >= forget_at_.load(std::memory_order_relaxed);
  notes_.store(forget ? 0 : notes, std::memory_order_relaxed);
  if (forget) Forget();
}

void AccessFrequency::set_keys(std::uint64_t keys) {
  if (blocks_.empty()) return;
  const std::uint64_t at = std::max<std::uint64_t>(kUsesPerKey * keys / blocks_.size(), 1);
  forget_at_.store(at, std::memory_order_relaxed);
}

void AccessFrequency::Forget() {
  const std::uint64_t next = next_forgotten_.load(std::memory_order_relaxed);
  next_forgotten_.store((next + 1) % blocks_.size(), std::memory_order_relaxed);
  for (std::uint64_t& word : blocks_[next % blocks_.size()].words) {
    const std::uint64_t old = LoadWord(word, std::memory_order_relaxed);
    StoreWord(word, old >> 1 & 0x7777777777777777, std::memory_order_relaxed);
  }
}

}  // namespace remora
