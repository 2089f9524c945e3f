#include "store/slot_transfer.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/engine/store_engine.h"
#include "store/engine/writer_lock.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/read/index_walk.h"
#include "store/region/atomic_word.h"
#include "store/write/staged_write.h"

namespace remora {
namespace {

// Bounds of a group, and of a step of DropOthers. A step takes about half a millisecond.
constexpr std::size_t kGroupRecords = 512;
constexpr std::size_t kGroupBytes = std::size_t{1} << 20;
constexpr std::size_t kDropLooks = 1024;
// As WritePipeline reserves versions on the disk.
constexpr std::uint64_t kVersions = std::uint64_t{1} << 20;

/// Returns the end of the group that begins with records[begin].
std::size_t EndOfGroup(std::span<const SlotRecord> records, std::size_t begin) {
  std::size_t end = begin;
  std::size_t bytes = 0;
  while (end < records.size() && end - begin < kGroupRecords) {
    bytes += records[end].key.size() + records[end].value.size();
    if (end > begin && bytes > kGroupBytes) break;
    ++end;
  }
  return end;
}

void RaiseWord(StoreCore& core) {
  const std::uint64_t word = LoadWord(core.superblock.slots_word, std::memory_order_relaxed);
  StoreWord(core.superblock.slots_word, word + 1, std::memory_order_seq_cst);
}

}  // namespace

struct SlotTransfer::Rep {
  StoreEngine& engine;
  std::uint64_t closed_at = 0;  // versions_end() at Close
  std::unique_ptr<DurableTier::Cursor> drop{};
  bool is_logged = false;  // Take: the disk has all records
  std::size_t shown = 0;   // Take: the number of those that are in memory

  StoreCore& core() const { return engine.core(); }
};

SlotTransfer::SlotTransfer(StoreEngine& engine) : rep_(new Rep{engine}) {}
SlotTransfer::~SlotTransfer() = default;

absl::Status SlotTransfer::Check() const {
  StoreCore& core = rep_->core();
  if (!core.slots.is_part()) {
    return absl::FailedPreconditionError(
        "move: the server has all slots for good; start it by kvserver --shards");
  }
  const WriterLock lock(core.mutex);
  if (core.is_following()) {
    return absl::FailedPreconditionError("move: the server follows another one, and its slots do not move");
  }
  if (core.has_tier() && !core.tier->has_commit_log()) {
    return absl::FailedPreconditionError(
        "move: the server has no commit log; start it without --commit_log=off");
  }
  if (core.is_loading()) return absl::AbortedError("move: the server loads; try again once it has");
  if (!core.has_tier()) return absl::OkStatus();
  return core.disk.sync_failure();
}

bool SlotTransfer::HasAll(const ClusterSlots& slots) const {
  const OwnedSlots& own = rep_->core().slots;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slots.Has(slot) && !own.HasSlot(slot)) return false;
  }
  return true;
}

bool SlotTransfer::HasAny(const ClusterSlots& slots) const {
  const OwnedSlots& own = rep_->core().slots;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slots.Has(slot) && own.HasSlot(slot)) return true;
  }
  return false;
}

// The disk has each key, but reads of it take longer than those of memory.
absl::StatusOr<std::vector<std::string>> SlotTransfer::KeysOfOthers(const ClusterSlots& own) const {
  StoreCore& core = rep_->core();
  std::vector<std::string> others;
  if (core.metrics.Read(Metric::kColdKeys) == 0) {
    std::vector<VersionedKey> keys;
    for (IndexWalk walk; !walk.over; keys.clear()) {
      WalkIndex(core, ScanRange{}, &walk, &keys);
      for (VersionedKey& one : keys) {
        if (!own.Has(SlotOf(one.key))) others.push_back(std::move(one.key));
      }
    }
    return others;
  }
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier::Cursor> cursor,
                          rep_->engine.NewCursor(ScanRange{}, /*may_wait=*/true));
  while (cursor->Next()) {
    if (!own.Has(SlotOf(cursor->entry().key))) others.emplace_back(cursor->entry().key);
  }
  REMORA_RETURN_IF_ERROR(cursor->status());
  return others;
}

