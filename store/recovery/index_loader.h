// A load fills the index from the durable tier after a restart. It enters each key of the tier, and removes
// expired keys from the tier. It also copies records into memory while there is space. With eviction, the
// keys of all other records are cold from the start. One or several threads load, before the first reader
// or while the store serves.
//
// A load reads the state that the tier had at its beginning, in ranges of keys. A loading thread takes a
// range, and makes records of its entries in a segment of its own, outside of the store's lock. It takes the
// lock only to publish a batch of them. So writers and other loading threads wait for some ten microseconds,
// or a hundred where so many threads want the lock that the batch has grown.
//
// While the store serves, all depends on which keys the index knows (store/index/load_coverage.h). It knows
// the keys that the load has passed. It also knows each key that was written, deleted or promoted before the
// load reached it: such a key is "added" to the coverage.
//   L1 The index has an entry of a key that it knows exactly when the key exists (an expired key may not be
//      removed yet). So no key is missing because it is not loaded yet. A reader that finds no entry, and
//      began to look before the load was over, asks the tier if the index does not know the key
//      (store/read/promote.h).
//   L2 The index has no entry of a key that it does not know, and the tier has that key as it was when the
//      load began. So a cold entry, which has only a hash, never belongs to such a key, and the load enters
//      the current state of such a key.
// Both hold at the beginning: the index knows no key, and is empty. Each later step keeps them, under the
// lock:
//   - The load reaches a key that was not added. It enters the key as the tier has it by L2: hot, or cold.
//     If the index has a cold entry of the same hash, that is another key's by L2. With two such entries,
//     neither a reader nor a split could tell one from the other, so the load promotes the key instead. If
//     the key has expired, the load removes it from the tier.
//   - The load reaches a key of a slot that is not the store's (store/engine/owned_slots.h). It passes over
//     the key, which for L1 does not exist: the promotion of such a key finds nothing, either.
//   - The load reaches a key that was added. It leaves the key alone, whatever became of it, because the
//     index knows it.
//   - A write is in the tier before it is published; when it is published, its key is added. A delete and a
//     promotion add their keys likewise.
//   - A key that was added is moved, evicted, overwritten, promoted again, or removed because it has
//     expired. All of these happen to a key that the index knows, as when nothing is loaded. The key stays
//     known, because only the load drops it from the added keys, when it passes the key.
//   - A thread finds an expired key that the index does not know. It leaves the key to the load.
// If a load fails, this state lasts for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/read/promote.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"
#include "store/write/large_records.h"
#include "store/write/write.h"

namespace remora {

/// Owns the load of a store, and its threads. It has more than 25 methods: the steps of one path, from the
/// tier to the index, with a branch for each kind of entry.
///
/// Thread safety: one thread calls Start, Step and Stop, one after the other; any thread calls status and
/// took. Each Worker belongs to one thread.
class IndexLoader {
 public:
  /// All arguments outlive this.
  IndexLoader(StoreCore& core, SpaceManager& space, Maintenance& maintenance, LargeRecords& large,
              Promoter& promoter)
      : core_(core), space_(space), maintenance_(maintenance), large_(large), promoter_(promoter) {}
  IndexLoader(const IndexLoader&) = delete;
  IndexLoader& operator=(const IndexLoader&) = delete;

  /// Starts a load with `options`. With Loading::kInOpen, it returns when the load is over. Its errors are
  /// those of Store::Open.
  absl::Status Start(const StoreOptions& options);
  /// Implements ServerStore::Load.
  bool Step();
  /// Stops the load, and returns when none of its threads runs any more.
  void Stop();

  /// Implement Store::load_status and Store::load_time.
  absl::Status status() const;
  Duration took() const { return core_.is_loading() ? Duration::zero() : load_.took; }

 private:
  /// State of one loading thread.
  struct Worker {
    /// One key of a batch that is to be published.
    struct Item {
      enum class Kind : std::uint8_t {
        kRecord = 1,   // its record is in the log
        kCold = 2,     // it gets a cold entry
        kExpired = 3,  // it is removed from the tier
      };
      std::uint64_t key_hash = 0;
      Place place;  // kRecord
      // The key's place in `keys`, except for kRecord, whose key is in the log.
      std::uint32_t key_begin = 0;
      std::uint16_t key_size = 0;
      Kind kind = Kind::kRecord;
    };

    std::optional<std::size_t> range;
    std::string next_key;      // the first key of the range that the tier has yet to show
    bool shown_all = false;    // the tier has shown the whole range
    std::int64_t unix_ms = 0;  // when the current call of LoadRange began

