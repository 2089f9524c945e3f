#include "store/engine/store_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

absl::Status CheckOptions(const StoreOptions& options) {
  if (options.follows && options.commit_log_bytes == 0) {
    return absl::InvalidArgumentError(
        "open: a store that follows a primary needs a commit log; set commit_log_bytes");
  }
  if (options.grace < std::chrono::milliseconds(kMinGraceMs) || options.grace > std::chrono::seconds(60)) {
    return absl::InvalidArgumentError(absl::StrCat("open: a grace period of ", options.grace.count(),
                                                   " ms is out of bounds; give ", kMinGraceMs, " to 60000"));
  }
  if (!IsTtl(options.default_ttl) || IsExpiry(options.default_ttl)) {
    return absl::InvalidArgumentError(absl::StrCat("open: a default TTL of ", options.default_ttl.count(),
                                                   " ms is out of bounds; give 1 to ", kMaxTtl.count(),
                                                   ", or kNeverExpires"));
  }
  switch (options.durability) {
    case Durability::kMemory:
      if (options.commit_log_bytes > 0) {
        return absl::InvalidArgumentError(
            "open: a store that is only in memory has no commit log; set no commit_log_bytes");
      }
      if (options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "open: a store that is only in memory has no data directory; set no data_dir");
    case Durability::kLogged:
    case Durability::kSynced:
      if (!options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "open: a logged or synced store needs a data directory; set data_dir");
  }
  return absl::InvalidArgumentError("open: the durability is unknown; give an enumerator of Durability");
}

/// Checks StoreOptions::change_log_bytes.
absl::Status CheckChangeLog(const StoreOptions& options) {
  const std::uint64_t size = options.change_log_bytes;
  if (size == 0) return absl::OkStatus();
  if (options.durability != Durability::kMemory) {
    return absl::InvalidArgumentError(
        "open: a store with a data directory has its changes in a log there; set no change_log_bytes");
  }
  if (size >= kMinChangeLogBytes && size <= kMaxMemorySize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("open: a change log of ", size, " bytes is out of bounds; ",
                                                 "give ", kMinChangeLogBytes, " to ", kMaxMemorySize,
                                                 ", or 0 for none"));
}

const Clock& MachineClock() {
  static const SteadyClock clock;
  return clock;
}

/// Finds out now and then whether a disk that took no writes takes some. Without it, a store that gets no
/// writes would not notice that there is space again.
void TryDisk(StoreCore& core, TimePoint now) REMORA_WRITER;
void TryDisk(StoreCore& core, TimePoint now) {
  if (core.tier == nullptr || core.is_following()) return;  // a primary repeats its group
  core.disk.PlanTry(now);
  if (!core.disk.next_try() || now < *core.disk.next_try()) return;
  core.disk.NoteTry(core.tier->TryToWrite(), now);
}

}  // namespace

// --- Opening --------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<StoreEngine>> StoreEngine::Open(const StoreOptions& options,
                                                               std::optional<std::span<std::byte>> region) {
  REMORA_RETURN_IF_ERROR(CheckOptions(options));
  REMORA_RETURN_IF_ERROR(CheckChangeLog(options));
  REMORA_RETURN_IF_ERROR(OccupyStandardStreams());
  REMORA_ASSIGN_OR_RETURN(const std::size_t size, RegionSize(options.memory_size));
  std::unique_ptr<AnonymousMemory> own_memory;
  if (!region) {
    REMORA_ASSIGN_OR_RETURN(own_memory, AnonymousMemory::Map(size));
    region = own_memory->bytes();
  }
  if (region->size() != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("open: the region has ", region->size(), " bytes; pass one of RegionSize, ", size));
  }
  std::unique_ptr<DurableTier> tier;
  if (options.durability != Durability::kMemory) {
    const LogRetention retention{options.watch_retention_bytes, options.watch_retention};
    REMORA_ASSIGN_OR_RETURN(
        tier,
        DurableTier::Open(options.data_dir, {.block_cache_bytes = options.write_buffer_bytes / 2,
                                             .write_buffer_bytes = options.write_buffer_bytes,
                                             .log_retention = retention,
                                             .max_open_files = options.max_open_files,
                                             .commit_log_bytes = options.commit_log_bytes,
                                             .shard = options.shard,
                                             .applies_in_steps = options.syncing == Syncing::kInSteps}));
  }
  std::unique_ptr<ChangeRing> changes;
  if (options.change_log_bytes > 0) {
    REMORA_ASSIGN_OR_RETURN(changes, ChangeRing::Create(options.change_log_bytes));
  }
  const Clock& clock = options.clock != nullptr ? *options.clock : MachineClock();
  std::unique_ptr<StoreEngine> engine(
      new StoreEngine(options, clock, std::move(own_memory), *region, std::move(tier), std::move(changes)));
  REMORA_RETURN_IF_ERROR(engine->Start(options));
  return engine;
}

