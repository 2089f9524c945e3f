// Allocator of a buffer that several messages in flight share: of requests, or of replies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace remora {

/// A ring of pieces. A new piece begins behind the one taken last. A released piece is free again once all
/// pieces taken earlier are released. Messages end about in the order in which they were sent, so this wastes
/// little.
///
/// Thread safety: none.
class PieceRing {
 public:
  explicit PieceRing(std::size_t capacity) : capacity_(capacity / kAlignment * kAlignment) {}

  static constexpr std::size_t kAlignment = 64;

  struct Piece {
    std::size_t offset = 0;
    std::uint32_t number = 0;  // for Release
  };
  /// Takes a piece of `size` bytes, which begins a cache line. Nullopt: no piece of that size is free now.
  std::optional<Piece> Take(std::size_t size) {
    const std::optional<std::size_t> offset = Place(Rounded(size));
    if (!offset) return std::nullopt;
    const std::uint32_t number = next_++;
    pieces_[number % kMaxPieces] = {*offset, false};
    end_ = *offset + Rounded(size);
    return Piece{*offset, number};
  }
  /// Returns whether Take would take a piece of this size.
  bool Has(std::size_t size) const { return Place(Rounded(size)).has_value(); }
  bool empty() const { return oldest_ == next_; }
  /// Releases all pieces.
  void Clear() {
    oldest_ = next_;
    end_ = 0;
  }
  void Release(std::uint32_t number) {
    pieces_[number % kMaxPieces].released = true;
    while (oldest_ != next_ && pieces_[oldest_ % kMaxPieces].released) ++oldest_;
  }

 private:
  static constexpr std::uint32_t kMaxPieces = 64;  // a power of two, because numbers wrap around
  struct Taken {
    std::size_t offset = 0;
    bool released = false;
  };

  static std::size_t Rounded(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }
  std::optional<std::size_t> Place(std::size_t size) const {
    if (next_ - oldest_ == kMaxPieces) return std::nullopt;
    if (oldest_ == next_) return size <= capacity_ ? std::optional<std::size_t>(0) : std::nullopt;
    const std::size_t begin = pieces_[oldest_ % kMaxPieces].offset;
    if (end_ <= begin) return size <= begin - end_ ? std::optional(end_) : std::nullopt;
    if (size <= capacity_ - end_) return end_;
    return size <= begin ? std::optional<std::size_t>(0) : std::nullopt;
  }

  const std::size_t capacity_;
  std::size_t end_ = 0;  // of the piece taken last
  // Numbers of pieces, which increase.
  std::uint32_t oldest_ = 0;
  std::uint32_t next_ = 0;
  std::array<Taken, kMaxPieces> pieces_;
};

}  // namespace remora
