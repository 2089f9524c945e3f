// A load: everything that the durable tier holds comes to the index, except what has expired, which leaves
// the tier. By one thread or several, before anybody reads or while the store serves. Records come to memory,
// too, as long as there is room; where records may be evicted, the others' keys are cold from the start.
//
// A load shows the tier's state as of its beginning, in ranges of keys. Whoever loads takes a range, and of
// its entries makes records in a segment of his own, outside of the store's lock; only to publish a batch of
// them he takes it, so writes, and whoever else loads, wait for some ten microseconds; a hundred, where so
// many want it that the batch has grown.
//
// While it serves, all hangs on which keys the index knows (store/index/load_coverage.h): those that the load
// has passed, and those that were written, deleted or fetched before it got there, which are added to it.
//   L1 The index has an entry of a key that it knows exactly when the key exists (what has expired may be on
//      its way out). So no key is missing because it was not loaded yet: who does not find a key, and began
//      to look before the load was over, asks the tier if the index does not know it (store/read/promote.h).
//   L2 The index has no entry of a key that it does not know, and the tier has that key as it was when the
//   load
//      began. So a cold entry, which says only a hash, is not such a key's; and what the load brings of it is
//      current.
// Both hold at the beginning: it knows none, and is empty. Then, each step under the lock:
//   A key that the load comes to and that is not added is entered, as it is in the tier by L2: hot, or cold.
//   Not cold if there is a cold entry of its hash: that is another key's by L2, and with two of them neither
//   a reader nor a split could tell one from the other, so it is fetched. If it has expired, it leaves the
//   tier. A key that the load comes to and that was added is left alone, whatever became of it: the index
//   knows it. A key that is written is in the tier before it is published; as it is published, it is added.
//   A key that is deleted, or was fetched, likewise. What happens to it afterwards (it is moved, evicted,
//   overwritten, fetched again, removed because it has expired) happens to a key that the index knows, as
//   when nothing is loaded; and it stays known, because only the load itself drops it from those added, as it
//   passes it.
//   Who finds that a key has expired that the index does not know leaves it to the load.
// Should a load fail, it stays like this for ever.
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
#include "store/read/promote.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"
#include "store/store.h"
#include "store/write/large_records.h"

namespace remora {

/// Owns the load of a store, and its threads. It has more methods than a class should: they are the steps of
/// one way, of one entry from the tier to the index, with a branch for each sort of entry.
///
/// Thread Safety: Start, Step and Stop are for one thread, one after the other; status and took for
/// any. Each Worker belongs to one thread.
class IndexLoader {
 public:
  /// All that it is given outlives it.
  IndexLoader(StoreCore& core, SpaceManager& space, Maintenance& maintenance, LargeRecords& large,
              Promoter& promoter)
      : core_(core), space_(space), maintenance_(maintenance), large_(large), promoter_(promoter) {}
  IndexLoader(const IndexLoader&) = delete;
  IndexLoader& operator=(const IndexLoader&) = delete;

  /// Starts a load, as the options say; Loading::kInOpen: returns when it is over. Errors: as Store::Open.
  absl::Status Start(const StoreOptions& options);
  /// As Store::Load.
  bool Step();
  /// Returns when no thread loads any more.
  void Stop();

  /// As Store::load_status and load_time.
  absl::Status status() const;
  Duration took() const { return core_.is_loading() ? Duration::zero() : load_.took; }

 private:
  /// What one thread of a load is at.
  struct Worker {
    /// What is to be published of one key.
    struct Item {
      enum class Kind : std::uint8_t {
        kRecord = 1,   // it is in the log
        kCold = 2,     // the key is entered alone
        kExpired = 3,  // it leaves the tier
      };
      std::uint64_t key_hash = 0;
      Place place;  // kRecord
      // The key, in `keys`. kRecord: it is in the log.
      std::uint32_t key_begin = 0;
      std::uint16_t key_size = 0;
      Kind kind = Kind::kRecord;
    };

    std::optional<std::size_t> range;
    std::string next_key;      // of the range, the first one that is to be shown
    bool shown_all = false;    // of the range
    std::int64_t unix_ms = 0;  // when it began with what it is at