absl::Status SlotTransfer::Limit(const ClusterSlots& own) {
  std::vector<std::string> keys;
  bool may_have_others = false;
  if (rep_->core().has_tier() && rep_->core().tier->has_commit_log()) {
    REMORA_ASSIGN_OR_RETURN(may_have_others, rep_->core().tier->HasMarkOfSlots());
  }
  if (may_have_others) {
    REMORA_ASSIGN_OR_RETURN(keys, KeysOfOthers(own));
  }
  std::vector<GivenKey> gone;
  for (const std::string& key : keys) gone.push_back({.key = key, .may_be_gone = true});
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  ClusterSlots others;
  others.Add(0, kSlots - 1);
  others.Remove(own);
  RaiseWord(core);  // X2
  core.slots.Remove(others);
  TakeOut(gone);  // X8
  return absl::OkStatus();
}

// --- Giving ---------------------------------------------------------------------------------------------

void SlotTransfer::BeginToGive(const ClusterSlots& slots) {
  BeginToTake();  // it may take its own records back
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  core.slots.Track(&slots);
}

std::size_t SlotTransfer::changed() const {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  return core.slots.noted();
}

absl::Status SlotTransfer::ReadChanged(std::size_t most, Show show) {
  StoreCore& core = rep_->core();
  std::vector<std::string> keys;
  const WriterLock lock(core.mutex);
  core.slots.TakeNoted(most, &keys);
  for (const std::string& key : keys) {
    const std::uint64_t key_hash = HashKey(key);
    if (const std::optional<Index::Entry> entry = core.index.Find(key, key_hash)) {
      const RecordHeader& header = core.log.Header(entry->place);
      const SlotRecord record{key, core.log.Value(entry->place), header.version_live >> 1, header.expiry_ms};
      REMORA_RETURN_IF_ERROR(show(key, &record));
      continue;
    }
    if (!core.has_tier() || !core.FindCold(key, key_hash)) {
      REMORA_RETURN_IF_ERROR(show(key, nullptr));
      continue;
    }
    // It left memory since it was written. Or another key with this hash did, and the disk says so.
    const absl::Status read = core.tier->Get(key, [&](const DurableTier::Entry& entry) {
      const SlotRecord record{key, entry.value, entry.header.version, entry.header.expiry_ms};
      return show(key, &record);
    });
    if (!absl::IsNotFound(read)) {
      REMORA_RETURN_IF_ERROR(read);
    } else {
      REMORA_RETURN_IF_ERROR(show(key, nullptr));
    }
  }
  return absl::OkStatus();
}

void SlotTransfer::Close(const ClusterSlots& slots) {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  core.slots.Close(slots);
  rep_->closed_at = core.next_version;
}

bool SlotTransfer::IsQuiet() const {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  // Pending writes are in the order of their versions.
  for (const SyncQueue::PendingWrite& pending : rep_->engine.queue().pending()) {
    if (!pending.is_rejected) return pending.staged.version >= rep_->closed_at;
  }
  return true;
}

std::uint64_t SlotTransfer::versions_end() const { return rep_->engine.VersionsEnd(); }

absl::Status SlotTransfer::Give(const ClusterSlots& slots, std::span<const GivenKey> keys) {
  StoreCore& core = rep_->core();
  WriterLock lock(core.mutex);
  if (core.has_tier()) {  // X6
    core.tier->MarkSlots();
    REMORA_RETURN_IF_ERROR(core.NoteTierWrite(core.tier->Write()));
  } else if (core.changes != nullptr) {
    core.changes->AppendMark();
  }
  RaiseWord(core);  // X2
  core.slots.Remove(slots);
  TakeOut(keys);
  return absl::OkStatus();
}

