#include "store/write/write_pipeline.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/format/wire/write_batch.h"

namespace remora {
namespace {

// The store reserves versions on disk in blocks. After a restart it continues behind the block, so no version
// comes twice.
constexpr std::uint64_t kVersionBlock = std::uint64_t{1} << 20;

// Bytes of values in one group, unless its first write or batch alone has more. The durable tier holds a copy
// of all of them.
constexpr std::size_t kMaxGroupBytes = kMaxValueSize;

// Returns the number of writes of the next group. It splits no batch.
std::size_t GroupSize(std::span<const Write> writes) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < writes.size()) {
    const std::size_t some = BatchSize(writes.subspan(count));
    for (const Write& write : writes.subspan(count, some)) {
      // The value that an append makes may be that large.
      bytes += write.kind == Write::Kind::kAppend ? kMaxSmallValueSize : ValueSize(write);
    }
    if (count > 0 && (count + some > kMaxGroup || bytes > kMaxGroupBytes)) break;
    count += some;
  }
  return count;
}
static_assert(kMaxBatchWrites <= kMaxGroup);

absl::Status FollowsError() {
  return absl::FailedPreconditionError(
      "write: the store follows a primary, which takes all writes; write there, or promote this store");
}

}  // namespace

WritePipeline::WritePipeline(StoreCore& core, SpaceManager& space, Maintenance& maintenance, SyncQueue& queue,
                             const LargeRecords& large, const StoreOptions& options)
    : core_(core),
      space_(space),
      maintenance_(maintenance),
      queue_(queue),
      large_(large),
      prefetcher_(core, large),
      fast_path_(core, maintenance, prefetcher_, options),
      stage_(core, maintenance, large, options) {}

// --- Entry points

void WritePipeline::Submit(std::span<Write> writes) {
  const std::uint64_t hash = prefetcher_.PrefetchOne(writes);
  WriterLock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  SubmitLocked(writes, hash, now, core_.clock.UnixMillisAt(now));
  maintenance_.PayAllDebt();
  queue_.NotifyWaiters(lock);
}

void WritePipeline::Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  WriterLock lock(core_.mutex);
  // Reads the key only after it took the lock. The server thread that calls has prefetched the key, which
  // arrives from the client's CPU meanwhile.
  const std::uint64_t hash = prefetcher_.PrefetchOne(writes);
  SubmitLocked(writes, hash, now, unix_ms);
  queue_.NotifyWaiters(lock);
}

void WritePipeline::BeginReads(std::span<const Write> writes,
                               std::vector<std::unique_ptr<ColdRead>>* reads) const {
  const WriterLock lock(core_.mutex);
  stage_.BeginReads(writes, reads);
}

bool WritePipeline::Sync() {
  WriterLock lock(core_.mutex);
  return SyncPending(lock);
}

void WritePipeline::Commit(std::span<Write> writes) {
  SyncWaiter waiter;
  const std::uint64_t hash = prefetcher_.PrefetchOne(writes);
  {
    WriterLock lock(core_.mutex);
    const TimePoint now = core_.clock.Now();
    queue_.SetWaiter(&waiter);
    SubmitLocked(writes, hash, now, core_.clock.UnixMillisAt(now));
    queue_.SetWaiter(nullptr);
    maintenance_.PayAllDebt();
    const bool waits = waiter.pending > 0;
    queue_.NotifyWaiters(lock);
    if (!waits) return;
    // Once the disk has the writes, others bring what they still wait for: the acknowledgements of followers.
    while (!queue_.has_thread() && waiter.pending > 0 && (SyncPending(lock) || !core_.ships)) {
    }
  }
  waiter.Wait();
}

