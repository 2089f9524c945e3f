#include "store/server_store.h"

#include <optional>
#include <utility>

#include "store/base/status_macros.h"
#include "store/engine/store_engine.h"
#include "store/slot_transfer.h"

namespace remora {

ServerStore::ServerStore(std::unique_ptr<StoreEngine> engine) : Store(std::move(engine)) {}

absl::StatusOr<std::unique_ptr<ServerStore>> ServerStore::Open(const StoreOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<StoreEngine> engine, StoreEngine::Open(options, std::nullopt));
  return std::unique_ptr<ServerStore>(new ServerStore(std::move(engine)));
}

absl::StatusOr<std::unique_ptr<ServerStore>> ServerStore::Open(const StoreOptions& options,
                                                               std::span<std::byte> region) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<StoreEngine> engine, StoreEngine::Open(options, region));
  return std::unique_ptr<ServerStore>(new ServerStore(std::move(engine)));
}

void ServerStore::Commit(std::span<Write> writes) { engine_->pipeline().Commit(writes); }
void ServerStore::Submit(std::span<Write> writes) { engine_->pipeline().Submit(writes); }
void ServerStore::Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  engine_->pipeline().Submit(writes, now, unix_ms);
}
void ServerStore::BeginReads(std::span<const Write> writes,
                             std::vector<std::unique_ptr<ColdRead>>* reads) const {
  engine_->pipeline().BeginReads(writes, reads);
}
void ServerStore::PayMaintenanceDebt() { engine_->PayMaintenanceDebt(); }
void ServerStore::TakeSynced(std::vector<SyncedWrite>* outcomes) { engine_->TakeSynced(outcomes); }
bool ServerStore::Sync() { return engine_->pipeline().Sync(); }
bool ServerStore::Load() { return engine_->loader().Step(); }

absl::StatusOr<Reservation> ServerStore::Reserve(std::size_t key_size, std::size_t value_size) {
  return engine_->large().Reserve(key_size, value_size);
}
void ServerStore::Release(const Reservation& reservation) { engine_->large().Release(reservation); }
absl::StatusOr<Location> ServerStore::Locate(std::string_view key) { return engine_->reader().Locate(key); }
absl::StatusOr<std::optional<Location>> ServerStore::BeginLocate(std::string_view key, ColdRead* read) {
  return engine_->reader().BeginLocate(key, read);
}
void ServerStore::ReadCold(ColdRead* read) const { engine_->reader().ReadCold(read); }
bool ServerStore::TryReadCold(ColdRead* read) const { return engine_->reader().TryReadCold(read); }
absl::StatusOr<std::optional<Location>> ServerStore::FinishLocate(ColdRead* read, bool may_stay) {
  return engine_->reader().FinishLocate(read, may_stay);
}

bool ServerStore::has_ordered_index() const { return engine_->core().ordered != nullptr; }

absl::StatusOr<std::uint64_t> ServerStore::FindLeaf(std::string_view key, LeafSide side) const {
  StoreCore& core = engine_->core();
  const WriterLock lock(core.mutex);
  if (core.ordered == nullptr) {
    return absl::FailedPreconditionError(
        "scan: the server keeps no order in memory; start kvserver with --ordered=memory, or scan without "
        "one_sided");
  }
  REMORA_RETURN_IF_ERROR(core.slots.CheckSettled("scan"));
  if (core.is_loading()) {
    return absl::UnavailableError(
        "scan: the server is loading, and its order is not complete yet; try again, or scan without "
        "one_sided");
  }
  const OrderedKeys& keys = core.ordered->keys();
  const OrderedLeaf* const leaf = side == LeafSide::kOf ? keys.LeafOf(key) : keys.LeafBelow(key);
  if (leaf == nullptr) return absl::NotFoundError("scan: there are no keys");
  return leaf->is_readable() ? leaf->place() : 0;
}

bool ServerStore::wants_reads() const { return engine_->core().wants_reads(); }
void ServerStore::NoteRead(std::uint64_t key_hash) { engine_->core().NoteRead(key_hash); }

absl::Status ServerStore::SetGroupSink(GroupSink* sink) { return engine_->replication().SetSink(sink); }
void ServerStore::DropGroupSink() { engine_->replication().DropSink(); }
absl::Status ServerStore::Acknowledge(std::uint64_t number) {
  return engine_->replication().Acknowledge(number);
}
std::uint64_t ServerStore::last_group() const { return engine_->replication().last_group(); }
absl::Status ServerStore::CheckSync() const { return engine_->CheckSync(); }
absl::StatusOr<std::unique_ptr<GroupHistory>> ServerStore::ReadGroups(std::uint64_t from) const {
  return engine_->replication().ReadGroups(from);
}
absl::StatusOr<std::unique_ptr<StoreCopy>> ServerStore::BeginCopy() const {
  return engine_->replication().BeginCopy();
}
absl::Status ServerStore::ApplyGroup(std::uint64_t number, std::string_view bytes) {
  return engine_->replication().Apply(number, bytes);
}
absl::StatusOr<std::uint64_t> ServerStore::SyncGroups() { return engine_->replication().SyncGroups(); }
absl::Status ServerStore::Promote(GroupSink* sink, std::uint64_t versions_from) {
  return engine_->Promote(sink, versions_from);
}

std::unique_ptr<SlotTransfer> ServerStore::NewSlotTransfer() {
  return std::make_unique<SlotTransfer>(*engine_);
}

absl::Status ServerStore::RegisterClient(std::uint64_t client, std::span<const std::uint64_t> forgotten) {
  return engine_->RegisterClient(client, forgotten);
}
std::vector<ClientCompletions> ServerStore::TakeCompletions() { return engine_->TakeCompletions(); }

const Superblock& ServerStore::superblock() const { return engine_->core().superblock; }
const Clock& ServerStore::clock() const { return engine_->core().clock; }
void ServerStore::Add(Metric metric, std::int64_t delta) { engine_->core().metrics.Add(metric, delta); }
std::uint64_t ServerStore::Read(Metric metric) const { return engine_->core().metrics.Read(metric); }
std::vector<std::uint64_t> ServerStore::ReadMetrics() const { return engine_->core().metrics.ReadPlaces(); }
void ServerStore::Record(Metric histogram, Duration took) { engine_->core().metrics.Record(histogram, took); }
std::vector<MappedSegment> ServerStore::SegmentMap() const { return engine_->SegmentMap(); }

}  // namespace remora
