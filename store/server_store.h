// The store as a server drives it: writes in groups, maintenance and loading in steps, locations for clients
// that read the region, and space that clients fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/durable/completion_records.h"
#include "store/durable/group_sink.h"
#include "store/durable/store_copy.h"
#include "store/durable/tier_log/group_history.h"
#include "store/format/memory/layout.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/messages.h"
#include "store/read/cold_read.h"
#include "store/read/location.h"
#include "store/region/segment_map.h"
#include "store/store.h"
#include "store/write/write.h"

namespace remora {

class SlotTransfer;

/// A Store with the calls that only a server needs, and tests. A program that embeds a store needs none of
/// them.
///
/// The class has more than 25 methods, because it is the interface of the store for the server: one for each
/// step of a request, and of maintenance.
///
/// Thread safety: as Store; Load one at a time.
class ServerStore : public Store {
 public:
  /// Open a store, with outcomes as for Store::Open.
  static absl::StatusOr<std::unique_ptr<ServerStore>> Open(const StoreOptions& options);
  static absl::StatusOr<std::unique_ptr<ServerStore>> Open(const StoreOptions& options,
                                                           std::span<std::byte> region);

  /// Applies writes as one group, or as several if they are thousands: one write to the durable tier, then
  /// each becomes visible in order. A group is not atomic for readers, and neither is a batch. Each write has
  /// its own outcome, unless it belongs to a batch (Write::continues_batch). Returns when all outcomes are
  /// set. After a write that is Aborted, all later ones are Aborted, too. (Write::needs_read is the
  /// exception.)
  void Commit(std::span<Write> writes);

  /// Applies writes as Commit does, but does not wait for the disk (Write::ticket). A write of a key that has
  /// a pending write is pending, too. The bytes of the writes are not needed after this returns.
  void Submit(std::span<Write> writes);
  /// Applies writes as the Submit above does, as of a moment that the store's clock has just given: `now` or,
  /// in ms since 1970, `unix_ms`. It leaves the maintenance that the writes cause to PayMaintenanceDebt,
  /// which the caller calls after it has told others the outcomes. (Maintenance that can wait longer is left
  /// to RunMaintenance. If another write comes first, it does the part that no group may outrun.) Until then,
  /// only the counters of keys, versions and writes are up to date.
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  void PayMaintenanceDebt();
  /// Begins the reads that writes with needs_read, or those behind them, depend on. Appends one for each
  /// write, or null if the write needs none: memory has the record, or Write::read is still right. The caller
  /// has ReadCold do the reads, in any thread. Then it submits the write again, with Write::read.
  void BeginReads(std::span<const Write> writes, std::vector<std::unique_ptr<ColdRead>>* reads) const;
  /// Appends the outcomes of pending writes that have become known, in the order in which they ended.
  void TakeSynced(std::vector<SyncedWrite>* outcomes);
  /// With Syncing::kInSteps: waits until the disk has all pending writes, and makes them visible. Returns
  /// false if none waited for the disk.
  bool Sync();

  /// With Loading::kInSteps: loads some more keys. Returns false if none are left, or the load failed.
  bool Load();

  /// Reserves space for a record whose value has more than kMaxSmallValueSize bytes. The caller fills it in
  /// place and then commits it (Write::reserved), or gives it back. Until then it counts as used. Outcomes:
  ///   InvalidArgument: a size is out of bounds.
  ///   ResourceExhausted, Aborted: as for Write::status.
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void Release(const Reservation& reservation);