void WritePipeline::CommitNow(std::span<Write> writes) {
  for (;;) {
    Commit(writes);
    // All writes behind one that is Aborted are Aborted, too.
    while (!writes.empty() && !absl::IsAborted(writes.front().status)) writes = writes.subspan(1);
    if (writes.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::Status WritePipeline::CommitNow(std::span<Write> writes, std::uint64_t* version) {
  CommitNow(writes);
  if (writes.front().status.ok() && version != nullptr) *version = writes.front().version;
  return writes.front().status;
}

// --- Groups

void WritePipeline::SubmitLocked(std::span<Write> writes, std::uint64_t prefetched, TimePoint now,
                                 std::int64_t unix_ms) {
  if (!core_.disk.sync_failure().ok() || core_.is_following()) [[unlikely]] {
    large_.Release(writes);
    maintenance_.SetSizeCounters();
    for (Write& write : writes) {
      write.status = core_.is_following() ? FollowsError() : core_.disk.sync_failure();
    }
    return;
  }
  if (writes.size() == 1) core_.index.PrefetchRecords(prefetched);
  if (!queue_.empty()) PublishSynced(now, unix_ms);
  put_off_.clear();
  while (!writes.empty()) {
    if (maintenance_.DebtIsUrgent()) maintenance_.PayDebt(now, unix_ms);  // of earlier groups, of any caller
    if (IsForFastPath(writes)) {
      const std::size_t done = fast_path_.TryPuts(writes, now, unix_ms);
      writes = writes.subspan(done);
      if (done > 0) continue;
    }
    const std::size_t some = writes.size() == 1 ? 1 : GroupSize(writes);
    const std::size_t done = CommitGroup(writes.first(some), now, unix_ms);
    writes = writes.subspan(done);
    if (done == some) continue;
    maintenance_.NoteSizes();
    SpaceResult space = MakeSpaceFor(writes.front(), now, unix_ms);
    // The records of pending writes stay where they are. There is space once these are published.
    if (space == SpaceResult::kFull && core_.ships && !queue_.empty()) space = SpaceResult::kRetryLater;
    if (space == SpaceResult::kAvailable) continue;
    if (space == SpaceResult::kRetryLater) {
      for (Write& write : writes) {
        write.status = absl::AbortedError(
            "write: no space until the grace period of retired memory ends; try again later");
      }
      core_.metrics.Add(Metric::kWritesPutOff, 1);
      break;
    }
    const std::size_t run = large_.RunOf(writes.front());
    const absl::Status never = run > 0 ? space_.NoRunError(run) : space_.FullError();
    const std::size_t rejected = BatchSize(writes);
    large_.Release(writes.first(rejected));
    for (Write& write : writes.first(rejected)) write.status = never;
    writes = writes.subspan(rejected);
  }
  space_.StartGracePeriod();
  maintenance_.AddDebt(now, unix_ms);
}

bool WritePipeline::IsForFastPath(std::span<const Write> writes) {
  if (core_.tier == nullptr) return true;
  if (!core_.tier->has_commit_log() || writes.size() != 1 || !queue_.empty() || core_.is_loading() ||
      !put_off_.empty() || core_.ships) {
    return false;
  }
  space_.expirer().Flush();  // as CommitGroup does
  return true;
}

std::size_t WritePipeline::CommitGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  space_.expirer().Flush();  // so that the tier shows no record that was removed to make space
  const std::uint64_t keys = core_.index.entry_count();
  const std::uint64_t written = core_.log.bytes_appended(ValueLog::Head::kWrites);
  group_is_on_disk_ = false;
  const std::size_t done = StageGroup(writes, now, unix_ms);
  if (stage_.staged().empty()) {
    EnqueueRejections();
    return done;
  }
  SealAll();
  if (core_.tier != nullptr) {
    logged_before_ = core_.tier->logged_to();
    const absl::Status durable = MakeDurable(now);
    if (!durable.ok()) {
      Abandon(durable);
      EnqueueRejections();
      return done;
    }
  }
  PublishOrEnqueue(now);
  EnqueueRejections();
  if (group_is_on_disk_) {  // and so are all writes that were pending before it
    queue_.MarkAllSynced();
    PublishSynced(now, unix_ms);
  }
  if (core_.keeps_changes()) queue_.UpdateChangesEnd();
  maintenance_.AddGroup(done, keys, written);
  return done;
}

std::size_t WritePipeline::StageGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  stage_.Begin(writes.size());
  for (const SyncQueue::PendingWrite& pending : queue_.pending()) {  // S5
    if (!pending.is_rejected && !pending.staged.is_delete()) stage_.AddPendingKey(pending.staged.key_hash);
  }
  std::size_t done = 0;
  std::size_t prefetched = 0;
  while (done < writes.size()) {
    const bool is_group = writes.size() > 1;
    if (is_group && done >= prefetched) prefetched = done + prefetcher_.PrefetchSome(writes.subspan(done));
    Write& first = writes[done];
    const std::size_t some = StageNext(writes.subspan(done), now, unix_ms);
    const std::span<Write> batch = writes.subspan(done, some);
    const bool is_put_off = absl::IsAborted(first.status);
    if (is_put_off) {
      if (std::ranges::any_of(batch, &Write::needs_read)) {
        put_off_.push_back(first.sender);
      } else if (!IsBehindRead(first)) {
        break;
      }
    }
    // A batch of checks alone has no write that would wait.
    const bool has_write = first.status.ok() && first.kind != Write::Kind::kCheck;
    if (!has_write && !is_put_off && stage_.decided_on_pending()) rejected_.push_back(&first);
    for (Write& write : batch.subspan(1)) write.status = first.status;
    done += some;
  }
  return done;
}

std::size_t WritePipeline::StageNext(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  Write& first = writes.front();
  const std::size_t some = BatchSize(writes);
  if (!put_off_.empty() && IsBehindRead(first)) {  // D8
    first.status =
        absl::AbortedError("write: an earlier write of the same sender waits for the disk; try again");
  } else if (some == 1 && !first.begins_batch && first.kind != Write::Kind::kCheck) {
    first.status = stage_.Stage(first, now, unix_ms);
  } else {
    first.status = stage_.StageBatch(writes.first(some), now, unix_ms);
  }
  return some;
}

bool WritePipeline::IsBehindRead(const Write& write) const {
  return write.sender != nullptr && std::ranges::find(put_off_, write.sender) != put_off_.end();
}

// A large record may lack a run. Or it has its run, and the index has no space for its key.
SpaceResult WritePipeline::MakeSpaceFor(const Write& write, TimePoint now, std::int64_t unix_ms) {
  space_.ReleaseRetired(now);
  const SpaceResult result = space_.MakeSpace(now, unix_ms);
  const std::size_t run = large_.RunOf(write);
  return result != SpaceResult::kAvailable || run == 0 ? result : space_.MakeRun(run, now, unix_ms);
}

// --- SealAll, MakeDurable -------------------------------------------------------------------------------

void WritePipeline::SealAll() {
  for (const StagedWrite& staged : stage_.staged()) {
    REMORA_CHECK(staged.version == core_.next_version);
    ++core_.next_version;
    if (staged.is_delete()) continue;
    core_.log.Seal(staged.place, staged.version, staged.expiry_ms, staged.key_hash, staged.value_hash);
  }
  REMORA_CHECK(core_.next_version < kMaxVersion);
}

absl::Status WritePipeline::MakeDurable(TimePoint now) {
  REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());
  for (const StagedWrite& staged : stage_.staged()) {
    if (staged.is_delete()) {
      core_.tier->Delete(staged.key, staged.version);
    } else {
      core_.tier->Put(staged.key, {.version = staged.version, .expiry_ms = staged.expiry_ms}, staged.value);
    }
    const Write& write = *staged.write;
    if (write.request.client != 0) core_.tier->PutCompletion(write.request, staged.version, write.result);
  }
  const bool logged = std::ranges::any_of(stage_.staged(), [&](const StagedWrite& staged) {
    return stage_.LevelOf(*staged.write) != Durability::kMemory;
  });
  const bool raises = core_.next_version > core_.tier->version_limit();
  if (raises) core_.tier->SetVersionLimit(core_.next_version + kVersionBlock);
  // With a commit log, the applier writes to RocksDB (WatchLog).
  const bool is_timed = !core_.tier->has_commit_log() && timed_.Takes(now);
  const TimePoint begin = is_timed ? core_.clock.Now() : TimePoint();
  const absl::Status written = core_.NoteTierWrite(
      core_.tier->Write(logged || raises ? DurableTier::Log::kWritten : DurableTier::Log::kSkipped));
  if (is_timed) core_.metrics.Record(Metric::kRocksdbWriteTime, core_.clock.Now() - begin);
  REMORA_RETURN_IF_ERROR(written);
  // A version that a client has seen never comes again, even if the machine fails and loses the write. So a
  // new block of versions is on disk before readers see one of them. S3 in sync_queue.h explains the other
  // case.
  group_is_on_disk_ = raises || (stage_.has_pending() && core_.is_loading());
  return group_is_on_disk_ ? queue_.SyncNow() : absl::OkStatus();
}

