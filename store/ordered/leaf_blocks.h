// Memory for the leaves of the ordered index, in segments of the region, where clients READ it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/format/memory/leaf_block.h"
#include "store/region/segments.h"

namespace remora {

/// Blocks for leaves. It takes segments as it needs them, and gives none back (B1 of leaf_block.h).
///
/// Thread safety: none; used under the writers' lock.
class LeafBlocks {
 public:
  /// Segments that stay free: the reserve, and one more, which the index may need for a key.
  static constexpr std::size_t kLeft = Segments::kReserve + 1;

  /// `region` and `segments` outlive it.
  LeafBlocks(std::span<std::byte> region, Segments& segments, std::uint64_t incarnation)
      : region_(region), segments_(segments), incarnation_(incarnation) {}
  LeafBlocks(const LeafBlocks&) = delete;
  LeafBlocks& operator=(const LeafBlocks&) = delete;

  /// Returns a block that is no leaf yet (B3). Null: no segment is free, or leaves have a quarter of them.
  std::byte* Take();
  /// Takes a block back: it is no leaf any more.
  void Give(std::byte* block);
  /// Stores the checksum of a block; 0: the block is no leaf. Orders it behind all stores before.
  static void StoreChecksum(std::byte* block, std::uint64_t checksum);
  static void MarkDead(std::byte* block) { StoreChecksum(block, 0); }

  std::uint64_t OffsetOf(const std::byte* block) const {
    return static_cast<std::uint64_t>(block - region_.data());
  }
  /// Returns a version that no image has had (B2).
  std::uint64_t NextVersion() { return ++version_; }
  std::uint64_t incarnation() const { return incarnation_; }
  /// Returns how many blocks are leaves.
  std::size_t used() const { return segments_taken_ * kLeavesPerSegment - free_.size(); }

 private:
  const std::span<std::byte> region_;
  Segments& segments_;
  const std::uint64_t incarnation_;
  std::vector<std::byte*> free_;
  std::size_t segments_taken_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace remora
