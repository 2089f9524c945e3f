#include "store/ordered/leaf_blocks.h"

#include <atomic>
#include <optional>

#include "store/region/atomic_word.h"

namespace remora {
namespace {

// Leaves take so much of the region at most. The index of all keys needs the other segments more: without
// one, a write is rejected.
constexpr std::size_t kShareOfLeaves = 4;

}  // namespace

std::byte* LeafBlocks::Take() {
  if (free_.empty()) {
    if (segments_taken_ >= segments_.count() / kShareOfLeaves) return nullptr;
    const std::optional<SegmentNumber> segment = segments_.Take(Segments::Use::kIndex, kLeft);
    if (!segment) return nullptr;
    ++segments_taken_;
    std::byte* const begin = region_.data() + std::size_t{*segment} * kSegmentSize;
    // The segment has bytes of records, which may look like leaves.
    for (std::size_t i = kLeavesPerSegment; i > 0; --i) Give(begin + (i - 1) * kLeafBlockSize);
  }
  std::byte* const block = free_.back();
  free_.pop_back();
  return block;
}

void LeafBlocks::Give(std::byte* block) {
  MarkDead(block);  // B3
  free_.push_back(block);
}

void LeafBlocks::StoreChecksum(std::byte* block, std::uint64_t checksum) {
  // Release: a reader that sees the checksum may see a torn leaf, which does not verify. But a reader that
  // sees a later change of the hash index must see this store (B4).
  StoreWord(reinterpret_cast<LeafHeader*>(block)->checksum, checksum, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace remora
