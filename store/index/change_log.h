// Appends to the log of changes, which readers READ (store/format/memory/change_log.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "store/format/memory/change_log.h"
#include "store/region/atomic_word.h"

namespace remora {

/// The writer's side of the log. It begins empty, in memory that is all zeros.
///
/// Thread safety: one thread at a time. Ownership: the region outlives it.
class IndexChangeLog {
 public:
  explicit IndexChangeLog(std::span<std::byte> region) : region_(region) {}

  /// Appends that a slot of the bucket at `place` has this content. REQUIRES: the slot has been stored.
  void Append(std::uint64_t place, std::uint64_t word) {
    const std::uint64_t size = region_.size();
    auto& change = *reinterpret_cast<IndexChange*>(region_.data() + ChangeOffset(size, count_));
    const IndexChange made = EncodeChange(count_ & kNumbers, word, place);
    // Relaxed: the check shows that both words belong together (L1).
    StoreWord(change.word, made.word, std::memory_order_relaxed);
    StoreWord(change.place, made.place, std::memory_order_relaxed);
    ++count_;
    auto& count = *reinterpret_cast<std::uint64_t*>(region_.data() + ChangesOffset(size));
    // Release: a reader that sees the count sees the changes before it.
    StoreWord(count, EncodeChangeCount(count_), std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kNumbers = (std::uint64_t{1} << kChangeNumberBits) - 1;

  const std::span<std::byte> region_;
  std::uint64_t count_ = 0;  // changes so far
};

}  // namespace remora
