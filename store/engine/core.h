// The state that all parts of a store share. It consists of the memory that readers see, the objects that
// manage it, the durable tier, and the lock under which all of them change.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "store/base/clock.h"
#include "store/changes/change_ring.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/engine/disk_health.h"
#include "store/engine/metrics.h"
#include "store/engine/owned_slots.h"
#include "store/engine/writer_lock.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/index/index.h"
#include "store/index/load_coverage.h"
#include "store/memory_plan.h"
#include "store/options.h"
#include "store/ordered/ordered_index.h"
#include "store/read/cold_read.h"
#include "store/reclaim/access_frequency.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Holds the state that the parts of a store (write/, read/, reclaim/, recovery/) share. Each part has the
/// state that it alone uses, and a reference to this one. It has more than 15 fields, because all parts need
/// most of them: they are one table, one log, one lock.
///
/// Ownership: it owns all that it holds except the clock, and a region that the caller passed.
///
/// Thread safety: as stated for each group of fields.
struct StoreCore {
  /// `memory`: the store's own memory, or null if `region` is the caller's. `durable_tier`: null for
  /// Durability::kMemory. `change_ring`: null unless StoreOptions::change_log_bytes is set.
  StoreCore(const StoreOptions& options, const Clock& store_clock, std::unique_ptr<AnonymousMemory> memory,
            std::span<std::byte> region, std::unique_ptr<DurableTier> durable_tier,
            std::unique_ptr<ChangeRing> change_ring);
  StoreCore(const StoreCore&) = delete;
  StoreCore& operator=(const StoreCore&) = delete;

  /// Ends the time without readers: from now on, retired memory waits for two grace periods.
  void BeginToServe() REMORA_WRITER;

  bool has_tier() const { return tier != nullptr; }
  /// Returns whether the store keeps its changes for watches.
  bool keeps_changes() const { return tier != nullptr || changes != nullptr; }
  bool is_following() const { return follows.load(std::memory_order_relaxed); }
  /// Returns whether the load is not over. Acquire: a thread that sees false also sees all loaded keys.
  bool is_loading() const { return loading.load(std::memory_order_acquire); }
  /// Returns whether memory is filling up, so that the store counts which keys are used.
  bool wants_reads() const { return counts_reads.load(std::memory_order_relaxed); }
  /// Moves changes_end to the last change that a watch may show: it and all before it are visible, and
  /// acknowledged by the followers. After a failed sync, changes_end stays where it is: pending writes may
  /// never become visible. REQUIRES: keeps_changes().
  void AdvanceChangesEnd() REMORA_WRITER;
  /// Notes in `read` the state in which a read of its key begins. `is_loaded`: the index knows the key.
  void BeginColdRead(ColdRead* read, bool is_loaded) const REMORA_WRITER;
  /// Returns whether the record that was read is still the key's (cold_read.h, D3 to D5). REQUIRES: the key
  /// has no unsynced write, and no record in memory.
  bool IsCurrent(const ColdRead& read, bool is_loaded) const REMORA_WRITER;
  /// Notes the outcome of the tier's write of a group, and returns it.
  absl::Status NoteTierWrite(absl::Status written) REMORA_WRITER;
  /// Notes that the write of a group with this key has failed. If the disk may have it after all, reads of
  /// the key that need the tier fail from then on.
  void NoteFailedKey(std::string_view key) REMORA_WRITER;
  /// Returns the cold entry of the key's hash. If there is an ordered index, that of the key: nothing if the
  /// key does not exist. REQUIRES: the index knows the key, which has no record in memory.
  std::optional<Index::ColdEntry> FindCold(std::string_view key, std::uint64_t key_hash) const REMORA_WRITER {
    const std::optional<Index::ColdEntry> cold = index.FindCold(key_hash);
    const bool is_of_another = cold && ordered != nullptr && !ordered->keys().Has(key);
    return is_of_another ? std::nullopt : cold;
  }
  /// Notes in the ordered index, if there is one, that the key is about to lose its record `old` in memory,
  /// if it has one. `is_delete`: it gets no other, and FinishRemove follows. REQUIRES: it is not cold.
  void NoteChange(std::string_view key, const std::optional<Index::Entry>& old,
                  bool is_delete) REMORA_WRITER {
    if (ordered == nullptr) return;
    if (!old) {
      if (!is_delete) ordered->NoteInsert(key);  // a key that the index does not know may be deleted
    } else if (is_delete) {
      ordered->NoteRemove(old->place);
    } else {
      ordered->NoteReplace(old->place);
    }
  }
  /// Notes likewise that a cold key is about to lose its record. `old`: a copy, or null (V5).
  void NoteColdChange(std::string_view key, const OrderedIndex::Record& old, bool is_delete) REMORA_WRITER {
    if (ordered == nullptr) return;
    is_delete ? ordered->NoteRemoveCold(key, old) : ordered->NoteReplaceCold(key, old);
  }
  /// Notes that the index does not have the key any more of which NoteChange or NoteColdChange said
  /// `is_delete`. Does nothing if there was no such key.
  void FinishRemove() REMORA_WRITER {
    if (ordered != nullptr && ordered->is_removing()) ordered->FinishRemove();
  }
  /// Notes likewise that the index is about to know a key that the tier has.
  void NoteLoad(std::string_view key) REMORA_WRITER {
    if (ordered != nullptr) ordered->NoteLoad(key);
  }
  /// Appends a put that has become visible to `changes`, if there is such a log.
  void NoteVisiblePut(std::string_view key, std::string_view value, std::uint64_t version,
                      std::uint64_t expiry_ms) REMORA_WRITER {
    if (changes == nullptr) return;
    changes->Append(
        {.kind = ChangeKind::kPut, .version = version, .expiry_ms = expiry_ms, .key = key, .value = value});
  }
  /// Appends a deletion likewise.
  void NoteVisibleDelete(std::string_view key) REMORA_WRITER {
    if (changes != nullptr) changes->Append({.kind = ChangeKind::kDelete, .key = key});
  }
  /// Counts a use of the key with this hash.
  void NoteRead(std::uint64_t key_hash) {
    if (wants_reads()) frequency.Note(key_hash);
  }