  /// Returns the location of the key's record, and brings the record back first if it is not in memory.
  /// Even if the key is written or deleted, the record stays readable there for two more grace periods.
  /// MovedError (store/base/moved.h): the key's slot is not one of StoreOptions::slots.
  /// Outcomes as for Get, and Aborted: the record cannot be brought back right now; try again later.
  absl::StatusOr<Location> Locate(std::string_view key);
  /// Do the work of Locate for a caller that does not wait for the disk. BeginLocate returns nothing if the
  /// record is only in the durable tier. Then the caller has ReadCold read it, in any thread, and calls
  /// FinishLocate with the result. That returns nothing if the key has changed meanwhile: ReadCold and
  /// FinishLocate follow again. A read may be dropped at any time. Other outcomes as for Locate.
  absl::StatusOr<std::optional<Location>> BeginLocate(std::string_view key, ColdRead* read);
  void ReadCold(ColdRead* read) const;
  /// Does the read if it needs no disk. Returns false if it does, or if it reads more than 64 KiB.
  bool TryReadCold(ColdRead* read) const;
  /// `may_stay`: the caller takes the value of the read, too. Then a record may stay where it is, if memory
  /// fills and the key is not used often. The location has no slot then, and the value of the read is the
  /// key's.
  absl::StatusOr<std::optional<Location>> FinishLocate(ColdRead* read, bool may_stay = false);

  /// Returns whether the store has an ordered index.
  bool has_ordered_index() const;
  /// Returns the offset of the leaf of the ordered index that has the key, or, with kBelow, the greatest key
  /// below it (store/format/memory/leaf_block.h). 0: clients cannot READ that leaf.
  ///   NotFound: there are no keys.
  ///   FailedPrecondition: there is no ordered index.
  ///   Unavailable: the store is loading.
  ///   Aborted: slots are about to come (OwnedSlots::CheckSettled); ask again later.
  absl::StatusOr<std::uint64_t> FindLeaf(std::string_view key, LeafSide side) const;

  /// Returns whether memory is filling up, so that the store counts which keys are used.
  bool wants_reads() const;
  /// Counts a read by another process of the record whose key has this hash. Get counts its own reads.
  void NoteRead(std::uint64_t key_hash);

  // --- Replication: groups of writes for followers, and from a primary (store/durable/group_sink.h)

  /// Ships all groups of writes to `sink` from now on, with numbers from last_group() + 1 on. The first comes
  /// in this call. From then on, a write of any level is pending (Write::ticket) until Acknowledge. Commit
  /// returns after that, so another thread has to acknowledge. Scans, and reads of a key whose record is only
  /// in the durable tier, are Aborted while they depend on pending writes. The followers begin with the same
  /// content. `sink` outlives the store, or the call of DropGroupSink.
  ///   FailedPrecondition: the store has no commit log; it loads, follows, or has a sink.
  ///   Aborted: a backup is being made. Unavailable: the disk fails. The store goes on without a sink.
  absl::Status SetGroupSink(GroupSink* sink);
  /// Ships no more groups: the sink gets no call after this one. Pending writes become visible as soon as
  /// their own level of durability holds. With the next write, the store leaves the history of its groups:
  /// last_group() is 0.
  void DropGroupSink();
  /// Says that the followers have all groups up to this number. Their writes become visible, and end.
  ///   InvalidArgument: there was no such group yet. FailedPrecondition: the store has no sink.
  absl::Status Acknowledge(std::uint64_t number);
  /// Returns the number of the last group that the store has shipped or applied, also before a restart. 0:
  /// none, or it has written outside of the history of these groups.
  std::uint64_t last_group() const;
  /// Returns OK, or Unavailable: the disk failed so that the store takes no more writes until it is opened
  /// again.
  absl::Status CheckSync() const;

  /// Reads the groups from number `from` on out of the commit log, with the bytes that a sink got. Any thread
  /// may do that while others write. The store outlives the cursor. Cost: the first call reads the whole log.
  ///   OutOfRange: the log does not have the group, or not any more (StoreOptions::watch_retention_bytes).
  ///   Unavailable: the disk fails.
  absl::StatusOr<std::unique_ptr<GroupHistory>> ReadGroups(std::uint64_t from) const;

