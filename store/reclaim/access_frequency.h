// About how often each key was used lately, in little memory: a count-min sketch that forgets (TinyLFU;
// Einziger, Friedman and Manes, 2017). It is right about keys that are used often, and may take a rare one
// for a frequent one, never the other way round.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora {

/// Thread Safety: any threads. Two that count at once may count once.
class AccessFrequency {
 public:
  /// Counts up to here.
  static constexpr std::uint32_t kMost = 15;

  /// For the records of a memory of this size: takes 1/128 of it. 0: counts nothing.
  explicit AccessFrequency(std::size_t memory_size);
  AccessFrequency(const AccessFrequency&) = delete;
  AccessFrequency& operator=(const AccessFrequency&) = delete;

  /// There are so many keys to tell apart: counts are halved whenever each was used ten times, on average.
  void set_keys(std::uint64_t keys);

  /// The key with this hash was used.
  void Note(std::uint64_t key_hash);

  /// It will be: brings its counts closer to this processor.
  void Prefetch(std::uint64_t key_hash) const {
    if (!blocks_.empty()) __builtin_prefetch(&blocks_[BlockOf(key_hash)], /*rw=*/1);
  }

  /// How often it was, lately.
  std::uint32_t Of(std::uint64_t key_hash) const;

 private:
  // A key's four counters are in one cache line. A word is 16 of 4 bits.
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
  /// Halves the counters of one block: the next.
  void Forget();

  std::vector<Block> blocks_;
  std::atomic<std::uint64_t> notes_ = 0;      // since a block was halved
  std::atomic<std::uint64_t> forget_at_ = 1;  // so many
  std::atomic<std::uint64_t> next_forgotten_ = 0;
};

}  // namespace remora