    // A segment that nobody else appends to.
    std::optional<SegmentNumber> segment;
    std::uint64_t next = 0;
    std::uint64_t end = 0;

    // The batch, in the order of keys.
    std::vector<Item> batch;
    std::string keys;
    std::size_t published = 0;                          // the first of these
    std::int64_t expiry_ms = Segments::kNoExpiry;       // the earliest of its records
    std::int64_t cold_expiry_ms = Segments::kNoExpiry;  // the same of those whose keys are cold

    // All that did not expire, for the message when it does not fit.
    std::uint64_t key_count = 0;
    std::uint64_t record_bytes = 0;
  };

  /// What all threads of a load share.
  struct State {
    // Fixed before the first of them starts.
    std::vector<DurableTier::KeyRange> ranges;
    bool serves = false;               // somebody may read
    std::uint64_t index_segments = 0;  // that the index will have, about
    TimePoint began;

    std::atomic<std::size_t> next_range = 0;
    std::atomic<bool> stop = false;    // somebody failed, or the store ends
    std::atomic<bool> cold = false;    // no more segments are taken for records
    std::atomic<bool> fits = true;     // else what is left is only counted
    std::atomic<bool> failed = false;  // it is over, and not all was loaded: `status` says why

    // Under the store's lock.
    std::size_t working = 0;  // threads
    absl::Status status;      // of the first that failed; nobody writes it once `failed` is set
    std::uint64_t key_count = 0;
    std::uint64_t record_bytes = 0;
    Duration took = Duration::zero();  // set before loading() is false; nobody writes it then

    std::unique_ptr<Worker> stepper;   // Loading::kInSteps
    std::vector<std::thread> threads;  // Loading::kInBackground
  };

  void Presize(std::uint64_t keys, bool fits, bool will_do);
  void BeginToServe();
  void LoadInThread();
  /// Loads a range, or what is left of it. False: there is none. Aborted: no room right now; call it again.
  /// Cancelled: it was stopped.
  absl::StatusOr<bool> LoadRange(Worker& worker);
  absl::Status LoadEntry(Worker& worker, const DurableTier::Entry& entry);
  /// Publishes the batch, unless somebody else has the lock and the batch may grow yet.
  absl::Status PublishIfFree(Worker& worker);
  absl::Status LoadSmall(Worker& worker, const DurableTier::Entry& entry);
  absl::Status LoadLarge(Worker& worker, const DurableTier::Entry& entry);
  void LoadKey(Worker& worker, const DurableTier::Entry& entry, Worker::Item::Kind kind);
  /// Whether so many segments may hold what is loaded. What is evicted for them might as well stay outside.
  bool IsRoomToLoad(std::size_t segments) const REMORA_WRITER;
  absl::Status TakeSegment(Worker& worker);
  absl::StatusOr<Reservation> ReserveToLoad(const DurableTier::Entry& entry);
  absl::Status PublishLarge(Worker& worker, const DurableTier::Entry& entry, const Reservation& reserved);
  absl::Status PublishBatch(Worker& worker);
  /// Publishes the batch. REQUIRES: it is not empty.
  absl::Status PublishLocked(Worker& worker) REMORA_WRITER;
  /// kAvailable: it is published, or the index knows better. DataLoss, Unavailable: the tier cannot be read.
  absl::StatusOr<SpaceResult> PublishItem(const Worker& worker, const Worker::Item& item,
                                          TimePoint now) REMORA_WRITER;
  absl::StatusOr<SpaceResult> PublishCold(const Worker& worker, const Worker::Item& item,
                                          TimePoint now) REMORA_WRITER;
  absl::StatusOr<SpaceResult> PromoteToLoad(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;
  std::string_view KeyOf(const Worker& worker, const Worker::Item& item) const;
  SpaceResult MakeSpaceToLoad(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns what the load does next. Aborted: it waits for space.
  absl::Status AfterPublishing(const absl::StatusOr<SpaceResult>& result);
  void EndBatch(Worker& worker) REMORA_WRITER;
  void EndRange(Worker& worker);
  void EndLoad(Worker& worker, const absl::Status& status);

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
  LargeRecords& large_;
  Promoter& promoter_;
  State load_;  // says what protects what
};

}  // namespace remora
