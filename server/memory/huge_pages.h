// Huge pages for the memory that clients map. Most READs are of a random place. With pages of 4
// KiB, finding the page takes about as long as the READ itself; with pages of 2 MiB it is next to
// nothing.
//
// The system gives shared memory such pages if it was told to (shmem_enabled). Otherwise a process
// may still ask for each page by itself, from Linux 6.1 on (MADV_COLLAPSE); the system copies the
// existing bytes into it. That takes about a millisecond, for which a user of just that memory
// waits. So a thread does it, some way behind the store, and pauses in between.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "store/base/mutex.h"
#include "store/server_store.h"

namespace remora {

/// Provides huge pages for a region, from a thread of its own.
///
/// Thread safety: Reached may be called from any thread; the rest by one.
class HugePages {
 public:
  /// Provides pages for `region`, which begins at a multiple of rdma::kHugePage, as SharedMemory
  /// does.
  explicit HugePages(std::span<std::byte> region) : region_(region) {}
  ~HugePages() { Stop(); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  /// The store uses the region up to here, as StoreOptions::on_first_use.
  void Reached(std::uint64_t end);
  /// Begins to provide what was reached, and to count it there (Metric::kLargePageBytes). The store outlives
  /// this, or Stop. ResourceExhausted: there is no thread.
  absl::Status Start(ServerStore* store);
  /// Provides huge pages for all of the region, as far as the system has any, before it returns. Call it
  /// before a device locks the region. REQUIRES: Start.
  void ProvideAll();
  /// Stops: memory that is reached from now on gets no huge pages. Waits for the page that is being
  /// provided.
  void Stop();

 private:
  void Run();

  const std::span<std::byte> region_;
  ServerStore* store_ = nullptr;
  std::thread thread_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t reached_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_urgent_ ABSL_GUARDED_BY(mutex_) = false;  // ProvideAll waits: no pauses
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) =
      false;  // all of the region is done, or there are no huge pages any more
};

}  // namespace remora