StoreEngine::StoreEngine(const StoreOptions& options, const Clock& clock,
                         std::unique_ptr<AnonymousMemory> own_memory, std::span<std::byte> region,
                         std::unique_ptr<DurableTier> tier, std::unique_ptr<ChangeRing> changes)
    : core_(options, clock, std::move(own_memory), region, std::move(tier), std::move(changes)),
      space_(core_, options),
      maintenance_(core_, space_),
      large_(core_, space_, maintenance_),
      promoter_(core_, space_, maintenance_),
      reader_(core_, promoter_),
      queue_(core_, options.on_synced),
      pipeline_(core_, space_, maintenance_, queue_, large_, options),
      replication_(core_, space_, maintenance_, queue_, pipeline_),
      loader_(core_, space_, maintenance_, large_, promoter_) {}

StoreEngine::~StoreEngine() {
  queue_.Stop();
  loader_.Stop();
}

absl::Status StoreEngine::Start(const StoreOptions& options) {
  core_.metrics.Set(Metric::kMemoryBytes, core_.shape.memory_size);
  {
    const WriterLock lock(core_.mutex);
    if (core_.tier != nullptr) {
      core_.next_version = core_.tier->version_limit();
      core_.metrics.Set(Metric::kLogTorn, core_.tier->log_was_torn() ? 1 : 0);
      REMORA_ASSIGN_OR_RETURN(completions_, core_.tier->Clients());
      REMORA_RETURN_IF_ERROR(core_.tier->Begin(core_.shape.incarnation));
      queue_.UpdateChangesEnd();
    }
    core_.metrics.Set(Metric::kLastVersion, core_.next_version - 1);
    maintenance_.SetSizeCounters();
  }
  if (core_.tier == nullptr) {
    const WriterLock lock(core_.mutex);
    core_.BeginToServe();
    return absl::OkStatus();
  }
  core_.tier->WatchLog([&metrics = core_.metrics](const LogProgress& progress) {
    metrics.Set(Metric::kCommitLogUnapplied, progress.unapplied_bytes);
    metrics.Set(Metric::kCommitLogUnpersisted, progress.unpersisted_bytes);
    metrics.Set(Metric::kCommitLogLag, static_cast<std::uint64_t>(progress.lag.count()));
    metrics.Set(Metric::kCommitLogSlowed, progress.slowed);
    metrics.Set(Metric::kCommitLogSlowedTime, static_cast<std::uint64_t>(progress.slowed_for.count()));
    if (progress.write_time) metrics.Record(Metric::kRocksdbWriteTime, *progress.write_time);
  });
  syncs_in_steps_ = options.syncing == Syncing::kInSteps;
  if (!syncs_in_steps_) {
    REMORA_RETURN_IF_ERROR(
        queue_.Start([this](WriterLock& lock) REMORA_WRITER { return pipeline_.SyncPending(lock); }));
  }
  return loader_.Start(options);
}

// --- Maintenance ----------------------------------------------------------------------------------------

bool StoreEngine::RunMaintenance() {
  WriterLock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  TryDisk(core_, now);
  const std::int64_t unix_ms = core_.clock.UnixMillisAt(now);
  space_.ReleaseRetired(now);
  maintenance_.PayDebt(now, unix_ms);
  pipeline_.PublishSynced(now, unix_ms);
  const bool worked = maintenance_.RunOnce(now, unix_ms);
  maintenance_.FinishAll();
  queue_.NotifyWaiters(lock);
  return worked;
}

