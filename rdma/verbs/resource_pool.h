// Queue pairs and registered memory for future connections, made in advance. Either takes the
// device and the kernel a while (1 ms with soft-RoCE in an emulated machine). All other clients
// would have to wait for that.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory_window.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// An ibv_qp of no connection yet, in the state INIT: receives may be posted to it.
struct QueuePair {
  ibv_qp* qp = nullptr;
  std::uint32_t inline_size = 0;  // messages up to this size travel inside the request
};

/// Registered memory, with the bytes.
struct OwnedMemory {
  std::vector<std::byte> bytes;
  std::unique_ptr<Registration> registration;  // goes before the bytes
  MemoryWindow* window = nullptr;              // the registration, where it is one that is to be bound
};

/// Prepares resources like those of earlier calls, so the first of each kind are not prepared. A
/// caller that finds none waits until its own are made.
///
/// Thread safety: all functions may be called from many threads.
class ResourcePool {
 public:
  /// Number of each kind. One thread makes them, so more would only be there sooner for a crowd's
  /// first few.
  static constexpr std::size_t kAhead = 2;

  /// `id` belongs to a device; it and the completions outlive this object.
  ResourcePool(rdma_cm_id* id, const QueueLimits& limits, CompletionQueue& completions)
      : id_(id), limits_(limits), completions_(completions) {}
  ~ResourcePool();
  ResourcePool(const ResourcePool&) = delete;
  ResourcePool& operator=(const ResourcePool&) = delete;

  /// Errors as Connection::RegisterMessages. Queue pairs are the caller's to destroy.
  absl::StatusOr<QueuePair> TakeQueuePair();
  absl::StatusOr<OwnedMemory> TakeMemory(VerbsRegistration::Use use, std::size_t size);

  /// Returns whether something is missing that was requested before. The call of MakeOne after which nothing
  /// is missing any more returns kLast.
  bool IsLow();
  /// Makes one of what there is least of. kNothing: there is enough of all, or no more is to be had.
  enum class Made { kNothing, kOne, kLast };
  Made MakeOne();

 private:
  template <typename T>
  struct PoolSlot {
    VerbsRegistration::Use use{};  // of memory, as its size
    std::size_t size = 0;
    bool wanted = false;  // somebody took one, and none was denied since
    std::vector<T> ready{};
  };
  using Queues = PoolSlot<QueuePair>;
  using Memories = PoolSlot<OwnedMemory>;

  absl::StatusOr<QueuePair> MakeQueuePair() const;
  absl::StatusOr<OwnedMemory> MakeMemory(VerbsRegistration::Use use, std::size_t size) const;
  Memories& SlotFor(VerbsRegistration::Use use, std::size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsAnyEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Makes one more for the slot, without the mutex meanwhile.
  template <typename Slot, typename Make>
  Made AddTo(Slot& slot, MutexLock& lock, Make make) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  rdma_cm_id* const id_;
  const QueueLimits limits_;
  CompletionQueue& completions_;

  Mutex mutex_;
  Queues queues_ ABSL_GUARDED_BY(mutex_);
  std::deque<Memories> memories_ ABSL_GUARDED_BY(mutex_);  // stay where they are
  bool awaited_ ABSL_GUARDED_BY(mutex_) = false;           // IsLow was true
};

}  // namespace remora::rdma
