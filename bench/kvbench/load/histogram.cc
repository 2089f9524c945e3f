#include "bench/kvbench/load/histogram.h"

#include <algorithm>
#include <cmath>

namespace remora::bench {

void Histogram::Merge(const Histogram& other) {
  for (std::size_t cell = 0; cell < kCells; ++cell) cells_[cell] += other.cells_[cell];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
  min_ = std::min(min_, other.min_);
}

Histogram::Sparse Histogram::ToSparse() const {
  Sparse sparse{sum_, min(), max_, {}};
  for (std::uint32_t cell = 0; cell < kCells; ++cell) {
    if (cells_[cell] != 0) sparse.cells.push_back({cell, cells_[cell]});
  }
  return sparse;
}

bool Histogram::Merge(const Sparse& other) {
  if (other.cells.empty()) return other.sum == 0 && other.min == 0 && other.max == 0;
  // In order and with something in each; the first holds the least, the last the largest.
  std::uint32_t next = 0;
  for (const Sparse::Cell& cell : other.cells) {
    if (cell.number < next || cell.number >= kCells || cell.count == 0) return false;
    next = cell.number + 1;
  }
  if (Cell(other.min) != other.cells.front().number || Cell(other.max) != other.cells.back().number) {
    return false;
  }
  for (const Sparse::Cell& cell : other.cells) {
    cells_[cell.number] += cell.count;
    count_ += cell.count;
  }
  sum_ += other.sum;
  max_ = std::max(max_, other.max);
  min_ = std::min(min_, other.min);
  return true;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t Histogram::Quantile(double fraction) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t cell = 0; cell < kCells; ++cell) {
    seen += cells_[cell];
    if (seen > 0 && seen >= wanted) return std::min(CellTop(cell), max_);
  }
  return 0;
}

std::uint64_t Histogram::CellTop(std::size_t cell) {
  if (cell < kExact) return cell;
  const std::size_t shift = (cell >> kCellBits) - 1;
  const std::uint64_t mantissa = cell - (shift << kCellBits);
  return (mantissa << shift) + ((std::uint64_t{1} << shift) - 1);
}

}  // namespace remora::bench