void StoreEngine::PayMaintenanceDebt() {
  if (!maintenance_.debt_is_due()) return;
  WriterLock lock(core_.mutex);
  maintenance_.PayAllDebt();
  queue_.NotifyWaiters(lock);
}

std::optional<TimePoint> StoreEngine::NextMaintenance() const {
  const WriterLock lock(core_.mutex);
  std::optional<TimePoint> next = maintenance_.NextDue();
  if (queue_.front_is_due()) {  // the disk has it, but there was no space to publish it
    const TimePoint now = core_.clock.Now();
    next = next ? std::min(*next, now) : now;
  }
  if (const std::optional<TimePoint> attempt = core_.disk.next_try()) {
    next = next ? std::min(*next, *attempt) : *attempt;
  }
  return next;
}

bool StoreEngine::RemoveExpired() { return maintenance_.has_expired() && RunMaintenance(); }

bool StoreEngine::MayHaveExpired() const {
  const std::int64_t unix_ms = core_.clock.UnixMillis();
  return space_.expirer().MayHaveExpired(unix_ms) || space_.cold_expirer().MayHaveExpired(unix_ms);
}

void StoreEngine::BeginToBeWatched() {
  const WriterLock lock(core_.mutex);
  maintenance_.SetWatched();
}

// --- Queries and snapshots ------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> StoreEngine::NewCursor(const ScanRange& range,
                                                                            bool may_wait) {
  if (!core_.tier->PrepareCursor(may_wait)) {
    const WriterLock lock(core_.mutex);
    REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());  // the log is never applied then
    return absl::AbortedError("scan: the commit log is being applied to RocksDB; try again later");
  }
  // Without the lock, the cursor could show a write that no reader sees yet. Without the flush, it could show
  // removed records again if the clock went back.
  WriterLock lock(core_.mutex);
  if (core_.ships) return replication_.NewCursor(range);
  const absl::Status published = pipeline_.PublishAll();
  space_.expirer().Flush();
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (published.ok()) cursor = core_.tier->NewCursor(range);
  queue_.NotifyWaiters(lock);
  REMORA_RETURN_IF_ERROR(published);
  return cursor;
}

absl::StatusOr<std::unique_ptr<OrderedScan>> StoreEngine::NewOrderedScan(const ScanRange& range,
                                                                         bool keys_only) {
  WriterLock lock(core_.mutex);
  const absl::Status published = pipeline_.PublishInOrder();
  auto scan = std::make_unique<OrderedScan>(core_, keys_only);
  if (published.ok()) scan->Open(range);
  queue_.NotifyWaiters(lock);
  REMORA_RETURN_IF_ERROR(published);
  return scan;
}

absl::Status StoreEngine::CheckSync() const {
  const WriterLock lock(core_.mutex);
  return core_.disk.sync_failure();
}

std::uint64_t StoreEngine::VersionsEnd() const {
  const WriterLock lock(core_.mutex);
  return core_.next_version;
}

void StoreEngine::TakeSynced(std::vector<SyncedWrite>* outcomes) {
  const WriterLock lock(core_.mutex);
  queue_.TakeOutcomes(outcomes);
}

absl::Status StoreEngine::CheckEnded(std::uint64_t ticket) const {
  const WriterLock lock(core_.mutex);
  return queue_.CheckEnded(ticket);
}

absl::Status StoreEngine::disk_status() const {
  const WriterLock lock(core_.mutex);
  return core_.disk.status();
}

// Without the lock: Map permits that.
std::vector<MappedSegment> StoreEngine::SegmentMap() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return core_.segments.Map();
}

absl::Status StoreEngine::Promote(GroupSink* sink, std::uint64_t versions_from) {
  REMORA_ASSIGN_OR_RETURN(completions_, replication_.Promote(sink, versions_from));
  return absl::OkStatus();
}

absl::Status StoreEngine::RegisterClient(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  if (core_.tier == nullptr) return absl::OkStatus();
  const WriterLock lock(core_.mutex);
  if (core_.is_following()) {
    return absl::FailedPreconditionError(
        "register client: the store follows a primary; register at the primary");
  }
  for (const std::uint64_t other : forgotten) core_.tier->DeleteClient(other);
  core_.tier->PutClient(client, core_.clock.UnixMillis());
  return core_.tier->Write();
}

}  // namespace remora