// The versions of the group stay used, because the group may be on disk after all.
void WritePipeline::Abandon(const absl::Status& why) {
  const absl::Status status = NotDurableError(why);
  for (auto staged = stage_.staged().rbegin(); staged != stage_.staged().rend(); ++staged) {
    staged->write->status = status;
    core_.NoteFailedKey(staged->key);
    stage_.Rollback(*staged);
  }
}

// --- Publish --------------------------------------------------------------------------------------------

void WritePipeline::Publish(const StagedWrite& staged, TimePoint now) {
  const KnownRecord& old = staged.old;
  const std::optional<Index::Entry> entry =
      old.is_looked_up ? old.entry : core_.index.Find(staged.key, staged.key_hash);
  std::optional<Index::ColdEntry> cold;
  // A record that was in memory may have been evicted while the write waited for the disk.
  if (old.cold || (old.place && !entry)) {
    cold = core_.index.FindCold(staged.key_hash);
    REMORA_CHECK(cold.has_value());  // Decide made sure of it
  }
  // I5: the old record's live bit is cleared before the slot changes. The new record becomes live after that,
  // so that a key has at most one live record at each moment.
  cold ? core_.NoteColdChange(staged.key, old.record, staged.is_delete())
       : core_.NoteChange(staged.key, entry, staged.is_delete());
  core_.slots.NoteWrite(staged.key, staged.key_hash);  // O6 of owned_slots.h
  if (entry) core_.log.Kill(entry->place);
  if (!entry)
    core_.coverage.AddKey(staged.key);  // a load may reach it later (store/recovery/index_loader.h, L2)

  if (staged.is_delete()) {
    REMORA_CHECK(entry.has_value() || cold.has_value() || core_.is_loading());  // Decide made sure of it
    if (entry) {
      core_.index.Erase(staged.key_hash, *entry);
    } else if (cold) {
      core_.index.EraseCold(*cold);
    }
    core_.FinishRemove();
    core_.NoteVisibleDelete(staged.key);
    core_.metrics.CountOne(Metric::kDeletes);
  } else {
    core_.log.MakeLive(staged.place);
    if (entry) {
      core_.index.Replace(*entry, staged.place);
    } else if (cold) {
      core_.index.MarkHot(staged.key_hash, *cold, staged.place, now);
    } else {
      core_.index.Insert(staged.key_hash, staged.place, now);
    }
    core_.NoteVisiblePut(staged.key, staged.value, staged.version, staged.expiry_ms);
    core_.NoteRead(staged.key_hash);  // eviction counts a write as a use
    core_.metrics.CountOne(staged.write->kind == Write::Kind::kTouch ? Metric::kTouches : Metric::kPuts);
    staged.write->slot =
        EncodeSlot({Fingerprint(staged.key_hash), staged.place.extent_code, staged.place.offset_units});
  }
  staged.write->version = staged.version;
  last_visible_ = std::max(last_visible_, staged.version);
}

