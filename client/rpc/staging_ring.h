// Who has which bytes of a connection's slice, when several requests are under way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace remora {

/// A ring: what is taken last is the first behind what was taken before, and what is released is free again
/// when all that was taken earlier is. Requests end about in the order in which they were sent, so little is
/// lost by that.
///
/// Thread Safety: none.
class StagingRing {
 public:
  explicit StagingRing(std::size_t capacity) : capacity_(capacity / kAlignment * kAlignment) {}

  static constexpr std::size_t kAlignment = 64;

  struct Piece {
    std::size_t offset = 0;
    std::uint32_t number = 0;  // for Release
  };
  /// Nothing: there is not as much in one piece right now. A piece begins a cache line.
  std::optional<Piece> Take(std::size_t size) {
    if (next_ - oldest_ == kMostPieces) return std::nullopt;
    const std::optional<std::size_t> offset = Place((size + kAlignment - 1) / kAlignment * kAlignment);
    if (!offset) return std::nullopt;
    const std::uint32_t number = next_++;
    pieces_[number % kMostPieces] = {*offset, false};
    end_ = *offset + (size + kAlignment - 1) / kAlignment * kAlignment;
    return Piece{*offset, number};
  }
  bool empty() const { return oldest_ == next_; }
  /// Releases all.
  void Clear() {
    oldest_ = next_;
    end_ = 0;
  }
  void Release(std::uint32_t number) {
    pieces_[number % kMostPieces].released = true;
    while (oldest_ != next_ && pieces_[oldest_ % kMostPieces].released) ++oldest_;
  }

 private:
  static constexpr std::uint32_t kMostPieces = 64;  // a power of two, for numbers wrap around
  struct Taken {
    std::size_t offset = 0;
    bool released = false;
  };

  std::optional<std::size_t> Place(std::size_t size) const {
    if (oldest_ == next_) return size <= capacity_ ? std::optional<std::size_t>(0) : std::nullopt;
    const std::size_t begin = pieces_[oldest_ % kMostPieces].offset;
    if (end_ <= begin) return size <= begin - end_ ? std::optional(end_) : std::nullopt;
    if (size <= capacity_ - end_) return end_;
    return size <= begin ? std::optional<std::size_t>(0) : std::nullopt;
  }

  const std::size_t capacity_;
  std::size_t end_ = 0;  // of what was taken last
  // Numbers of pieces, counted up.
  std::uint32_t oldest_ = 0;
  std::uint32_t next_ = 0;
  std::array<Taken, kMostPieces> pieces_;
};

}  // namespace remora
