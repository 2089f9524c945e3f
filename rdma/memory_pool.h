// Creates shared memory for future connections in advance, and frees that of ended ones. Either
// takes some tens of microseconds of system calls, for which all other clients would have to wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shared_memory.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// Does both in a thread of its own, which sleeps when there is nothing to do. It prepares memory
/// like that of earlier calls of Create, so the first memory of each kind is not prepared. Prepared
/// memory is untouched: it takes descriptors and addresses, but no pages.
///
/// Thread safety: all functions may be called from many threads; one thread calls Start before the
/// others.
class SharedMemoryPool {
 public:
  /// Number of each kind that is made in advance. A client that finds none waits until its own are
  /// made.
  static constexpr std::size_t kAhead = 4;

  SharedMemoryPool() = default;
  /// REQUIRES: all that it has given is destroyed.
  ~SharedMemoryPool();
  SharedMemoryPool(const SharedMemoryPool&) = delete;
  SharedMemoryPool& operator=(const SharedMemoryPool&) = delete;

  /// REQUIRED before Create. ResourceExhausted: there is no thread.
  absl::Status Start();

  /// Creates memory like SharedMemory::Create. The memory returns to the pool when it is destroyed.
  /// After its destructor, nothing in this process uses it any more, but its descriptor and its
  /// addresses are free some time later.
  absl::StatusOr<std::unique_ptr<SharedMemory>> Create(std::string_view name, std::size_t size,
                                                       SharedMemory::Writers writers);

 private:
  friend class SharedMemory;

  struct PoolSlot {
    std::string name;
    std::size_t size;
    SharedMemory::Writers writers;
    bool wants_more = true;  // not where the system had none to give, until somebody takes one again
    std::vector<std::unique_ptr<SharedMemory>> ready{};
  };
  struct Ended {
    int fd;
    std::span<std::byte> bytes;
  };

  /// Queues the rest of a SharedMemory for the thread to free.
  void Deregister(Ended ended);
  PoolSlot& SlotFor(std::string_view name, std::size_t size, SharedMemory::Writers writers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<PoolSlot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace remora::rdma
