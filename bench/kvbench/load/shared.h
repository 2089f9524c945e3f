// State that the threads of a bench share while they run, in however many processes they are.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace remora::bench {

/// The records that there are, while threads insert more: numbers are handed out in order, and a number
/// counts when its record, and all before it, have been acknowledged. So a thread that asks for the newest
/// record asks for one that is there.
///
/// Thread safety: any. Lock-free, so that it may lie in memory that processes share, and one may die.
class InsertedRecords {
 public:
  explicit InsertedRecords(std::uint64_t records) : next_(records), end_(records) {}

  /// The number of the next record.
  std::uint64_t Take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  /// The record is there. False: not counted, because an older one is missing since kWindow others; try
  /// again later.
  bool Acknowledge(std::uint64_t record) {
    if (record - end_.load() >= kWindow) return false;
    // A cell is used again only kWindow records later, and no sooner than this one has been counted. All is
    // sequentially consistent: of two threads that acknowledge neighbours, one must see the other's cell.
    acknowledged_[record % kWindow].store(record);
    for (std::uint64_t end = end_.load(); acknowledged_[end % kWindow].load() == end;) {
      if (end_.compare_exchange_strong(end, end + 1)) ++end;
    }
    return true;
  }

  /// All records below are there.
  std::uint64_t end() const { return end_.load(std::memory_order_acquire); }

  static constexpr std::uint64_t kWindow = 1 << 16;

 private:
  alignas(64) std::atomic<std::uint64_t> next_;
  alignas(64) std::atomic<std::uint64_t> end_;
  // The record that was last acknowledged of those that share a cell. A cell of zeros says so of record 0
  // alone, and there are records from the beginning.
  std::array<std::atomic<std::uint64_t>, kWindow> acknowledged_{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// In memory that processes forked later share. Thread safety: any.
class Shared {
 public:
  /// How far a thread is; on a cache line of its own.
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> done = 0;
  };

  /// For so many threads, and a store that will hold so many records (at least one) before any run.
  /// ResourceExhausted: the system has no memory.
  static absl::StatusOr<std::unique_ptr<Shared>> Make(std::size_t workers, std::uint64_t records);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Set when going on is pointless.
  std::atomic<bool>& stop() { return head_->stop; }
  InsertedRecords& inserted() { return head_->inserted; }
  std::span<Progress> progress() { return progress_; }
  /// By all threads, in this phase.
  std::uint64_t done() const {
    std::uint64_t sum = 0;
    for (const Progress& worker : progress_) sum += worker.done.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct Head {
    explicit Head(std::uint64_t records) : inserted(records) {}
    std::atomic<bool> stop = false;
    InsertedRecords inserted;
  };
  static_assert(std::atomic<bool>::is_always_lock_free);

  Shared(Head* head, std::span<Progress> progress, std::size_t size)
      : head_(head), progress_(progress), size_(size) {}

  Head* const head_;  // the mapping begins here
  const std::span<Progress> progress_;
  const std::size_t size_;
};

}  // namespace remora::bench
