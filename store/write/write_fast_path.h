// The fast path of a plain put, in a store that is only in memory. It does all steps of one put before it
// begins the next one, and stages none. That is possible because a plain put cannot fail once its bytes are
// copied and verified, and because no other write of its group depends on its outcome. The result is that of
// the stages in write_pipeline.h, with fewer instructions. All other writes go through the stages.
//
// A store with a commit log takes this path for a single put, which it logs before readers see it (C1 of
// store/durable/tier_log/tier_log.h). The stages do it if its key may be cold or is not loaded, or if a write
// waits for the disk, or the groups are shipped to followers. Several puts go through the stages, too: in one
// group, they share a header and a checksum.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/reclaim/maintenance.h"
#include "store/write/write.h"
#include "store/write/write_prefetch.h"

namespace remora {

/// Publishes plain puts one by one.
///
/// Thread safety: none; the caller holds the store's lock.
class WriteFastPath {
 public:
  /// All arguments outlive this.
  WriteFastPath(StoreCore& core, Maintenance& maintenance, const WritePrefetcher& prefetcher,
                const StoreOptions& options)
      : core_(core),
        maintenance_(maintenance),
        prefetcher_(prefetcher),
        default_ttl_(options.default_ttl),
        level_(options.durability) {}

  /// Does puts from the start of `writes`, up to the first one that is not plain, is out of bounds or has no
  /// space. Returns the number of writes that have an outcome.
  /// REQUIRES: the store has no durable tier. Or it has a commit log and has loaded all keys, no write waits
  /// for the disk, and `writes` has one write.
  std::size_t TryPuts(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

 private:
  /// Does a put, and sets its outcome. Returns false if it left the write to the stages.
  bool TryPut(Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Writes a put to the commit log. Unavailable: the log did not take it, and it must not become visible.
  absl::Status Log(const Write& write, const Place& place, std::uint64_t expiry_ms) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  const WritePrefetcher& prefetcher_;
  const std::chrono::milliseconds default_ttl_;
  const Durability level_;  // default durability level
};

}  // namespace remora
