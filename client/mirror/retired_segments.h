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
/// when its READ was posted (M2 of client/mirror/mirror_frames.h). Of two READs that overlap, either will do:
/// each has its own stamp. The owners do the READs.
///
/// Thread safety: none.
class RetiredSegments {
 public:
  using Stamp = SegmentGenerations::Number;
  static constexpr std::size_t kChunkSize = SegmentGenerations::kChunkSize;

  RetiredSegments() = default;
  explicit RetiredSegments(std::uint64_t memory_size)
      : memory_size_(memory_size), bytes_(SegmentCount(memory_size)), stamps_(ChunkCount(memory_size), 0) {}

  std::uint64_t memory_size() const { return memory_size_; }
  static std::size_t ChunkCount(std::uint64_t memory_size) {
    return (SegmentCount(memory_size) + kChunkSize - 1) / kChunkSize;
  }
  /// The bytes to READ for a chunk.
  static std::uint64_t OffsetOf(std::uint64_t memory_size, std::size_t chunk) {
    return RetiredOffset(memory_size) + chunk * kChunkSize;
  }
  static std::size_t SizeOf(std::uint64_t memory_size, std::size_t chunk) {
    return std::min<std::size_t>(kChunkSize, SegmentCount(memory_size) - chunk * kChunkSize);
  }
  /// REQUIRES: `bytes` has SizeOf of the chunk.
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
