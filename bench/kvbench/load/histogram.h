// A histogram of durations for tail latencies: constant time and no allocation per sample.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora::bench {

/// Log-linear: each power of two is divided into 128 equal cells, as HdrHistogram with two significant digits
/// does (of which Debian 12 packages no C or C++ library). Values below 256 are kept exactly. A larger one is
/// known within 1/128 of itself: finer than any two runs on one machine agree. All cells take 58 KiB, of
/// which the samples of one run touch a few cache lines.
///
/// Thread safety: none. One histogram per thread, merged afterwards.
class Histogram {
 public:
  /// `count` times.
  void Add(std::uint64_t value, std::uint64_t count = 1) {
    cells_[Cell(value)] += count;
    count_ += count;
    sum_ += count * value;
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
  }

  void Merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t max() const { return max_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  /// 0 when empty.
  double mean() const;

  /// The smallest value that at least `fraction` (0 to 1) of the samples do not exceed: never below the true
  /// one, and above it by at most 1/128 of it. Never above max(). 0 when empty.
  std::uint64_t Quantile(double fraction) const;

  /// Contents of a histogram, in few bytes if few cells are used: to be kept, or sent to another process.
  struct Sparse {
    struct Cell {
      std::uint32_t number = 0;
      std::uint64_t count = 0;
    };
    std::uint64_t sum = 0;
    std::uint64_t min = 0;
    std::uint64_t max = 0;
    std::vector<Cell> cells;  // those that hold something, in order
  };
  Sparse ToSparse() const;
  /// Merges the histogram that it was made from. False, and nothing is done: there is none such.
  bool Merge(const Sparse& other);

  /// The largest value of a cell, as of Sparse. REQUIRES: it is one of a histogram's.
  static std::uint64_t CellTop(std::size_t cell);

 private:
  static constexpr int kCellBits = 7;  // 128 cells per power of two
  static constexpr std::uint64_t kExact = std::uint64_t{2} << kCellBits;
  static constexpr std::size_t kCells = (64 - kCellBits + 1) << kCellBits;

  /// Drops all but the top kCellBits + 1 bits, and numbers what is left: e.g. 256 and 257 share cell 256,
  /// 258 and 259 have the next.
  static constexpr std::size_t Cell(std::uint64_t value) {
    if (value < kExact) return value;
    const int shift = static_cast<int>(std::bit_width(value)) - (kCellBits + 1);
    return (static_cast<std::size_t>(shift) << kCellBits) + static_cast<std::size_t>(value >> shift);
  }
  // Not inside the object: results of phases lie on stacks, which may be small (ulimit -s).
  std::vector<std::uint64_t> cells_ = std::vector<std::uint64_t>(kCells);
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
};

}  // namespace remora::bench
