#include "client/cache/segment_generations.h"

#include <algorithm>

#include "store/base/check.h"

namespace remora {

SegmentGenerations::SegmentGenerations(std::uint64_t memory_size, Duration grace)
    : memory_size_(memory_size),
      fresh_for_(std::max<Duration>(grace - Clock::kCoarseness, grace / 2)),
      comparable_for_(256 * grace),
      chunks_((SegmentCount(memory_size) + kChunkSize - 1) / kChunkSize),
      shown_(chunks_.size()) {}

SegmentGenerations::Range SegmentGenerations::RangeOf(std::uint64_t segment) const {
  const std::uint64_t first = segment / kChunkSize * kChunkSize;
  return {GenerationsOffset(memory_size_) + first,
          std::min<std::uint64_t>(kChunkSize, SegmentCount(memory_size_) - first)};
}

bool SegmentGenerations::Claim(std::uint64_t segment, TimePoint now, Duration time) {
  std::atomic<TimePoint>& claimed = ChunkOf(segment).claimed_until;
  TimePoint until = claimed.load(std::memory_order_relaxed);
  return now >= until && claimed.compare_exchange_strong(until, now + time, std::memory_order_relaxed);
}

void SegmentGenerations::Take(std::uint64_t segment, std::span<const std::byte> bytes, TimePoint posted,
                              TimePoint completed) {
  REMORA_CHECK(bytes.size() == RangeOf(segment).size);
  const MutexLock lock(mutex_);
  Chunk& chunk = ChunkOf(segment);
  Shown& shown = shown_[segment / kChunkSize];
  if (shown.bytes.empty()) {
    shown.bytes.resize(bytes.size());
    shown.numbers = std::make_unique<std::atomic<Number>[]>(bytes.size());
    chunk.numbers.store(shown.numbers.get(), std::memory_order_release);
  }
  const bool comparable = completed <= shown.comparable_until;
  const Number count = count_.load(std::memory_order_relaxed) + 1;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (comparable && bytes[i] == shown.bytes[i]) continue;
    shown.numbers[i].store(count, std::memory_order_release);
    shown.bytes[i] = bytes[i];
    last_change_.store(count, std::memory_order_relaxed);
  }
  shown.comparable_until = posted + comparable_for_;
  chunk.due.store(posted + comparable_for_ / 2, std::memory_order_relaxed);
  // In this order: G6.
  count_.store(count, std::memory_order_release);
  chunk.fresh_until.store(posted + fresh_for_, std::memory_order_release);
}

}  // namespace remora
