// Random numbers for benchmarks: the same on every machine, and cheap enough to stand in a measured loop.
#pragma once

#include <cstdint>

namespace remora::bench {

/// SplitMix64's output function: a bijection of 64-bit numbers in which every input bit reaches every output
/// bit.
constexpr std::uint64_t Mix64(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// The SplitMix64 generator (Steele, Lea and Flood, OOPSLA 2014). Every seed is as good as any other.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed) : state_(Mix64(seed)) {}

  constexpr std::uint64_t Next() { return Mix64(state_ += 0x9e3779b97f4a7c15); }

  /// Uniform in [0, 1): 53 bits, all that a double can tell apart there.
  constexpr double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  /// Uniform in [0, bound). By multiplication: its bias, bound / 2^64, is too small to be seen.
  constexpr std::uint64_t NextBelow(std::uint64_t bound) { return ScaleBelow(Next(), bound); }

  /// Maps a uniform 64-bit number to [0, bound).
  static constexpr std::uint64_t ScaleBelow(std::uint64_t uniform, std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{uniform} * bound >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace remora::bench
