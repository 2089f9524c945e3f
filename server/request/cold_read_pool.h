// Reads of the durable tier beside the server thread, which begins reads and takes those that are done. A
// simulation has a pool of its own, which ends reads in any order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "store/read/cold_read.h"

namespace remora {

/// Interface of a pool of threads that read the durable tier.
///
/// Thread safety: none; the server's one thread.
class ColdReadPool {
 public:
  /// Function that does a read (ServerStore::ReadCold), in any thread.
  using ReadFunction = std::function<void(ColdRead* read)>;
  /// Function that makes a pool. The pool calls `read` for each read, in any thread, and `on_done`, in any
  /// thread, when TakeDone has something to take. Both outlive the pool.
  using Factory = std::function<absl::StatusOr<std::unique_ptr<ColdReadPool>>(ReadFunction read,
                                                                              std::function<void()> on_done)>;

  virtual ~ColdReadPool() = default;

  /// Begins a read, which belongs to the pool until TakeDone.
  virtual void Begin(std::unique_ptr<ColdRead> read) = 0;
  /// Appends the reads that are done, in any order.
  virtual void TakeDone(std::vector<std::unique_ptr<ColdRead>>* done) = 0;
};

/// Makes a pool of threads, as a Factory does. At its end, the pool waits for reads that a thread does, and
/// drops the others.
/// ResourceExhausted: the system does not start a thread. REQUIRES: threads > 0.
absl::StatusOr<std::unique_ptr<ColdReadPool>> StartColdReadThreads(std::size_t threads,
                                                                   ColdReadPool::ReadFunction read,
                                                                   std::function<void()> on_done);

}  // namespace remora