// --- Writes that wait for the disk

void WritePipeline::PublishOrEnqueue(TimePoint now) {
  for (StagedWrite& staged : stage_.staged()) {
    if (staged.pending) {
      if (staged.old.cold && core_.ordered != nullptr) {
        core_.ordered->Hold(staged.key, staged.old.record);  // V6
      }
      queue_.Enqueue(staged, logged_before_);
    } else {
      Publish(staged, now);
      if (staged.pinned) core_.log.Unpin(staged.place, now);
    }
  }
}

void WritePipeline::EnqueueRejections() {
  if (rejected_.empty()) return;
  for (Write* const write : std::exchange(rejected_, {})) queue_.EnqueueRejection(*write, logged_before_);
  queue_.UpdateChangesEnd();
}

bool WritePipeline::MakeSpaceForPending(std::size_t batch, TimePoint now, std::int64_t unix_ms) {
  for (;;) {
    pending_growth_.clear();
    bool fits = true;
    for (std::size_t i = 0; i < batch && fits; ++i) {
      const StagedWrite& staged = queue_.pending()[i].staged;
      if (staged.is_delete() || core_.index.Find(staged.key, staged.key_hash)) continue;
      const std::size_t more = ++pending_growth_[core_.index.MainBucketOf(staged.key_hash)];
      fits = core_.index.Reserve(staged.key_hash, more);
    }
    if (fits) return true;
    if (space_.MakeSpace(now, unix_ms) != SpaceResult::kAvailable) return false;
  }
}