    // A segment to which no other thread appends, and the part of it that is free.
    std::optional<SegmentNumber> segment;
    std::uint64_t next = 0;
    std::uint64_t end = 0;

    // The batch, in the order of keys.
    std::vector<Item> batch;
    std::string keys;
    std::size_t published = 0;                          // so many of its first items are published
    std::int64_t cold_expiry_ms = Segments::kNoExpiry;  // the earliest expiry of its kCold items

    // Totals of the entries that have not expired, for the error message if they do not fit.
    std::uint64_t key_count = 0;
    std::uint64_t record_bytes = 0;
  };

  /// State that all threads of a load share.
  struct State {
    // Fixed before the first thread starts.
    std::vector<DurableTier::KeyRange> ranges;
    bool serves = false;               // readers may run during the load
    std::uint64_t index_segments = 0;  // estimate of the segments of the complete index
    TimePoint began;

    std::atomic<std::size_t> next_range = 0;
    std::atomic<bool> stop = false;    // a thread failed, or the store ends
    std::atomic<bool> cold = false;    // threads take no more segments for records
    std::atomic<bool> fits = true;     // false: threads only count the remaining entries
    std::atomic<bool> failed = false;  // the load is over and incomplete: `status` says why

    // Under the store's lock.
    std::size_t working = 0;  // threads that have not ended
    absl::Status status;      // error of the first thread that failed; constant once `failed` is set
    std::uint64_t key_count = 0;
    std::uint64_t record_bytes = 0;
    Duration took = Duration::zero();  // set before loading() becomes false, then constant

    std::unique_ptr<Worker> stepper;   // Loading::kInSteps
    std::vector<std::thread> threads;  // Loading::kInBackground
  };

  void Presize(std::uint64_t keys, bool fits, bool will_do);
  void BeginToServe();
  void LoadInThread();
  /// Loads a range, or the rest of one. Returns false if there is none.
  /// Aborted: there is no space right now; the caller calls again.
  /// Cancelled: the load was stopped.
  absl::StatusOr<bool> LoadRange(Worker& worker);
  absl::Status LoadEntry(Worker& worker, const DurableTier::Entry& entry);
  /// Publishes the batch, unless another thread holds the lock and the batch may still grow.
  absl::Status PublishIfFree(Worker& worker);
  absl::Status LoadSmall(Worker& worker, const DurableTier::Entry& entry);
  absl::Status LoadLarge(Worker& worker, const DurableTier::Entry& entry);
  void LoadKey(Worker& worker, const DurableTier::Entry& entry, Worker::Item::Kind kind);
  /// Returns whether the load may take so many free segments for records. With eviction, the load evicts
  /// nothing to make space for them: to replace one record by another gains nothing.
  bool HasSpaceToLoad(std::size_t segments) const REMORA_WRITER;
  absl::Status TakeSegment(Worker& worker);
  absl::StatusOr<Reservation> ReserveToLoad(const DurableTier::Entry& entry);
  absl::Status PublishLarge(Worker& worker, const DurableTier::Entry& entry, const Reservation& reserved);
  absl::Status PublishBatch(Worker& worker);
  /// Publishes the batch. REQUIRES: it is not empty.
  absl::Status PublishLocked(Worker& worker) REMORA_WRITER;
  /// Publishes one item. kAvailable: it is published, or the index already knows its key.
  /// DataLoss, Unavailable: the tier cannot be read.
  absl::StatusOr<SpaceResult> PublishItem(const Worker& worker, const Worker::Item& item,
                                          TimePoint now) REMORA_WRITER;
  absl::StatusOr<SpaceResult> PublishCold(const Worker& worker, const Worker::Item& item,
                                          TimePoint now) REMORA_WRITER;
  absl::StatusOr<SpaceResult> PromoteToLoad(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;
  std::string_view KeyOf(const Worker& worker, const Worker::Item& item) const;
  SpaceResult MakeSpaceToLoad(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Turns the result of publishing into a thread's next step.
  /// OK: the thread goes on; after kFull, it only counts entries.
  /// Aborted: it waits for space.
  /// Other errors: the load fails.
  absl::Status AfterPublishing(const absl::StatusOr<SpaceResult>& result);
  void EndBatch(Worker& worker) REMORA_WRITER;
  void EndRange(Worker& worker);
  void EndLoad(Worker& worker, const absl::Status& status);

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
  LargeRecords& large_;
  Promoter& promoter_;
  State load_;  // its members say what protects them
};

}  // namespace remora
