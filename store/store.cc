#include "store/store.h"

#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/atomic_word.h"
#include "store/base/status_macros.h"
#include "store/recovery.h"
#include "store/store_impl.h"

namespace remora {
namespace {

absl::Status CheckOptions(const StoreOptions& options) {
  switch (options.durability) {
    case Durability::kMemory:
      if (options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError("a store that is only in memory takes no data directory");
    case Durability::kLogged:
      if (!options.data_dir.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError("a logged store needs a data directory");
  }
  return absl::InvalidArgumentError("no such durability");
}

absl::Status CheckMemory(const StoreMemory& memory, const StoreLayout& layout) {
  if (memory.superblock.size() != layout.superblock_size || memory.index.size() != layout.index_size ||
      memory.log.size() != layout.log_size) {
    return absl::InvalidArgumentError("the memory's parts are not of the sizes that PlanMemory gives");
  }
  return absl::OkStatus();
}

std::uint64_t RandomIncarnation() {
  std::random_device device;
  std::uint64_t number = 0;
  while (number == 0) number = std::uint64_t{device()} << 32 | device();
  return number;
}

/// Nobody else sees the memory yet.
Superblock& MakeSuperblock(const StoreOptions& options, const StoreMemory& memory) {
  auto& superblock = *reinterpret_cast<Superblock*>(memory.superblock.data());
  const IndexShape shape = PlanIndex(options.memory_size);
  superblock.magic = kSuperblockMagic;
  superblock.format_version = kFormatVersion;
  superblock.layout_signature = LayoutSignature();
  superblock.incarnation = options.incarnation != 0 ? options.incarnation : RandomIncarnation();
  superblock.bucket_count = shape.bucket_count;
  superblock.overflow_count = shape.overflow_count;
  superblock.log_size = memory.log.size();
  return superblock;
}

}  // namespace

// --- Opening --------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Open(options, nullptr));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options, const StoreMemory& memory) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Open(options, &memory));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Store::Impl>> Store::Impl::Open(const StoreOptions& options,
                                                               const StoreMemory* memory) {
  REMORA_RETURN_IF_ERROR(CheckOptions(options));
  REMORA_ASSIGN_OR_RETURN(const StoreLayout layout, PlanMemory(options.memory_size));
  std::unique_ptr<AnonymousMemory> own_memory;
  if (memory == nullptr) {
    REMORA_ASSIGN_OR_RETURN(own_memory, AnonymousMemory::Map(layout));
    memory = &own_memory->parts();
  }
  REMORA_RETURN_IF_ERROR(CheckMemory(*memory, layout));
  std::unique_ptr<DurableTier> tier;
  if (options.durability == Durability::kLogged) {
    REMORA_ASSIGN_OR_RETURN(tier, DurableTier::Open(options.data_dir));
  }
  std::unique_ptr<Impl> impl(new Impl(options, std::move(own_memory), *memory, std::move(tier)));
  REMORA_RETURN_IF_ERROR(impl->Start());
  return impl;
}

Store::Impl::Impl(const StoreOptions& options, std::unique_ptr<AnonymousMemory> own_memory,
                  const StoreMemory& memory, std::unique_ptr<DurableTier> tier)
    : memory_size_(options.memory_size),
      own_memory_(std::move(own_memory)),
      superblock_(MakeSuperblock(options, memory)),
      shape_{superblock_.bucket_count, superblock_.overflow_count, superblock_.log_size,
             superblock_.incarnation},
      log_(memory.log, shape_.incarnation),
      index_(memory.index, {shape_.bucket_count, shape_.overflow_count}, log_),
      tier_(std::move(tier)) {}

absl::Status Store::Impl::Start() {
  if (tier_ != nullptr) {
    REMORA_ASSIGN_OR_RETURN(const std::uint64_t keys, Recover(*tier_, memory_size_, index_, log_));
    next_version_ = tier_->version_limit();
    Set(Counter::kKeys, keys);
  }
  Set(Counter::kIndexBytes, (shape_.bucket_count + shape_.overflow_count) * sizeof(Bucket));
  Set(Counter::kIndexSlots, index_.slot_count());
  Set(Counter::kOverflowBuckets, index_.overflow_count());
  Set(Counter::kLogBytes, log_.bytes());
  Set(Counter::kLastVersion, next_version_ - 1);
  SetSizeCounters();
  return absl::OkStatus();
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
  Set(Counter::kOverflowBucketsUsed, index_.overflow_used());
  Set(Counter::kLogBytesUsed, log_.bytes_used());
  Set(Counter::kLogBytesDead, log_.bytes_dead());
}

// --- The public face ------------------------------------------------------------------------------------

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

absl::Status Store::Get(std::string_view key, std::string* value) const { return impl_->Get(key, value); }

absl::Status Store::Put(std::string_view key, std::string_view value) {
  Write write;
  write.kind = Write::Kind::kPut;
  write.key = key;
  write.value = value;
  impl_->Commit(std::span(&write, 1));
  return std::move(write.status);
}

absl::Status Store::Delete(std::string_view key) {
  Write write;
  write.kind = Write::Kind::kDelete;
  write.key = key;
  impl_->Commit(std::span(&write, 1));
  return std::move(write.status);
}

void Store::Commit(std::span<Write> writes) { impl_->Commit(writes); }
absl::StatusOr<Location> Store::Locate(std::string_view key) const { return impl_->Locate(key); }
const Superblock& Store::superblock() const { return impl_->superblock(); }
void Store::Add(Counter counter, std::int64_t delta) { impl_->Add(counter, delta); }
std::uint64_t Store::Read(Counter counter) const { return impl_->Read(counter); }

}  // namespace remora
