// The state of a store, and its methods. They are defined in:
//   store.cc                           open and close
//   read/point_read.cc, promote.cc     point reads; records that come back to memory
//   read/scan.cc, watch.cc             scans in the order of keys; the change feed
//   read/delete_range.cc               deletion of a range
//   write/write_pipeline.cc            commits; write_fast_path.cc: plain ones; write_prefetch.cc: ahead of
//   them write/sync_queue.cc                writes of level synced write/read_modify_write.cc         values
//   made of old ones; large_records.cc: values of several segments reclaim/maintenance.cc             what is
//   done between commits recovery/index_loader.cc           the load at the start
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/durable/unsynced_keys.h"
#include "store/engine/core.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/format/types/scan_range.h"
#include "store/index/index.h"
#include "store/index/load_coverage.h"
#include "store/memory_plan.h"
#include "store/reclaim/access_frequency.h"
#include "store/reclaim/cleaner.h"
#include "store/reclaim/cold_expirer.h"
#include "store/reclaim/evictor.h"
#include "store/reclaim/expirer.h"
#include "store/recovery/index_loader.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"
#include "store/store.h"
#include "store/write/group_keys.h"

namespace remora {

/// Writes of one group at most: what is done between two groups, growth above all, must not fall behind.
inline constexpr std::size_t kMaxGroup = 1024;

class Store::Impl {
 public:
  /// In memory of its own when `region` is none.
  static absl::StatusOr<std::unique_ptr<Impl>> Open(const StoreOptions& options,
                                                    std::optional<std::span<std::byte>> region);

  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version);
  /// The same where nothing comes in between: true, and it is done. False: nothing is known yet.
  bool GetAtOnce(std::string_view key, std::string* value, std::uint64_t* version);
  absl::Status Exists(std::string_view key);
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);
  absl::StatusOr<Location> Locate(std::string_view key);
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void GiveBack(const Reservation& reservation);
  void Commit(std::span<Write> writes);
  void Submit(std::span<Write> writes);
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  void CatchUp();
  void TakeSynced(std::vector<SyncedWrite>* outcomes);
  bool Sync();
  /// Commits one write, or one batch, however long it takes. `version`, unless null, gets that of the first
  /// if it was done.
  void CommitNow(std::span<Write> writes);
  /// Of one write, or one batch.
  absl::Status CommitNow(std::span<Write> writes, std::uint64_t* version);
  bool Work();
  std::optional<TimePoint> next_work() const;
  /// Of a store with a tier: a watch has begun, and others may come. So what expires is removed soon.
  void BeginToBeWatched();
  /// As Work, where something has expired; for who waits for that, should nobody else work. False: there was
  /// nothing to do.
  bool RemoveExpired();
  /// What is published at this moment. REQUIRES: has_tier().
  absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> NewCursor(const ScanRange& range);
  /// Of all writes that are logged and visible, as those before them, the last one's sequence. Any thread.
  std::uint64_t changes_end() const { return changes_end_.load(std::memory_order_acquire); }
  bool syncs_in_steps() const { return syncs_in_steps_; }
  /// Greater than the versions of all writes so far.
  std::uint64_t versions_end() const;
  /// Of the write that Submit left pending with this ticket, and all before it. Aborted: it is pending yet.
  /// Unavailable: the disk failed, and it may never be visible.
  absl::Status Ended(std::uint64_t ticket) const;
  struct VersionedKey {
    std::string key;
    std::uint64_t version = 0;
  };
  /// How far somebody has come in the index, in the order of hash_order.h.
  struct IndexWalk {
    std::uint64_t place = 0;
    bool over = false;
  };
  /// Adds the keys of the range that have a record in memory, of the bucket that the walk comes to, in the
  /// order of hash_order.h; returns how many records it looked at. Who begins at 0 and walks to the end finds
  /// each key that is there meanwhile exactly once.
  std::size_t WalkIndex(const ScanRange& range, IndexWalk* walk, std::vector<VersionedKey>* keys);
  /// The header of the key's record in memory, and the value, unless `value` is null.
  std::optional<RecordHeader> CopyRecord(std::string_view key, std::string* value);
  bool LoadStep();
  absl::Status Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten);
  std::vector<RememberedClient> TakeRemembered() { return std::move(remembered_); }
  Duration load_time() const { return core_.is_loading() ? Duration::zero() : load_.took; }
  absl::Status load_status() const;
  absl::Status disk_status() const;

  StoreCore& core() { return core_; }

 private:
  /// What may come of waiting for room.
  enum class Room : std::uint8_t { kNow = 1, kLater = 2, kNever = 3 };

  // --- store.cc

  Impl(const StoreOptions& options, const Clock& clock, std::unique_ptr<AnonymousMemory> own_memory,
       std::span<std::byte> region, std::unique_ptr<DurableTier> tier);
  absl::Status Start(const StoreOptions& options);
  void SetSizeCounters();

  // --- read/point_read.cc

  /// Calls `take`(header copy, slot) with a record that was the key's live one at some moment of the call.
  /// Aborted: it could not be brought back to memory right now.
  template <typename Take>
  absl::Status Find(std::string_view key, const Take& take);
  /// The same, once more while it is Aborted.
  template <typename Take>
  absl::Status FindInTheEnd(std::string_view key, const Take& take);

  // --- read/promote.cc

  /// The key's record, brought back to memory if it is not there. May have expired. Under core_.mutex, and
  /// not while a group is being committed. NotFound. Aborted, ResourceExhausted: no room, as for a write.
  /// Unavailable, DataLoss: the tier cannot be read.
  absl::StatusOr<Place> FindOrFetch(std::string_view key, std::uint64_t key_hash);
  /// Appends the record of a key that is not in memory; nothing leads to it yet. `entry`: of the cold key.
  /// NotFound: that is another key's entry, or it has expired. Aborted: no room; `run` is the length of the
  /// run that it takes.
  absl::StatusOr<Place> Fetch(std::string_view key, std::uint64_t key_hash,
                              const std::optional<Index::ColdEntry>& entry, TimePoint now,
                              std::int64_t unix_ms, std::size_t* run);

  // --- write/write_pipeline.cc

  /// What a key's record is, as of all writes staged before.
  struct Known {
    std::optional<Place> place{};  // in memory
    bool cold = false;             // in the durable tier only: the key has a cold entry
    bool unloaded = false;         // the same, and the index may not know it
    std::uint64_t expiry_ms = 0;
    std::uint64_t version = 0;
    bool unsynced = false;  // by a write that is to be synced
    // What Look found: where the index has it, if anywhere, until this group's writes of the same key.
    bool is_looked_up = false;
    std::optional<Index::Entry> entry{};
  };

  /// A write of the group that is being committed, once nothing but the durable tier can fail it.
  struct Staged {
    Write* write = nullptr;
    // But for kPut, whose are in the log: the private copies of the key, and behind it of what is added.
    std::string own;
    std::string_view key;  // the private copy
    std::uint64_t key_hash = 0;
    // kPut: the private copy. kIncrement, kAppend: that of what is added, until Modify. Then: in the log.
    std::string_view value;
    std::uint64_t value_hash = 0;
    Place place;          // but for kDelete
    bool synced = false;  // it is to be
    bool held = false;    // ValueLog::Hold
    Known old;            // until this write
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;

    bool is_delete() const { return write->kind == Write::Kind::kDelete; }
  };

  /// As of `now`. Leaves what is owed for them. `foreseen`: what ForeseeOne said.
  void SubmitLocked(std::span<Write> writes, std::uint64_t foreseen, TimePoint now, std::int64_t unix_ms);
  /// Commits from the start of `writes` as many as there is room for; returns how many that were.
  std::size_t CommitSome(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  /// To who sent what Write::verify refuses.
  static absl::Status Damaged();
  // write/write_fast_path.cc
  /// Of a store without a durable tier: the plain puts that `writes` begins with, as far as there is room and
  /// nothing is wrong with them; returns how many that were.
  std::size_t PutAtOnce(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  /// False: it was not done, and is for CommitSome.
  bool PutOneAtOnce(Write& write, TimePoint now, std::int64_t unix_ms);
  // write/write_prefetch.cc: no effect but on time.
  /// What the first of them are going to look at; returns of how many.
  std::size_t Foresee(std::span<const Write> writes) const;
  /// Of one alone, its bucket; returns the hash of its key, as it may be. Any thread, without the lock.
  std::uint64_t ForeseeOne(std::span<const Write> writes) const;
  void ForeseeBucket(std::uint64_t key_hash) const;
  std::uint64_t HashOf(const Write& write) const;
  /// Checks and copies a write, and makes sure that there is room for it. When not OK, nothing of it is left.
  /// Aborted: no room.
  absl::Status Stage(Write& write, TimePoint now, std::int64_t unix_ms);
  /// The same of a batch: all of it, or nothing.
  absl::Status StageBatch(std::span<Write> batch, TimePoint now, std::int64_t unix_ms);
  /// Takes back what was staged of a batch; nothing shows that it ever was.
  void UnstageTo(std::size_t count);
  absl::Status CopyAndVerify(Staged& staged, TimePoint now);
  /// Decides existence as of all writes staged before, and reserves room in the index.
  absl::Status Decide(Staged& staged, TimePoint now, std::int64_t unix_ms);
  /// Before this group.
  absl::Status Look(const Staged& staged, Known* known) const;
  /// After a write that was staged before.
  static Known KnownOf(const Staged& earlier);
  void SealAll();
  absl::Status MakeDurable();
  void Publish(const Staged& staged, TimePoint now);
  void Abandon(const absl::Status& why);
  void TakeBack(const Staged& staged);

  // --- write/sync_queue.cc

  /// A thread in Commit. Each is woken by itself, and without the store's lock: woken together, they would
  /// queue up for that, one behind the other.
  struct Waiter {
    std::size_t pending = 0;  // of its writes; under the store's lock

    void Wait();
    void Wake();

   private:
    std::mutex mutex_;
    std::condition_variable woken_;
    bool over_ = false;
  };

  /// A staged write that is in the durable tier, and waits for the disk.
  struct Pending {
    std::uint64_t ticket = 0;
    Write write;                      // a copy, without what it points to
    Write* caller = nullptr;          // gets the outcome; null: who asks for it does
    Waiter* waiter = nullptr;         // of the caller
    std::uint64_t logged_before = 0;  // the sequence, before its group
    bool is_refused = false;          // nothing is staged; the write's status says why (S6)
    Staged staged;
  };

  Durability LevelOf(const Write& write) const;
  /// Keeps a record that is to be published later where it is.
  void Hold(Staged& staged);
  void SyncAllOrNone(std::span<Staged> batch);
  void PublishOrAwait(TimePoint now);
  /// After what was published, or put into the log: see changes_end.
  void SetChangesEnd();
  void Await(Staged& staged);
  /// Adds what is pending for a write. The outcome is its caller's, or of who asks for it.
  Pending& AddPending(Write& write);
  void AwaitRefusals();
  /// The writes of the batch that is the next to be published; 1 where none is.
  std::size_t PendingBatch() const;
  /// Counts what pending writes will take of the index (S5).
  void ReservePending();
  bool MakeRoomForPending(std::size_t batch, TimePoint now, std::int64_t unix_ms);
  /// Publishes what the disk has, as far as there is room.
  void PublishSynced(TimePoint now, std::int64_t unix_ms);
  /// Under the lock, asks the disk for all that is pending, and publishes it. Aborted: there is no room right
  /// now. Unavailable: the disk failed, now or before.
  absl::Status PublishAll();
  void Tell(const Pending& pending);
  /// Gives up the lock meanwhile: whoever ended pending writes calls it before he ends.
  void TellAll(std::unique_lock<std::mutex>& lock);
  /// Under the lock: all writes so far, of all groups.
  absl::Status SyncNow();
  void NoteSynced(const absl::Status& status);
  /// Of a group, or a sync.
  void NoteDisk(const absl::Status& status);
  /// Gives up the lock meanwhile. False: nothing waits for the disk.
  bool SyncPending(std::unique_lock<std::mutex>& lock);
  absl::Status StartSyncing(const StoreOptions& options);
  void SyncInThread();
  void StopSyncing();

  // --- write/read_modify_write.cc

  /// For kTouch, kIncrement and kAppend: appends the record with the value that is made of the old one.
  /// `exists`: there is one. Aborted: no room.
  absl::Status Modify(Staged& staged, const Known& old, bool exists, TimePoint now);
  /// Calls take(value, its hash), which returns a status, with the old record's value.
  template <typename Take>
  absl::Status ReadOld(const Staged& staged, const Known& old, const Take& take) const;

  // --- write/large_records.cc

  /// Where the record of a reservation is.
  Place PlaceOf(const Reservation& reservation) const;
  /// The length of the run that a write needs. 0: none.
  std::size_t RunOf(const Write& write) const;
  /// A bit of the work that it takes to have a run of this length.
  Room MakeRun(std::size_t length, TimePoint now, std::int64_t unix_ms);
  /// kLater instead of kNever, where there may be room when what is reserved is given back, or becomes a
  /// record that can be evicted. Not for writes: who reserves would hold up all of them. `run`: 0, or the
  /// run's length.
  Room OrWhenGivenBack(Room room, std::size_t run) const;
  /// Evicts a large record that was not used lately, if there is one. False: none, or eviction is off.
  bool EvictLarge(TimePoint now);
  absl::Status NoRun(std::size_t length) const;

  // --- reclaim/maintenance.cc

  /// Bytes that the cleaner looks at for each byte written, when memory is short: as much as it takes where
  /// nine tenths of what it looks at are live.
  static constexpr std::uint64_t kCleanPace = 10;

  Room MakeRoom(TimePoint now, std::int64_t unix_ms);
  /// Makes sure of room for a write that was Aborted for want of it.
  Room MakeRoomFor(const Write& write, TimePoint now, std::int64_t unix_ms);
  /// Frees what has rested.
  void Release(TimePoint now);
  /// At the end of all that writes.
  void FinishWork();
  void NoteDeletions();
  void RestFromNow();
  /// Does what SubmitLocked left to be done.
  void CatchUpLocked();
  /// Counts a group of so many, before which there were so many keys, and so many bytes appended; and what is
  /// owed for it.
  void NoteGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written);
  /// Notes, behind a group, that it is.
  void Owe(TimePoint now, std::int64_t unix_ms);
  void OweNothing();
  /// Whether the next group has to wait for it.
  bool IsPressing() const;
  /// Of that, what no group may get ahead of.
  void KeepPace(TimePoint now, std::int64_t unix_ms);
  bool WorkLocked(TimePoint now, std::int64_t unix_ms);
  /// Segments that are to be free, or resting.
  std::size_t WantedFree() const;
  /// Whether so little is free that it is time to clean.
  bool Short() const;
  void GoAhead(TimePoint now);
  absl::Status Full() const;

  // --- recovery/index_loader.cc

  absl::Status StartLoad(const StoreOptions& options);
  void PresizeToLoad(std::uint64_t keys, bool fits, bool will_do);
  /// Returns when no thread loads any more.
  void StopLoading();
  void LoadInThread();
  /// Loads a range, or what is left of it. False: there is none. Aborted: no room right now; call it again.
  /// Cancelled: it was stopped.
  absl::StatusOr<bool> LoadRange(LoadWorker& worker);
  absl::Status LoadEntry(LoadWorker& worker, const DurableTier::Entry& entry);
  absl::Status LoadSmall(LoadWorker& worker, const DurableTier::Entry& entry);
  absl::Status LoadLarge(LoadWorker& worker, const DurableTier::Entry& entry);
  void LoadKey(LoadWorker& worker, const DurableTier::Entry& entry, LoadWorker::Item::Kind kind);
  /// Whether so many segments may hold what is loaded. What is evicted for them might as well stay outside.
  bool IsRoomToLoad(std::size_t segments) const;
  absl::Status TakeSegment(LoadWorker& worker);
  absl::StatusOr<Reservation> ReserveToLoad(const DurableTier::Entry& entry);
  absl::Status PublishLarge(LoadWorker& worker, const DurableTier::Entry& entry, const Reservation& reserved);
  absl::Status PublishBatch(LoadWorker& worker);
  /// With the lock held, and a batch that is not empty.
  absl::Status PublishLocked(LoadWorker& worker);
  /// Room::kNow: it is published, or the index knows better. DataLoss, Unavailable: the tier cannot be read.
  absl::StatusOr<Room> PublishItem(const LoadWorker& worker, const LoadWorker::Item& item, TimePoint now);
  absl::StatusOr<Room> PublishCold(const LoadWorker& worker, const LoadWorker::Item& item, TimePoint now);
  absl::StatusOr<Room> FetchToLoad(std::string_view key, std::uint64_t key_hash);
  std::string_view KeyOf(const LoadWorker& worker, const LoadWorker::Item& item) const;
  Room MakeRoomToLoad(TimePoint now, std::int64_t unix_ms);
  /// What comes of it for the load. Aborted: Room::kLater.
  absl::Status AfterPublishing(const absl::StatusOr<Room>& room);
  void EndBatch(LoadWorker& worker);
  void EndRange(LoadWorker& worker);
  void EndLoad(LoadWorker& worker, const absl::Status& status);

  StoreCore core_;

  // Fixed after Start.
  const std::chrono::milliseconds default_ttl_;
  const Durability durability_;
  const std::function<void()> on_synced_;

  // Under core_.mutex.
  std::vector<RememberedClient> remembered_;  // from Start to TakeRemembered
  Sweeper sweeper_;
  ColdSweep cold_sweep_;
  Evictor evictor_;
  Cleaner cleaner_;
  LoadState load_;  // says what protects what
  std::uint64_t fetches_ = 0;
  std::size_t ahead_ = 0;  // segments to be free or resting, until then
  TimePoint ahead_until_;

  // What the writes since the last CatchUp have left to be done, at their pace. Under core_.mutex.
  struct Owed {
    bool any = false;
    bool sizes = false;  // more than small records have come and gone: the counters of sizes cannot wait
    std::uint32_t groups = 0;
    TimePoint now;  // when the last of them came
    std::int64_t unix_ms = 0;
    std::uint64_t keys = 0;   // that are new,
    std::uint64_t bytes = 0;  // appended,
    std::size_t writes = 0;   // done; of all three, what KeepPace has not seen
  };
  Owed owed_;
  std::atomic<bool> catch_up_is_due_ = false;  // written under core_.mutex

  // The group that is being committed; members only so that their memory is used again. Under core_.mutex.
  std::vector<Staged> staged_;
  bool group_is_one_ = false;                                      // write: none comes after it
  GroupKeys group_keys_;                                           // by numbers in staged_
  absl::flat_hash_map<std::uint64_t, std::int64_t> group_growth_;  // by main bucket: entries more than now
  std::string appended_;                                           // a value, as Modify makes it
  // What Decide changed for the writes that were staged of a batch.
  struct Change {
    std::uint32_t* last = nullptr;  // of the key in group_keys_, and what that was
    std::uint32_t before = GroupKeys::kNone;
    std::uint64_t bucket = 0;
    std::int64_t growth = 0;
  };
  bool in_batch_ = false;
  std::vector<Change> batch_changes_;
  bool group_has_synced_ = false;
  bool group_is_on_disk_ = false;
  std::uint64_t logged_before_ = 0;  // the sequence, before the group
  bool decided_on_pending_ = false;  // the write that was decided last (S6)
  std::vector<Write*> refused_;      // those of the group that are to be pending

  std::atomic<std::uint64_t> changes_end_ = 0;  // written under core_.mutex
  std::atomic<std::int64_t> expiry_due_ms_ =
      Segments::kNoExpiry;       // when the sweeps go on; written under core_.mutex
  bool syncs_in_steps_ = false;  // from Start on

  // Under core_.mutex: see synced.cc.
  std::deque<Pending> pending_;  // in the order of their tickets
  std::uint64_t last_ticket_ = 0;
  std::uint64_t synced_to_ = 0;  // the disk has those of these tickets, or never will
  absl::Status sync_failed_;     // for good
  absl::Status disk_status_;     // of the last group, or sync
  std::vector<SyncedWrite> outcomes_;
  std::size_t last_under_way_ = 0;  // writes that were pending at the end of the last sync
  std::size_t gather_ = 1;          // as many as the thread waits for
  Waiter* waiter_ = nullptr;        // of the group that is being committed; null: nobody waits for it
  std::vector<Waiter*> over_;       // to be woken
  bool stop_syncing_ = false;
  std::condition_variable sync_wanted_;
  std::thread syncer_;
};

}  // namespace remora
