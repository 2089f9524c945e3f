#include "store/store.h"

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/region/atomic_word.h"

namespace remora {
namespace {

absl::Status CheckOptions(const StoreOptions& options) {
  if (options.grace < std::chrono::milliseconds(kMinGraceMs) || options.grace > std::chrono::seconds(60)) {
    return absl::InvalidArgumentError(absl::StrCat("a grace period of ", options.grace.count(),
                                                   " ms; allowed are ", kMinGraceMs, " to 60000"));
  }
  if (!IsTtl(options.default_ttl) || IsExpiry(options.default_ttl)) {
    return absl::InvalidArgumentError(absl::StrCat("a default ttl of ", options.default_ttl.count(),
                                                   " ms; allowed are 1 to ", kMaxTtl.count(),
                                                   ", and for ever"));
  }
  switch (options.durability) {
    case Durability::kMemory:
      if (options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError("a store that is only in memory takes no data directory");
    case Durability::kLogged:
    case Durability::kSynced:
      if (!options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError("a logged or synced store needs a data directory");
  }
  return absl::InvalidArgumentError("no such durability");
}

Evictor::Mode ModeOf(const StoreOptions& options) {
  if (options.eviction == Eviction::kNone) return Evictor::Mode::kOff;
  return options.durability == Durability::kMemory ? Evictor::Mode::kDrop : Evictor::Mode::kChill;
}

Write PutOf(std::string_view key, std::string_view value, const PutOptions& options) {
  Write write;
  write.kind = Write::Kind::kPut;
  write.key = key;
  write.value = value;
  write.ttl = options.ttl;
  write.condition = options.condition;
  write.durability = options.durability;
  return write;
}

const Clock& MachineClock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace

// --- Opening --------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Open(options, std::nullopt));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options, std::span<std::byte> region) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Open(options, region));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Store::Impl>> Store::Impl::Open(const StoreOptions& options,
                                                               std::optional<std::span<std::byte>> region) {
  REMORA_RETURN_IF_ERROR(CheckOptions(options));
  REMORA_RETURN_IF_ERROR(OccupyStandardStreams());
  REMORA_ASSIGN_OR_RETURN(const std::size_t size, RegionSize(options.memory_size));
  std::unique_ptr<AnonymousMemory> own_memory;
  if (!region) {
    REMORA_ASSIGN_OR_RETURN(own_memory, AnonymousMemory::Map(size));
    region = own_memory->bytes();
  }
  if (region->size() != size) {
    return absl::InvalidArgumentError("the region is not of the size that RegionSize gives");
  }
  std::unique_ptr<DurableTier> tier;
  if (options.durability != Durability::kMemory) {
    const LogRetention retention{options.watch_retention_bytes, options.watch_retention};
    REMORA_ASSIGN_OR_RETURN(tier, DurableTier::Open(options.data_dir, {.log_retention = retention,
                                                                       .descriptors = options.descriptors}));
  }
  const Clock& clock = options.clock != nullptr ? *options.clock : MachineClock();
  std::unique_ptr<Impl> impl(new Impl(options, clock, std::move(own_memory), *region, std::move(tier)));
  REMORA_RETURN_IF_ERROR(impl->Start(options));
  return impl;
}

Store::Impl::Impl(const StoreOptions& options, const Clock& clock,
                  std::unique_ptr<AnonymousMemory> own_memory, std::span<std::byte> region,
                  std::unique_ptr<DurableTier> tier)
    : core_(options, clock, std::move(own_memory), region, std::move(tier)),
      default_ttl_(options.default_ttl),
      durability_(options.durability),
      on_synced_(options.on_synced),
      sweeper_(core_.segments, core_.log, core_.index, core_.tier.get(), core_.unsynced_keys),
      cold_sweep_(core_.tier.get(), core_.index, sweeper_, core_.coverage, core_.unsynced_keys),
      evictor_(ModeOf(options), core_.segments, core_.log, core_.index, cold_sweep_, core_.frequency),
      cleaner_(core_.segments, core_.log, core_.index, sweeper_, evictor_) {}

Store::Impl::~Impl() {
  StopSyncing();
  StopLoading();
}

absl::Status Store::Impl::Start(const StoreOptions& options) {
  core_.metrics.Set(Counter::kMemoryBytes, core_.shape.memory_size);
  if (core_.tier != nullptr) {
    core_.next_version = core_.tier->version_limit();
    core_.metrics.Set(Counter::kLogTorn, core_.tier->log_was_torn() ? 1 : 0);
    REMORA_ASSIGN_OR_RETURN(remembered_, core_.tier->Clients());
    REMORA_RETURN_IF_ERROR(core_.tier->Begin(core_.shape.incarnation));
    syncs_in_steps_ = options.syncing == Syncing::kInSteps;
    SetChangesEnd();
  }
  core_.metrics.Set(Counter::kLastVersion, core_.next_version - 1);
  SetSizeCounters();
  if (core_.tier != nullptr) {
    REMORA_RETURN_IF_ERROR(StartSyncing(options));
    return StartLoad(options);
  }
  core_.BeginToServe();
  return absl::OkStatus();
}

absl::Status Store::Impl::load_status() const {
  return load_.failed.load(std::memory_order_acquire) ? load_.status : absl::OkStatus();
}

absl::Status Store::Impl::disk_status() const {
  const std::lock_guard lock(core_.mutex);
  return disk_status_;
}

absl::Status Store::Impl::Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  if (core_.tier == nullptr) return absl::OkStatus();
  const std::lock_guard lock(core_.mutex);
  for (const std::uint64_t other : forgotten) core_.tier->DeleteClient(other);
  core_.tier->PutClient(client, core_.clock.UnixMillis());
  return core_.tier->Write();
}

void Store::Impl::SetSizeCounters() {
  core_.metrics.Set(Counter::kKeys, core_.index.entry_count());
  core_.metrics.Set(Counter::kColdKeys, core_.index.cold_count());
  core_.metrics.Set(Counter::kEvictions, evictor_.evictions());
  core_.metrics.Set(Counter::kFetches, fetches_);
  core_.metrics.Set(Counter::kExpired, sweeper_.removed());
  core_.metrics.Set(Counter::kIndexBytes, core_.index.segment_count() * kSegmentSize);
  core_.metrics.Set(Counter::kIndexBuckets, core_.index.bucket_count());
  core_.metrics.Set(Counter::kOverflowBuckets, core_.index.overflow_count());
  core_.metrics.Set(Counter::kMemoryBytesFree, core_.segments.free_count() * kSegmentSize);
  core_.metrics.Set(Counter::kLogBytesUsed, core_.log.bytes_used());
  core_.metrics.Set(Counter::kLogBytesDead, core_.log.bytes_dead());
  core_.metrics.Set(Counter::kSegmentsCleaned, cleaner_.segments_cleaned());
  core_.metrics.Set(Counter::kBytesMoved, core_.log.bytes_appended(ValueLog::Head::kMoves));
  core_.metrics.Set(Counter::kBytesWritten,
                    core_.log.bytes_appended(ValueLog::Head::kWrites) + core_.log.large_bytes_appended());
}

void Store::Impl::CommitNow(std::span<Write> writes) {
  for (;;) {
    Commit(writes);
    // All behind one that is Aborted are so, too.
    while (!writes.empty() && !absl::IsAborted(writes.front().status)) writes = writes.subspan(1);
    if (writes.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::Status Store::Impl::CommitNow(std::span<Write> writes, std::uint64_t* version) {
  CommitNow(writes);
  if (writes.front().status.ok() && version != nullptr) *version = writes.front().version;
  return writes.front().status;
}

// --- The public face ------------------------------------------------------------------------------------

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

absl::StatusOr<std::string> Store::Get(std::string_view key) const {
  std::string value;
  REMORA_RETURN_IF_ERROR(impl_->Get(key, &value, nullptr));
  return value;
}

absl::Status Store::Get(std::string_view key, std::string* value, std::uint64_t* version) const {
  return impl_->Get(key, value, version);
}

absl::Status Store::MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) const {
  if (keys.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat(keys.size(), " keys, but ", results.size(), " results"));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    results[i].status = impl_->Get(keys[i], &results[i].value, &results[i].version);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Store::Exists(std::string_view key) const {
  const absl::Status status = impl_->Exists(key);
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> Store::Ttl(std::string_view key) const {
  return impl_->Ttl(key);
}

absl::Status Store::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  Write write = PutOf(key, value, options);
  return impl_->CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results) {
  if (requests.size() != results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(requests.size(), " requests, but ", results.size(), " results"));
  }
  std::vector<Write> writes;
  writes.reserve(requests.size());
  for (const PutRequest& put : requests) writes.push_back(PutOf(put.key, put.value, put.options));
  impl_->CommitNow(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    results[i] = {std::move(writes[i].status), writes[i].version};
    if (results[i].status.ok() && requests[i].options.version != nullptr) {
      *requests[i].options.version = results[i].version;
    }
  }
  return absl::OkStatus();
}

absl::Status Store::Delete(std::string_view key, const WriteOptions& options) {
  Write write;
  write.kind = Write::Kind::kDelete;
  write.key = key;
  write.condition = options.condition;
  write.durability = options.durability;
  return impl_->CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options) {
  Write write;
  write.kind = Write::Kind::kTouch;
  write.key = key;
  write.ttl = ttl;
  write.condition = options.condition;
  write.durability = options.durability;
  return impl_->CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::Persist(std::string_view key, const WriteOptions& options) {
  return Touch(key, kNeverExpires, options);
}

absl::StatusOr<std::int64_t> Store::Increment(std::string_view key, std::int64_t delta,
                                              const PutOptions& options) {
  Write write;
  write.kind = Write::Kind::kIncrement;
  write.key = key;
  write.value = {reinterpret_cast<const char*>(&delta), sizeof(delta)};
  write.ttl = options.ttl;
  write.condition = options.condition;
  write.durability = options.durability;
  REMORA_RETURN_IF_ERROR(impl_->CommitNow(std::span(&write, 1), options.version));
  return write.result;
}

absl::StatusOr<std::size_t> Store::Append(std::string_view key, std::string_view bytes,
                                          const PutOptions& options) {
  Write write = PutOf(key, bytes, options);
  write.kind = Write::Kind::kAppend;
  REMORA_RETURN_IF_ERROR(impl_->CommitNow(std::span(&write, 1), options.version));
  return static_cast<std::size_t>(write.result);
}

Write& AddWrite(const BatchWrite& write, std::vector<Write>* writes) {
  Write& added = writes->emplace_back();
  added.kind = write.entry.kind == BatchKind::kPut ? Write::Kind::kPut : Write::Kind::kDelete;
  added.key = write.key;
  added.value = write.value;
  added.ttl = DecodeTtl(write.entry.ttl_ms);
  added.condition = Condition::Decode(write.entry.condition);
  return added;
}

absl::Status Store::Apply(const WriteBatch& batch, std::uint64_t* version,
                          std::optional<Durability> durability) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  if (batch.count() == 0) return absl::OkStatus();
  std::vector<Write> writes;
  std::string_view bytes = batch.bytes();
  while (!bytes.empty()) AddWrite(TakeBatchWrite(&bytes).value(), &writes).with_next = true;
  writes.back().with_next = false;
  writes.front().durability = durability;
  writes.front().begins_batch = true;
  return impl_->CommitNow(writes, version);
}

void Store::Commit(std::span<Write> writes) { impl_->Commit(writes); }
void Store::Submit(std::span<Write> writes) { impl_->Submit(writes); }
void Store::Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  impl_->Submit(writes, now, unix_ms);
}
void Store::CatchUp() { impl_->CatchUp(); }
void Store::TakeSynced(std::vector<SyncedWrite>* outcomes) { impl_->TakeSynced(outcomes); }
bool Store::Sync() { return impl_->Sync(); }
bool Store::Work() { return impl_->Work(); }
bool Store::Load() { return impl_->LoadStep(); }
bool Store::loading() const { return impl_->core().is_loading(); }
Duration Store::load_time() const { return impl_->load_time(); }
absl::Status Store::load_status() const { return impl_->load_status(); }
absl::Status Store::disk_status() const { return impl_->disk_status(); }
std::optional<TimePoint> Store::next_work() const { return impl_->next_work(); }
absl::StatusOr<Reservation> Store::Reserve(std::size_t key_size, std::size_t value_size) {
  return impl_->Reserve(key_size, value_size);
}
void Store::GiveBack(const Reservation& reservation) { impl_->GiveBack(reservation); }
absl::StatusOr<Location> Store::Locate(std::string_view key) { return impl_->Locate(key); }
bool Store::wants_reads() const { return impl_->core().wants_reads(); }
void Store::NoteRead(std::uint64_t key_hash) { impl_->core().NoteRead(key_hash); }
absl::Status Store::Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  return impl_->Remember(client, forgotten);
}
std::vector<RememberedClient> Store::TakeRemembered() { return impl_->TakeRemembered(); }
const Superblock& Store::superblock() const { return impl_->core().superblock; }
const Clock& Store::clock() const { return impl_->core().clock; }
void Store::Add(Counter counter, std::int64_t delta) { impl_->core().metrics.Add(counter, delta); }
std::vector<std::pair<std::string, std::uint64_t>> Store::Stats() const {
  return impl_->core().metrics.ReadAll();
}
std::uint64_t Store::Read(Counter counter) const { return impl_->core().metrics.Read(counter); }

}  // namespace remora