void SlotTransfer::TakeOut(std::span<const GivenKey> keys) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  StoreCore& core = rep_->core();
  for (const GivenKey& given : keys) {
    const std::uint64_t key_hash = HashKey(given.key);
    if (const std::optional<Index::Entry> entry = core.index.Find(given.key, key_hash)) {
      core.NoteChange(given.key, entry, /*is_delete=*/true);
      core.log.Kill(entry->place);
      core.index.Erase(key_hash, *entry);
      core.FinishRemove();
      continue;
    }
    const std::optional<Index::ColdEntry> cold =
        core.has_tier() ? core.FindCold(given.key, key_hash) : std::nullopt;
    if (!cold) continue;
    // If it has expired, and is removed, the entry may be that of another key with the hash.
    if (given.may_be_gone) {
      const absl::Status there =
          core.tier->Get(given.key, [](const DurableTier::Entry&) { return absl::OkStatus(); });
      if (absl::IsNotFound(there)) continue;
    }
    core.NoteColdChange(given.key, /*old=*/nullptr, /*is_delete=*/true);
    core.index.EraseCold(*cold);
    core.FinishRemove();
  }
  if (core.keeps_changes()) core.AdvanceChangesEnd();
  rep_->engine.maintenance().NoteSizes();
  rep_->engine.maintenance().Finish();
}

void SlotTransfer::KeepSlots() {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  core.slots.OpenAll();
  core.slots.Track(nullptr);
}

absl::Status SlotTransfer::Forget(std::span<const std::string> keys) {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  if (!core.has_tier()) return absl::OkStatus();
  bool has_some = false;
  for (const std::string& key : keys) {
    if (core.slots.Has(key)) continue;
    core.tier->Forget(key);
    has_some = true;
  }
  return has_some ? core.NoteTierWrite(core.tier->Write()) : absl::OkStatus();
}

// --- Taking ---------------------------------------------------------------------------------------------

void SlotTransfer::BeginToTake() {
  rep_->drop = nullptr;
  rep_->is_logged = false;
  rep_->shown = 0;
}

absl::StatusOr<bool> SlotTransfer::DropOthers(const ClusterSlots& slots) {
  if (!rep_->core().has_tier()) return false;
  if (rep_->drop == nullptr) {
    REMORA_ASSIGN_OR_RETURN(rep_->drop, rep_->engine.NewCursor(ScanRange{}, /*may_wait=*/false));
  }
  std::vector<std::string> keys;
  bool is_over = false;
  for (std::size_t looks = 0; looks < kDropLooks && !is_over; ++looks) {
    is_over = !rep_->drop->Next();
    if (!is_over && slots.Has(SlotOf(rep_->drop->entry().key))) keys.emplace_back(rep_->drop->entry().key);
  }
  if (is_over) {
    const absl::Status read = rep_->drop->status();
    rep_->drop = nullptr;
    REMORA_RETURN_IF_ERROR(read);
  }
  REMORA_RETURN_IF_ERROR(Forget(keys));
  return !is_over;
}

absl::StatusOr<std::uint64_t> SlotTransfer::Log(std::span<const SlotRecord> records,
                                                std::uint64_t versions_end) {
  REMORA_RETURN_IF_ERROR(LogAll(records, versions_end));
  rep_->is_logged = true;
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  return core.ships ? core.tier->group_number() : 0;
}

absl::Status SlotTransfer::Take(std::span<const SlotRecord> records, std::uint64_t versions_end) {
  if (!rep_->is_logged) REMORA_RETURN_IF_ERROR(LogAll(records, versions_end));
  rep_->is_logged = true;
  REMORA_RETURN_IF_ERROR(ShowAll(records));
  rep_->is_logged = false;
  rep_->shown = 0;
  return absl::OkStatus();
}

