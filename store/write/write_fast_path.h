// A plain put of a store that is only in memory: all of it at once. Nothing can fail any more once its bytes
// are copied and found good, and nothing else of its group depends on whether it can be done; so it is not
// staged with the others, and each write meets what the one before it has left. It comes to what the stages
// in write_pipeline.h come to, in two thirds of the instructions. All that is not plain goes there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

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
                std::chrono::milliseconds default_ttl)
      : core_(core), maintenance_(maintenance), prefetcher_(prefetcher), default_ttl_(default_ttl) {}

  /// Does the plain puts that `writes` begins with, as far as there is room and nothing is wrong with them;
  /// returns how many that were. REQUIRES: the store has no durable tier.
  std::size_t TryPuts(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

 private:
  /// False: it was not done, and is for the stages.
  bool TryPut(Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  const WritePrefetcher& prefetcher_;
  const std::chrono::milliseconds default_ttl_;
};

}  // namespace remora