  // Fixed by the constructor.
  const std::size_t memory_size;
  const Clock& clock;
  const std::chrono::milliseconds grace;
  const std::unique_ptr<AnonymousMemory> own_memory;
  Superblock& superblock;
  StoreShape shape;  // fixed from BeginToServe on
  const Metrics metrics;

  /// The writers' lock: writers take turns by it. A reader takes it only if the record is not in memory, or
  /// if its searches without the lock failed several times.
  mutable std::mutex mutex;

  Segments segments REMORA_WRITERS;
  // Written under `mutex`. Readers without it use only the members that allow this.
  ValueLog log;
  Index index;
  /// Null: StoreOptions::ordered_index is false. Used under `mutex`.
  const std::unique_ptr<OrderedIndex> ordered;

  // Any thread.
  AccessFrequency frequency;
  std::atomic<bool> counts_reads = false;  // see wants_reads
  OwnedSlots slots;
  /// The store applies the groups of a primary, and decides nothing (G7 of store/durable/group_sink.h). True
  /// from the constructor to Promote, or never. Written under `mutex`. Relaxed: once a thread sees false, it
  /// may do what it may do in any store.
  std::atomic<bool> follows;
  const std::unique_ptr<DurableTier> tier;  // null: Durability::kMemory. It is written under `mutex`

  /// The last changes of a store without a tier; null: it keeps none. Used under `mutex`.
  const std::unique_ptr<ChangeRing> changes;

  // Under `mutex`.
  LoadCoverage coverage REMORA_WRITERS;
  UnsyncedKeys unsynced_keys REMORA_WRITERS;
  DiskHealth disk REMORA_WRITERS{metrics};
  /// Greater than the versions of all writes so far. In a store that follows, an upper bound until it has
  /// applied a version.
  std::uint64_t next_version REMORA_WRITERS = 1;
  bool ships REMORA_WRITERS = false;  // a sink gets the groups (store/durable/group_sink.h)
  /// Sequence of the last change before the group of the first pending write: all changes up to here are
  /// visible. kNothingPending: no write is pending.
  static constexpr std::uint64_t kNothingPending = ~std::uint64_t{0};
  std::uint64_t changes_held_at REMORA_WRITERS = kNothingPending;
  /// Sequence of the last change that is in the tier's log, or in `changes`, and visible, as are all before
  /// it. Written under `mutex`.
  std::atomic<std::uint64_t> changes_end = 0;
  /// True while the tier may have keys that the index does not know; false for ever after. Written under
  /// `mutex`.
  std::atomic<bool> loading = false;
};

}  // namespace remora
