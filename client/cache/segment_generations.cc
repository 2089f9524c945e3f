#include "client/cache/segment_generations.h"

#include <algorithm>

#include "store/base/check.h"

namespace remora {

SegmentGenerations::SegmentGenerations(std::uint64_t memory_size, Duration grace)
    : memory_size_(memory_size),
      fresh_for_(std::max<Duration>(grace - Clock::kCoarseness, grace / 2)),
      comparable_for_(256 * grace),
      chunks_((SegmentCount(memory_size) + kChunkSize - 1) / kChunkSize) {}

SegmentGenerations::Range SegmentGenerations::RangeOf(std::uint64_t segment) const {
  const std::uint64_t first = segment / kChunkSize * kChunkSize;
  return {GenerationsOffset(memory_size_) + first,
          std::min<std::uint64_t>(kChunkSize, SegmentCount(memory_size_) - first)};
}

void SegmentGenerations::Take(std::uint64_t segment, std::span<const std::byte> bytes, TimePoint posted,
                              TimePoint completed) {
  REMORA_CHECK(bytes.size() == RangeOf(segment).size);
  Chunk& chunk = chunks_[segment / kChunkSize];
  if (chunk.bytes.empty()) {
    chunk.bytes.resize(bytes.size());
    chunk.numbers.resize(bytes.size());
  }
  const bool comparable = completed <= chunk.comparable_until;
  ++count_;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (comparable && bytes[i] == chunk.bytes[i]) continue;
    chunk.numbers[i] = last_change_ = count_;
    chunk.bytes[i] = bytes[i];
  }
  chunk.fresh_until = posted + fresh_for_;
  chunk.due = posted + comparable_for_ / 2;
  chunk.comparable_until = posted + comparable_for_;
}

}  // namespace remora