void WritePipeline::PublishSynced(TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t keys = core_.index.entry_count();
  bool ended = false;
  const absl::Status& failure = core_.disk.sync_failure();
  while (queue_.front_is_due()) {
    ended = true;
    if (queue_.front().is_rejected) {
      queue_.PopRejection();
      continue;
    }
    const std::size_t batch = queue_.FrontBatchSize();
    if (failure.ok() && !MakeSpaceForPending(batch, now, unix_ms)) break;
    for (std::size_t i = 0; i < batch; ++i) {
      SyncQueue::PendingWrite& pending = queue_.front();
      pending.write.status = failure;
      if (!failure.ok()) {
        stage_.Rollback(pending.staged);
      } else {
        Publish(pending.staged, now);
        core_.unsynced_keys.Remove(pending.staged.key, pending.ticket);
        if (pending.staged.pinned) core_.log.Unpin(pending.staged.place, now);
        if (pending.staged.synced) core_.metrics.Add(Metric::kSyncedWrites, 1);
      }
      queue_.PopFront(/*tells=*/i == 0);
    }
  }
  if (!ended) return;
  queue_.UpdateChangesEnd();
  if (core_.index.entry_count() > keys) core_.index.Grow(core_.index.entry_count() - keys, now);
}

absl::Status WritePipeline::PublishAll() {
  if (queue_.empty()) return core_.disk.sync_failure();
  queue_.SyncAll();
  PublishSynced(core_.clock.Now(), core_.clock.UnixMillis());
  maintenance_.Finish();
  if (queue_.waits_for_followers()) {
    return absl::AbortedError("publish: writes wait for the acknowledgement of followers; try again later");
  }
  if (!queue_.empty()) {
    return absl::AbortedError(
        "publish: synced writes wait for space in memory; try again later, or open with more memory "
        "(--memory)");
  }
  return core_.disk.sync_failure();
}

absl::Status WritePipeline::PublishInOrder() {
  const auto is_write = [](const SyncQueue::PendingWrite& pending) { return !pending.is_rejected; };
  const auto first = std::ranges::find_if(queue_.pending(), is_write);
  const bool is_in_order = first == queue_.pending().end() || first->staged.version > last_visible_;
  return is_in_order ? core_.disk.sync_failure() : PublishAll();
}

bool WritePipeline::SyncPending(WriterLock& lock) {
  if (!queue_.SyncUnlocked(lock)) return false;
  PublishSynced(core_.clock.Now(), core_.clock.UnixMillis());
  maintenance_.Finish();
  queue_.NotifyWaiters(lock);
  return true;
}

}  // namespace remora