  /// Begins a copy of the store's files: of all groups up to its `after`, and of perhaps later ones. Any
  /// thread may do that while others write. The store outlives the copy. Cost: applies and flushes the commit
  /// log first.
  ///   FailedPrecondition: the store has no numbered groups. Unavailable, DataLoss: the disk fails.
  absl::StatusOr<std::unique_ptr<StoreCopy>> BeginCopy() const;

  /// Applies the group that a sink got with this number. REQUIRES: the store was opened with
  /// StoreOptions::follows. The bytes are not needed after this returns. Unless it is OK, no reader sees
  /// anything of the group:
  ///   FailedPrecondition: the number is not last_group() + 1; or the store follows no primary.
  ///   DataLoss: the bytes are damaged.
  ///   Aborted: memory is to become free first; call it with the same group again (Store::next_maintenance).
  ///   ResourceExhausted: the memory is too small.
  ///   Unavailable: the disk fails.
  absl::Status ApplyGroup(std::uint64_t number, std::string_view bytes);
  /// Waits until the disk has all groups that were applied before the call, and returns the number of the
  /// last one. Unavailable: the disk failed, and the store applies no more.
  absl::StatusOr<std::uint64_t> SyncGroups();
  /// Makes a store that follows an ordinary one: it takes writes, whose versions exceed all that it has
  /// applied, and removes expired keys. TakeCompletions then returns the records as of now. With a sink, the
  /// numbers of its groups continue those of the primary, as after SetGroupSink; without one, it leaves their
  /// history. Its first version is `versions_from` or later.
  ///   FailedPrecondition: the store does not follow; or as for SetGroupSink. DataLoss, Unavailable: the disk
  ///   fails.
  /// Unless it is OK, the store follows as before.
  absl::Status Promote(GroupSink* sink = nullptr, std::uint64_t versions_from = 0);

  // --- Moves of slots

  /// Returns the store's part in a move of slots. The store outlives it.
  std::unique_ptr<SlotTransfer> NewSlotTransfer();

  // --- Clients

  /// Begins to keep the completion records of this client's writes across restarts, and deletes those of
  /// the clients `forgotten` (store/durable/completion_records.h, R1 and R3). Does nothing without a durable
  /// tier. With a group sink, it does not wait for the followers: they have the client before its first write
  /// ends. Unavailable: the tier failed; whether it has the client is unknown. FailedPrecondition: the store
  /// follows a primary.
  absl::Status RegisterClient(std::uint64_t client, std::span<const std::uint64_t> forgotten);
  /// Returns the completion records that the store had when it was opened, or promoted, by clients. Call it
  /// once: it moves them out.
  std::vector<ClientCompletions> TakeCompletions();

  /// Begin a scan of a range, a deletion, and a watch of a range from a position on. Outcomes as for
  /// Store::Scan, Store::BeginDeleteRange and Store::Watch. Scan and deletion also end with Aborted if much
  /// of the commit log is to be applied to RocksDB first: the caller does not wait for that, and asks again.
  using Store::Scan;
  using Store::Watch;
  absl::StatusOr<std::unique_ptr<RangeDeletion>> BeginDeleteRangeWithoutWaiting(const RangeOptions& options);
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(ScanRange range, std::uint64_t limit, bool keys_only);
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const ScanRange& range, const ChangePosition& position);

  const Superblock& superblock() const;
  const Clock& clock() const;

  /// Adds to a metric, or reads one; some metrics are for the program around the store, as for the server
  /// (Metric). Memory order: relaxed.
  void Add(Metric metric, std::int64_t delta);
  std::uint64_t Read(Metric metric) const;
  /// Returns the values of all places of the registry (store/format/memory/metric_registry.h).
  std::vector<std::uint64_t> ReadMetrics() const;
  /// Counts a time in a histogram. One thread at a time does it for each histogram.
  void Record(Metric histogram, Duration took);
  /// Returns the use of each segment of the region. It takes no lock, so each was right at some moment of the
  /// call.
  std::vector<MappedSegment> SegmentMap() const;

 private:
  explicit ServerStore(std::unique_ptr<StoreEngine> engine);
};

}  // namespace remora