absl::Status SlotTransfer::LogAll(std::span<const SlotRecord> records, std::uint64_t versions_end) {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  if (core.has_tier()) {
    REMORA_RETURN_IF_ERROR(core.disk.sync_failure());
    if (versions_end > core.tier->version_limit()) core.tier->SetVersionLimit(versions_end + kVersions);
    for (std::size_t begin = 0, end = 0; begin < records.size(); begin = end) {
      end = EndOfGroup(records, begin);
      if (core.ships) core.tier->MarkCopied();
      for (const SlotRecord& record : records.subspan(begin, end - begin)) {
        core.tier->Put(record.key, {.version = record.version, .expiry_ms = record.expiry_ms}, record.value);
      }
      REMORA_RETURN_IF_ERROR(core.NoteTierWrite(core.tier->Write()));
    }
    if (records.empty() && versions_end > core.tier->version_limit()) {
      REMORA_RETURN_IF_ERROR(core.NoteTierWrite(core.tier->Write()));
    }
    REMORA_RETURN_IF_ERROR(rep_->engine.queue().SyncNow());
    REMORA_RETURN_IF_ERROR(core.tier->ApplyLog());  // X5
  }
  core.next_version = std::max(core.next_version, versions_end);  // X4
  return absl::OkStatus();
}

absl::Status SlotTransfer::ShowAll(std::span<const SlotRecord> records) {
  StoreCore& core = rep_->core();
  SpaceManager& space = rep_->engine.space();
  Maintenance& maintenance = rep_->engine.maintenance();
  WriterLock lock(core.mutex);
  while (rep_->shown < records.size()) {
    const TimePoint now = core.clock.Now();
    const std::int64_t unix_ms = core.clock.UnixMillisAt(now);
    const std::uint64_t keys = core.index.entry_count();
    const std::uint64_t written = core.log.bytes_appended(ValueLog::Head::kWrites);
    const std::size_t end = EndOfGroup(records, rep_->shown);
    const std::size_t begin = rep_->shown;
    while (rep_->shown < end && ShowOne(records[rep_->shown])) ++rep_->shown;
    maintenance.AddGroup(rep_->shown - begin, keys, written);
    maintenance.NoteSizes();
    maintenance.AddDebt(now, unix_ms);
    maintenance.PayAllDebt();
    if (rep_->shown == end) continue;
    const SlotRecord& record = records[rep_->shown];
    space.ReleaseRetired(now);
    SpaceResult result = space.MakeSpace(now, unix_ms);
    const std::size_t run = LargeBytes(record.key.size(), record.value.size());
    if (result == SpaceResult::kAvailable && run > 0) result = space.MakeRun(run, now, unix_ms);
    maintenance.Finish();
    if (result == SpaceResult::kRetryLater) {
      return absl::AbortedError("take slots: no space until the grace period of retired memory ends");
    }
    if (result == SpaceResult::kFull) return run > 0 ? space.NoRunError(run) : space.FullError();
  }
  if (core.keeps_changes()) core.AdvanceChangesEnd();
  return absl::OkStatus();
}

/// Brings a record into memory, unless it is there already. Returns false if there is no space.
bool SlotTransfer::ShowOne(const SlotRecord& record) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  StoreCore& core = rep_->core();
  const TimePoint now = core.clock.Now();
  const std::uint64_t key_hash = HashKey(record.key);
  if (core.index.Find(record.key, key_hash)) return true;  // O1: by this call, before it was Aborted
  const std::optional<Place> place = core.log.Append(ValueLog::Head::kWrites, record.key, record.value, now);
  if (!place) return false;
  core.log.Seal(*place, record.version, record.expiry_ms, key_hash,
                HashValue(record.value.data(), record.value.size()));
  if (!core.index.Reserve(key_hash, 1)) {
    core.log.Rollback(*place);
    return false;
  }
  Write write;
  StagedWrite staged;
  staged.write = &write;
  staged.key = record.key;
  staged.key_hash = key_hash;
  staged.value = record.value;
  staged.place = *place;
  staged.old.is_looked_up = true;
  staged.version = record.version;
  staged.expiry_ms = record.expiry_ms;
  rep_->engine.pipeline().Publish(staged, now);
  return true;
}

void SlotTransfer::SetSettled(bool settled) { rep_->core().slots.SetSettled(settled); }

void SlotTransfer::Own(const ClusterSlots& slots) {
  StoreCore& core = rep_->core();
  const WriterLock lock(core.mutex);
  RaiseWord(core);  // X7
  core.slots.Add(slots);
}

}  // namespace remora
