// Estimates how often each key was used lately, in little memory: a count-min sketch that forgets (TinyLFU;
// Einziger, Friedman and Manes, 2017). It is right about keys that are used often. It may take a rarely used
// key for a frequently used one, never the other way round.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora {

/// Estimates of the recent uses of keys.
///
/// Thread safety: any threads. Two threads that count at once may count once.
class AccessFrequency {
 public:
  /// The highest count.
  static constexpr std::uint32_t kMaxCount = 15;

  /// Makes an estimator for a region of `memory_size` bytes. Takes 1/128 of that much memory, outside the
  /// region. 0: it counts nothing.
  explicit AccessFrequency(std::size_t memory_size);
  AccessFrequency(const AccessFrequency&) = delete;
  AccessFrequency& operator=(const AccessFrequency&) = delete;

  /// Sets the number of keys in memory. The estimator halves all counts, block by block, in the time in which
  /// each key is used ten times on average.
  void set_keys(std::uint64_t keys);

  /// Counts a use of the key with this hash.
  void Note(std::uint64_t key_hash);

  /// Prefetches the counters of a key for a Note that follows soon.
  void Prefetch(std::uint64_t key_hash) const {
    if (!blocks_.empty()) __builtin_prefetch(&blocks_[BlockOf(key_hash)], /*rw=*/1);
  }

  /// Returns how often the key was used lately, up to kMaxCount.
  std::uint32_t Of(std::uint64_t key_hash) const;

 private:
  // A key's four counters are in one cache line. A word holds 16 counters of 4 bits.
  static constexpr std::size_t kWords = 8;
  static constexpr std::size_t kCounters = 4;
  struct alignas(64) Block {
    std::array<std::uint64_t, kWords> words{};
  };
  struct Place {
    std::size_t word;
    unsigned shift;
  };

  std::size_t BlockOf(std::uint64_t key_hash) const;
  static std::array<Place, kCounters> PlacesOf(std::uint64_t key_hash);
  static std::uint32_t Count(const Block& block, const std::array<Place, kCounters>& places);
  /// Halves the counters of the next block.
  void Forget();

  std::vector<Block> blocks_;
  std::atomic<std::uint64_t> notes_ = 0;      // counted uses since the last block was halved
  std::atomic<std::uint64_t> forget_at_ = 1;  // number of such uses at which the next block is halved
  std::atomic<std::uint64_t> next_forgotten_ = 0;
};

}  // namespace remora
