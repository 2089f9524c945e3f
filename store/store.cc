#include "store/store.h"

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/atomic_word.h"
#include "store/base/absl_view.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"
#include "store/store_impl.h"

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

std::uint64_t RandomIncarnation() {
  std::random_device device;
  std::uint64_t number = 0;
  while (number == 0) number = std::uint64_t{device()} << 32 | device();
  return number;
}

/// Nobody else sees the memory yet.
Superblock& MakeSuperblock(const StoreOptions& options, std::span<std::byte> region) {
  auto& superblock = *reinterpret_cast<Superblock*>(region.data());
  superblock.magic = kSuperblockMagic;
  superblock.format_version = kFormatVersion;
  superblock.grace_ms = static_cast<std::uint32_t>(options.grace.count());
  superblock.layout_signature = LayoutSignature();
  superblock.incarnation = options.incarnation != 0 ? options.incarnation : RandomIncarnation();
  superblock.memory_size = region.size();
  return superblock;
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
    REMORA_ASSIGN_OR_RETURN(
        tier, DurableTier::Open(options.data_dir, {.block_cache_bytes = options.write_buffer_bytes / 2,
                                                   .write_buffer_bytes = options.write_buffer_bytes,
                                                   .log_retention = retention,
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
    : memory_size_(options.memory_size),
      clock_(clock),
      grace_(options.grace),
      default_ttl_(options.default_ttl),
      durability_(options.durability),
      on_synced_(options.on_synced),
      own_memory_(std::move(own_memory)),
      superblock_(MakeSuperblock(options, region)),
      shape_(ShapeOf(superblock_)),
      segments_(region, Duration::zero(), options.on_reach),
      log_(region, segments_, shape_.incarnation),
      index_(region, segments_, log_, Duration::zero()),
      frequency_(options.eviction == Eviction::kNone ? 0 : region.size()),
      tier_(std::move(tier)),
      sweeper_(segments_, log_, index_, tier_.get(), unsynced_keys_),
      cold_sweep_(tier_.get(), index_, sweeper_, known_, unsynced_keys_),
      evictor_(ModeOf(options), segments_, log_, index_, cold_sweep_, frequency_),
      cleaner_(segments_, log_, index_, sweeper_, evictor_) {}

Store::Impl::~Impl() {
  StopSyncing();
  StopLoading();
}

absl::Status Store::Impl::Start(const StoreOptions& options) {
  Set(Counter::kMemoryBytes, shape_.memory_size);
  if (tier_ != nullptr) {
    next_version_ = tier_->version_limit();
    Set(Counter::kLogTorn, tier_->log_was_torn() ? 1 : 0);
    REMORA_ASSIGN_OR_RETURN(remembered_, tier_->Clients());
    REMORA_RETURN_IF_ERROR(tier_->Begin(shape_.incarnation));
    syncs_in_steps_ = options.syncing == Syncing::kInSteps;
    SetChangesEnd();
  }
  Set(Counter::kLastVersion, next_version_ - 1);
  SetSizeCounters();
  if (tier_ != nullptr) {
    REMORA_RETURN_IF_ERROR(StartSyncing(options));
    return StartLoad(options);
  }
  BeginToServe();
  return absl::OkStatus();
}

void Store::Impl::BeginToServe() {
  shape_ = ShapeOf(superblock_);  // with what the index began as
  segments_.set_rest(2 * grace_);
  index_.set_rest(2 * grace_);
}

absl::Status Store::Impl::load_status() const {
  return load_.failed.load(std::memory_order_acquire) ? load_.status : absl::OkStatus();
}

absl::Status Store::Impl::disk_status() const {
  const std::lock_guard lock(mutex_);
  return disk_status_;
}

absl::Status Store::Impl::Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  if (tier_ == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t other : forgotten) tier_->DeleteClient(other);
  tier_->PutClient(client, clock_.UnixMillis());
  return tier_->Write();
}

// --- Counters -------------------------------------------------------------------------------------------
// Relaxed: each is a number of its own, and nothing is concluded from it about anything else.

void Store::Impl::Add(Counter counter, std::int64_t delta) const {
  std::atomic_ref(superblock_.counters[static_cast<std::size_t>(counter)])
      .fetch_add(static_cast<std::uint64_t>(delta), std::memory_order_relaxed);
}

void Store::Impl::Set(Counter counter, std::uint64_t value) const {
  StoreWord(superblock_.counters[static_cast<std::size_t>(counter)], value, std::memory_order_relaxed);
}

std::uint64_t Store::Impl::Read(Counter counter) const {
  return LoadWord(superblock_.counters[static_cast<std::size_t>(counter)], std::memory_order_relaxed);
}

void Store::Impl::SetSizeCounters() {
  Set(Counter::kKeys, index_.entry_count());
  Set(Counter::kColdKeys, index_.cold_count());
  Set(Counter::kEvictions, evictor_.evictions());
  Set(Counter::kFetches, fetches_);
  Set(Counter::kExpired, sweeper_.removed());
  Set(Counter::kIndexBytes, index_.segment_count() * kSegmentSize);
  Set(Counter::kIndexBuckets, index_.bucket_count());
  Set(Counter::kOverflowBuckets, index_.overflow_count());
  Set(Counter::kMemoryBytesFree, segments_.free_count() * kSegmentSize);
  Set(Counter::kLogBytesUsed, log_.bytes_used());
  Set(Counter::kLogBytesDead, log_.bytes_dead());
  Set(Counter::kSegmentsCleaned, cleaner_.segments_cleaned());
  Set(Counter::kBytesMoved, log_.bytes_appended(ValueLog::Head::kMoves));
  Set(Counter::kBytesWritten, log_.bytes_appended(ValueLog::Head::kWrites) + log_.large_bytes_appended());
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
bool Store::loading() const { return impl_->loading(); }
Duration Store::load_time() const { return impl_->load_time(); }
absl::Status Store::load_status() const { return impl_->load_status(); }
absl::Status Store::disk_status() const { return impl_->disk_status(); }
std::optional<TimePoint> Store::next_work() const { return impl_->next_work(); }
absl::StatusOr<Reservation> Store::Reserve(std::size_t key_size, std::size_t value_size) {
  return impl_->Reserve(key_size, value_size);
}
void Store::GiveBack(const Reservation& reservation) { impl_->GiveBack(reservation); }
absl::StatusOr<Location> Store::Locate(std::string_view key) { return impl_->Locate(key); }
bool Store::wants_reads() const { return impl_->wants_reads(); }
void Store::NoteRead(std::uint64_t key_hash) { impl_->NoteRead(key_hash); }
absl::Status Store::Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  return impl_->Remember(client, forgotten);
}
std::vector<RememberedClient> Store::TakeRemembered() { return impl_->TakeRemembered(); }
const Superblock& Store::superblock() const { return impl_->superblock(); }
const Clock& Store::clock() const { return impl_->clock(); }
void Store::Add(Counter counter, std::int64_t delta) { impl_->Add(counter, delta); }
std::vector<std::pair<std::string, std::uint64_t>> Store::Stats() const {
  std::vector<std::pair<std::string, std::uint64_t>> stats;
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    stats.emplace_back(kCounterNames[i], Read(static_cast<Counter>(i)));
  }
  return stats;
}
std::uint64_t Store::Read(Counter counter) const { return impl_->Read(counter); }

}  // namespace remora
