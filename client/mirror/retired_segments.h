// The bytes by which the server shows the retired segments (layout.h), as a client has READ them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/cache/segment_generations.h"
#include "store/format/memory/layout.h"

namespace remora {

/// A copy of the bytes, READ in chunks. Each chunk has a stamp: the count of the last refresh that had ended
/// when its READ was posted (M2 of client/mirror/mirror_frames.h). The owner does the READs.
///
/// Thread safety: none.
class RetiredSegments {
 public:
  using Stamp = SegmentGenerations::Number;
  static constexpr std::size_t kChunkSize = SegmentGenerations::kChunkSize;

  RetiredSegments() = default;
  explicit RetiredSegments(std::uint64_t memory_size)
      : memory_size_(memory_size),
        bytes_(SegmentCount(memory_size)),
        stamps_((bytes_.size() + kChunkSize - 1) / kChunkSize, 0) {}

  std::uint64_t memory_size() const { return memory_size_; }
  std::size_t chunk_count() const { return stamps_.size(); }
  /// The bytes to READ for a chunk.
  std::uint64_t OffsetOf(std::size_t chunk) const { return RetiredOffset(memory_size_) + chunk * kChunkSize; }
  std::size_t SizeOf(std::size_t chunk) const {
    return std::min(kChunkSize, bytes_.size() - chunk * kChunkSize);
  }
  /// REQUIRES: `bytes` has SizeOf(chunk).
  void Take(std::size_t chunk, std::span<const std::byte> bytes, Stamp stamp) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(chunk * kChunkSize));
    stamps_[chunk] = stamp;
  }

  // REQUIRES: the segment exists.
  bool IsRetired(std::uint64_t segment) const { return bytes_[segment] != std::byte{0}; }
  /// Returns the stamp of the segment's chunk; 0: the chunk was not READ, and no segment is unchanged since
  /// then.
  Stamp StampOf(std::uint64_t segment) const { return stamps_[segment / kChunkSize]; }

 private:
  std::uint64_t memory_size_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<Stamp> stamps_;
};

}  // namespace remora
