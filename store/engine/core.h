// The state that all parts of a store share: the memory that readers see, what manages it, the durable tier,
// and the lock under which all of that changes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/engine/metrics.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/index/index.h"
#include "store/index/load_coverage.h"
#include "store/memory_plan.h"
#include "store/reclaim/access_frequency.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"
#include "store/store.h"

namespace remora {

/// Holds what the parts of a store (write/, read/, reclaim/, recovery/) share. Each part has the state that
/// it alone uses, and a reference to this one. It has more fields than a class should, because all parts
/// need most of them: they are one table, one log, one lock.
///
/// Ownership: it owns all that it holds but the clock, and a region that was handed in.
///
/// Thread Safety: as stated for each group of fields.
struct StoreCore {
  /// The store's own memory is `own_memory`, or null where `region` is the caller's. `tier`: null without
  /// durability.
  StoreCore(const StoreOptions& options, const Clock& store_clock, std::unique_ptr<AnonymousMemory> memory,
            std::span<std::byte> region, std::unique_ptr<DurableTier> durable_tier);
  StoreCore(const StoreCore&) = delete;
  StoreCore& operator=(const StoreCore&) = delete;

  /// Nobody has read so far. From now on, retired memory waits for readers.
  void BeginToServe();

  bool has_tier() const { return tier != nullptr; }
  /// Acquire: a thread that sees false sees all that was loaded.
  bool is_loading() const { return loading.load(std::memory_order_acquire); }
  /// Whether the memory is filling, so that it counts which keys are used.
  bool wants_reads() const { return counts_reads.load(std::memory_order_relaxed); }
  /// Counts a use of the key with this hash.
  void NoteRead(std::uint64_t key_hash) {
    if (wants_reads()) frequency.Note(key_hash);
  }

  // Fixed from the start.
  const std::size_t memory_size;
  const Clock& clock;
  const std::chrono::milliseconds grace;
  const std::unique_ptr<AnonymousMemory> own_memory;
  Superblock& superblock;
  StoreShape shape;  // fixed from BeginToServe on
  const Metrics metrics;

  /// Writers take turns. A reader takes it only after it met writers of its key time and again.
  mutable std::mutex mutex;

  // Written under `mutex`. Readers in between use only the members that say so.
  Segments segments;
  ValueLog log;
  Index index;

  // Any thread.
  Frequency frequency;
  std::atomic<bool> counts_reads = false;   // see wants_reads
  const std::unique_ptr<DurableTier> tier;  // null: Durability::kMemory. Its writes: under `mutex`

  // Under `mutex`.
  KnownKeys coverage;
  UnsyncedKeys unsynced_keys;
  std::uint64_t next_version = 1;
  /// Whether a key may be in the tier that the index does not know. Once false, for ever. Written under
  /// `mutex`.
  std::atomic<bool> loading = false;
};

}  // namespace remora
