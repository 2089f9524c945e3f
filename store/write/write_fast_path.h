// A plain put of a store that is only in memory: all of it at once. Nothing can fail any more once its bytes
// are copied and found good, and nothing else of its group depends on whether it can be done; so it is not
// staged with the others, and each write meets what the one before it has left. It comes to what the stages
// in write_pipeline.h come to, in two thirds of the instructions. All that is not plain goes there.
//
// The same for one put of a store with a commit log, which is logged before it is visible (C1 of
// store/durable/tier_log.h). Where its key may be cold or not loaded, or a write waits for the disk, it is
// not plain. Several puts are: as one group, they share a header and a checksum.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/store.h"
#include "store/write/write_prefetch.h"

namespace remora {

/// Thread Safety: none; the writer's.
class WriteFastPath {
 public:
  /// All that it is given outlives it.
  WriteFastPath(StoreCore& core, Maintenance& maintenance, const WritePrefetcher& prefetcher,
                const StoreOptions& options)
      : core_(core),
        maintenance_(maintenance),
        prefetcher_(prefetcher),
        default_ttl_(options.default_ttl),
        level_(options.durability) {}

  /// Does the plain puts that `writes` begins with, as far as there is room and nothing is wrong with them;
  /// returns how many that were. REQUIRES: the store has no durable tier; or it has a commit log, has loaded
  /// all, no write waits for the disk, and `writes` is one.
  std::size_t TryPuts(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

 private:
  /// False: it was not done, and is for the stages.
  bool TryPut(Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Unavailable: it is not to be visible.
  absl::Status Log(const Write& write, const Place& place, std::uint64_t expiry_ms) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  const WritePrefetcher& prefetcher_;
  const std::chrono::milliseconds default_ttl_;
  const Durability level_;  // of a write that does not say
};

}  // namespace remora
