// Liveness of the server, seen without a system call: A1 of wire.h.
#pragma once

#include <linux/futex.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/local/wire.h"
#include "rdma/shared_memory.h"
#include "store/base/tsan.h"

namespace remora::rdma {

/// Orders the loads before it before all loads and stores after it.
inline void AcquireFence() {
#if defined(REMORA_TSAN) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // it knows no fences; this one orders the stores of another process
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#pragma GCC diagnostic pop
#else
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

// The kernel's word (futex(2), "Robust futexes") is the first of glibc's mutex.
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0 && sizeof(pthread_mutex_t::__data.__lock) == 4);

/// Returns, to a client, false for good once the listener's owner has released it or died. Relaxed:
/// callers that have copied bytes before put AcquireFence between.
inline bool IsAlive(const LocalListenerPage& page) {
  const auto word = static_cast<std::uint32_t>(__atomic_load_n(&page.alive.__data.__lock, __ATOMIC_RELAXED));
  return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

/// A listener page whose word says "alive" as long as this object and the thread that made it live.
///
/// Thread safety: made and destroyed by one thread; page() and memory() from any.
class ServerLiveness {
 public:
  /// Errors as SharedMemory::Create.
  static absl::StatusOr<std::unique_ptr<ServerLiveness>> Create();
  ~ServerLiveness();
  ServerLiveness(const ServerLiveness&) = delete;
  ServerLiveness& operator=(const ServerLiveness&) = delete;

  LocalListenerPage& page() const { return *reinterpret_cast<LocalListenerPage*>(memory_->bytes().data()); }
  const SharedMemory& memory() const { return *memory_; }

 private:
  explicit ServerLiveness(std::unique_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace remora::rdma
