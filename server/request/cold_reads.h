// Reads of the durable tier that the server thread has begun, for GETs (LocateService) and for writes
// (ParkedWrites): the pool does them, and each part takes its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "rdma/adaptive_poll.h"
#include "server/request/cold_read_pool.h"
#include "store/read/cold_read.h"
#include "store/server_store.h"

namespace remora {

/// Pause between two tries to bring records to memory that had no space there.
inline constexpr std::chrono::milliseconds kSpacePause{5};
/// Bound of the bytes of values that were read and are not used yet; GETs and writes have one such bound
/// each. Beyond it, a record is read anew.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{16} << 20;

/// Decides whether the server thread tries a read itself, before a thread of the pool does it.
enum class TryReads { kNever, kIfCached };

/// Hands reads to the pool, and sorts those that are done by their use.
///
/// Thread safety: none; the server's one thread.
class ColdReads {
 public:
  using List = std::vector<std::unique_ptr<ColdRead>>;

  /// Null `pool`: the server thread reads, and waits for the disk. The store outlives this.
  ColdReads(ServerStore& store, std::unique_ptr<ColdReadPool> pool, TryReads tries);
  /// Waits for the reads that a thread does, and drops the others.
  ~ColdReads();
  ColdReads(const ColdReads&) = delete;
  ColdReads& operator=(const ColdReads&) = delete;

  bool has_pool() const { return pool_ != nullptr; }
  /// Does a read at once if the system's page cache has the data. That takes some microseconds, where two
  /// changes of threads take some fifty. Returns false if it does not, or if this step of the server has done
  /// enough of them: then Begin has to follow. REQUIRES: has_pool().
  bool TryAtOnce(ColdRead* read);
  /// Begins a read, which belongs to this until it is taken. REQUIRES: has_pool().
  void Begin(std::unique_ptr<ColdRead> read);
  /// Append the reads that are done, of GETs or of writes, in any order. REQUIRE: has_pool().
  void TakeForLocates(List* done) { Take(&for_locates_, done); }
  void TakeForWrites(List* done) { Take(&for_writes_, done); }

 private:
  void Take(List* kind, List* done);

  ServerStore& store_;
  const std::unique_ptr<ColdReadPool> pool_;
  const TryReads tries_;
  // Tries that fail become rare: then the data are much more than the page cache.
  rdma::Backoff cached_{1};
  int left_in_step_ = 0;
  std::size_t in_flight_ = 0;
  // Done, and not taken yet.
  List for_locates_;
  List for_writes_;
  List done_;  // Take: kept for its memory
};

}  // namespace remora
