#include "store/write/write_stage.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/moved.h"
#include "store/base/status_macros.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"
#include "store/format/wire/write_batch.h"

namespace remora {
namespace {

absl::Status CheckBatch(std::span<const Write> batch) {
  std::size_t bytes = 0;
  bool checks = false;
  for (const Write& write : batch) {
    checks |= write.kind == Write::Kind::kCheck;
    const bool is_write =
        write.kind == Write::Kind::kDelete || (write.kind == Write::Kind::kPut && write.reserved == nullptr);
    if (write.kind != Write::Kind::kCheck && !is_write) {
      return absl::InvalidArgumentError("batch: a write is neither a plain put nor a delete; write it alone");
    }
    if (is_write && checks) {
      return absl::InvalidArgumentError("batch: a write stands behind a check; add checks last");
    }
    bytes += sizeof(BatchEntry) + write.key.size() + ValueSize(write);
  }
  const std::string why = NoBatch(batch.size(), bytes);
  return why.empty() ? absl::OkStatus() : absl::InvalidArgumentError(why);
}

// Out of line, so that the common path stays short.
[[gnu::noinline]] absl::Status OutOfBounds(std::size_t key_size, std::size_t value_size) {
  const bool is_key = key_size >= kMinKeySize && key_size <= kMaxKeySize;
  return absl::InvalidArgumentError(is_key ? NoValue(value_size) : NoKey(key_size));
}

[[gnu::noinline]] absl::Status TtlOutOfBounds(std::chrono::milliseconds ttl) {
  return absl::InvalidArgumentError(NoTtl(ttl));
}

// `most`: the highest durability level of the store.
absl::Status Check(const Write& write, Durability most) {
  const std::size_t key_size = write.reserved != nullptr ? write.reserved->key_size : write.key.size();
  const std::size_t value_size = ValueSize(write);
  if (key_size < kMinKeySize || key_size > kMaxKeySize || value_size > kMaxValueSize) {
    return OutOfBounds(key_size, value_size);
  }
  if (write.ttl && !IsTtl(*write.ttl)) return TtlOutOfBounds(*write.ttl);
  if (!write.condition.IsValid()) {
    return absl::InvalidArgumentError(AbslView(kNoSuchVersion));
  }
  if (!IsDurability(write.durability) || (write.durability && *write.durability > most)) {
    return absl::InvalidArgumentError(
        "write: the durability is higher than that of the store; choose one that the store has");
  }
  if (write.kind == Write::Kind::kIncrement && write.value.size() != sizeof(std::int64_t)) {
    return absl::InvalidArgumentError("increment: the number added does not have 64 bits; pass 8 bytes");
  }
  return absl::OkStatus();
}

absl::Status NoStoredRecord() {
  return absl::DataLossError(
      "write: the store's data lack the record of a key that the index has; restore a backup");
}

absl::Status NoSuchKey() { return absl::NotFoundError("no such key"); }

absl::Status CheckCondition(const Condition& condition, bool exists, std::uint64_t version) {
  if (condition.is_none()) return absl::OkStatus();
  if (condition == Condition::Absent()) {
    return exists ? absl::AlreadyExistsError("the key exists") : absl::OkStatus();
  }
  if (!exists) return NoSuchKey();
  if (condition == Condition::Present() || condition.version() == version) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("write: the key's version is ", version, ", not ",
                                                    condition.version(), "; read the key again"));
}

// An expired record does not exist for the caller, but keeps its slot until it is removed.
bool Exists(const KnownRecord& known, std::int64_t unix_ms) {
  const bool is_there = known.place.has_value() || known.cold || known.unloaded;
  return is_there && !HasExpired(known.expiry_ms, unix_ms);
}

// Returns the state of a key's record after a write that was staged before.
KnownRecord KnownOf(const StagedWrite& earlier) {
  KnownRecord known;
  known.unsynced = earlier.pending;
  if (earlier.is_delete()) return known;
  known.place = earlier.place;
  known.expiry_ms = earlier.expiry_ms;
  known.version = earlier.version;
  return known;
}

}  // namespace

std::size_t ValueSize(const Write& write) {
  if (write.reserved != nullptr) return write.reserved->bytes.size() - write.reserved->key_size;
  return write.kind == Write::Kind::kPut || write.kind == Write::Kind::kAppend ? write.value.size() : 0;
}

std::size_t BatchSize(std::span<const Write> writes) {
  std::size_t size = 1;
  while (writes[size - 1].continues_batch && size < writes.size()) ++size;
  return size;
}

void WriteStage::Begin(std::size_t writes) {
  staged_.clear();
  staged_.reserve(writes);  // views into its elements must stay valid
  if (!growth_.empty()) growth_.clear();
  is_one_ = writes == 1;
  if (!is_one_) keys_.Begin(writes);
  has_pending_ = false;
}

absl::Status WriteStage::Stage(Write& write, TimePoint now, std::int64_t unix_ms) {
  StagedWrite& staged = staged_.emplace_back();
  staged.write = &write;
  decided_on_pending_ = false;
  if (write.reserved != nullptr) {
    staged.place = large_.PlaceOf(*write.reserved);
    maintenance_.NoteSizes();
  }
  absl::Status status = Check(write, core_.tier == nullptr ? Durability::kMemory : Durability::kSynced);
  if (status.ok()) status = CopyAndVerify(staged, now);
  if (status.ok()) status = core_.slots.CheckWrite("write", staged.key, staged.key_hash);
  if (status.ok()) status = Decide(staged, now, unix_ms);
  if (status.ok()) {
    Pin(staged);
  } else {
    const bool stays_reserved = write.reserved != nullptr && absl::IsAborted(status);
    if (staged.place.extent_code != 0 && !stays_reserved) core_.log.Rollback(staged.place);
    staged_.pop_back();
  }
  return status;
}

absl::Status WriteStage::StageBatch(std::span<Write> batch, TimePoint now, std::int64_t unix_ms) {
  if (absl::Status status = CheckBatch(batch); !status.ok()) {
    large_.Release(batch);
    return status;
  }
  const std::size_t before = staged_.size();
  in_batch_ = true;
  batch_changes_.clear();
  absl::Status status;
  std::size_t number = 0;
  bool holds_on_pending = false;
  for (; number < batch.size() && status.ok(); ++number) {
    Write& write = batch[number];
    if (write.kind == Write::Kind::kCheck) {
      status = Test(write, unix_ms);
      holds_on_pending |= decided_on_pending_;
      continue;
    }
    write.durability = batch.front().durability;
    status = Stage(write, now, unix_ms);
  }
  in_batch_ = false;
  if (status.ok()) {
    const std::span<StagedWrite> staged = std::span(staged_).subspan(before);
    decided_on_pending_ = holds_on_pending;
    // Checks stay in no queue, so the last write ends the batch there.
    if (!staged.empty()) staged.back().write->continues_batch = false;
    SyncAllOrNone(staged, holds_on_pending);
    return status;
  }
  UnstageTo(before);
  if (IsMoved(status)) return status;  // of all keys: a batch of a cluster has one slot
  return WithMarksOf(
      status, absl::Status(status.code(),
                           absl::StrCat("write ", number,
                                        " of the batch, of which nothing was done: ", status.message())));
}

absl::Status WriteStage::Test(Write& write, std::int64_t unix_ms) {
  decided_on_pending_ = false;
  REMORA_RETURN_IF_ERROR(Check(write, Durability::kSynced));
  StagedWrite tested;  // its private copy of the key, and nothing that stays
  tested.write = &write;
  tested.own = write.key;
  tested.key = tested.own;
  tested.key_hash = HashKey(tested.key);
  REMORA_RETURN_IF_ERROR(core_.slots.CheckWrite("batch", tested.key, tested.key_hash));
  KnownRecord known;
  REMORA_RETURN_IF_ERROR(FindLast(tested, LastOf(tested), &known));
  decided_on_pending_ = known.unsynced;
  return CheckCondition(write.condition, Exists(known, unix_ms), known.version);
}

std::uint32_t* WriteStage::LastOf(const StagedWrite& staged) {
  if (is_one_) return nullptr;
  return &keys_.LastOf(staged.key_hash,
                       [&](std::uint32_t number) REMORA_WRITER { return staged_[number].key == staged.key; });
}

absl::Status WriteStage::FindLast(const StagedWrite& staged, const std::uint32_t* last,
                                  KnownRecord* known) const {
  if (last == nullptr || *last == GroupKeys::kNone) return LookUp(staged, known);
  *known = KnownOf(staged_[*last]);
  return absl::OkStatus();
}

void WriteStage::UnstageTo(std::size_t count) {
  for (; staged_.size() > count; staged_.pop_back(), batch_changes_.pop_back()) {
    const StagedWrite& staged = staged_.back();
    const Change& change = batch_changes_.back();
    if (change.growth != 0) growth_[change.bucket] -= change.growth;
    *change.last = change.before;
    Rollback(staged);
  }
}

// Reads the caller's bytes once, into the copy. All later steps use the copy only, because a client that
// shares the original memory may change it at any moment. A reserved record is the copy already: its client
// can no longer write it.
absl::Status WriteStage::CopyAndVerify(StagedWrite& staged, TimePoint now) {
  const Write& write = *staged.write;
  if (write.reserved != nullptr) {
    staged.key = core_.log.Key(staged.place);
    staged.value = core_.log.Value(staged.place);
  } else if (write.kind == Write::Kind::kPut) {
    const std::optional<Place> place = core_.log.Append(ValueLog::Head::kWrites, write.key, write.value, now);
    if (!place) return absl::AbortedError("write: no space in the log; try again");
    staged.place = *place;
    const char* const body = reinterpret_cast<const char*>(core_.log.Body(*place));
    staged.key = {body, write.key.size()};
    staged.value = {body + write.key.size(), write.value.size()};
  } else {
    staged.own = write.key;
    const bool adds = write.kind == Write::Kind::kIncrement || write.kind == Write::Kind::kAppend;
    if (adds) staged.own += write.value;
    staged.key = std::string_view(staged.own).substr(0, write.key.size());
    staged.value = std::string_view(staged.own).substr(write.key.size());
  }
  staged.key_hash = HashKey(staged.key);
  const bool is_hashed = write.reserved != nullptr && write.reserved->value_hash.has_value();
  staged.value_hash =
      is_hashed ? *write.reserved->value_hash : HashValue(staged.value.data(), staged.value.size());
  if (write.verify != nullptr && !write.verify(write.verify_context, staged.key_hash, staged.value_hash)) {
    return DamagedError();
  }
  return absl::OkStatus();
}

absl::Status WriteStage::Decide(StagedWrite& staged, TimePoint now, std::int64_t unix_ms) {
  const Write& write = *staged.write;
  std::uint32_t* const last = LastOf(staged);
  KnownRecord& old = staged.old;
  REMORA_RETURN_IF_ERROR(FindLast(staged, last, &old));
  decided_on_pending_ = old.unsynced;
  const bool exists = Exists(old, unix_ms);
  const bool modifies = write.kind != Write::Kind::kPut && !staged.is_delete();
  const bool adds = modifies && write.kind != Write::Kind::kTouch;
  if (!exists && (staged.is_delete() || (modifies && !adds))) return NoSuchKey();
  REMORA_RETURN_IF_ERROR(CheckCondition(write.condition, exists, old.version));
  if (modifies) REMORA_RETURN_IF_ERROR(modify_.Apply(staged, old, exists, now));
  if (adds && exists && !write.ttl) {
    staged.expiry_ms = old.expiry_ms;
  } else if (!staged.is_delete()) {
    staged.expiry_ms = ExpiryOf(unix_ms, write.ttl.value_or(default_ttl_));
    if (HasExpired(staged.expiry_ms, unix_ms)) {
      return absl::OutOfRangeError("it is to expire at a moment that is over; nothing was done");
    }
  }

  // A write of a key with a pending write is synced, too, so that both become visible in order (S1). With
  // followers, each write is pending, so all become visible in order.
  staged.synced = LevelOf(write) == Durability::kSynced || (old.unsynced && !core_.ships);
  staged.pending = staged.synced || core_.ships;

  // The new record of a cold key takes another slot than the cold entry. A pending delete has not freed its
  // slot yet when other writes of the group become visible.
  const bool takes_slot = !staged.is_delete() && !old.place;
  const bool frees_slot = staged.is_delete() && (old.place || old.cold) && !staged.pending;
  Change change;
  if (takes_slot || frees_slot) {
    change.bucket = core_.index.MainBucketOf(staged.key_hash);
    change.growth = takes_slot ? 1 : -1;
    std::int64_t& growth = growth_[change.bucket];
    if (takes_slot && !core_.index.Reserve(staged.key_hash,
                                           static_cast<std::size_t>(std::max<std::int64_t>(growth + 1, 0)))) {
      return absl::AbortedError("write: no space in the index; try again");
    }
    growth += change.growth;
  }
  // Staged writes get consecutive versions now, so that a condition can name a write of the same group.
  staged.version = core_.next_version + staged_.size() - 1;
  if (last == nullptr) return absl::OkStatus();
  if (in_batch_) {
    change.last = last;
    change.before = *last;
    batch_changes_.push_back(change);
  }
  *last = static_cast<std::uint32_t>(staged_.size() - 1);
  return absl::OkStatus();
}

absl::Status WriteStage::LookUp(const StagedWrite& staged, KnownRecord* known) const {
  if (const UnsyncedKeys::Record* const pending = core_.unsynced_keys.Find(staged.key)) {
    *known = {pending->place, false, false, pending->expiry_ms, pending->version, true};
    return absl::OkStatus();
  }
  known->is_looked_up = true;
  known->entry = core_.index.Find(staged.key, staged.key_hash);
  if (known->entry) {
    const RecordHeader& header = core_.log.Header(known->entry->place);
    known->place = known->entry->place;
    known->expiry_ms = header.expiry_ms;
    known->version = header.version_live >> 1;
    return absl::OkStatus();
  }
  const ColdWrites::Where where = cold_writes_.Look(*staged.write, staged.key, staged.key_hash);
  if (!where.is_only_in_tier()) return absl::OkStatus();
  // Only the tier can tell whether the cold entry is of this key or of another one with the same hash.
  known->is_looked_up = false;
  const auto take = [&](const StoredHeader& header, std::optional<std::string_view> value) REMORA_WRITER {
    *known = {std::nullopt, where.cold, where.unloaded, header.expiry_ms, header.version};
    if (!where.cold || !value || !ViewsMayNeed(*staged.write)) return;
    known->record = core_.ordered->CopyOf(header.version, header.expiry_ms, *value);  // V5
  };
  const auto fail = [&](const absl::Status& status) REMORA_WRITER {
    if (!absl::IsNotFound(status)) return status;
    // With an ordered index, the entry is the key's (StoreCore::FindCold).
    return where.cold && core_.ordered != nullptr ? NoStoredRecord() : absl::OkStatus();
  };
  const ColdRead* const read = cold_writes_.ResultFor(*staged.write, staged.key, where);  // D7
  if (read != nullptr) {
    if (!read->status.ok()) return fail(read->status);
    take(read->header, read->has_value ? std::optional<std::string_view>(read->value) : std::nullopt);
    known->read = read;
    return absl::OkStatus();
  }
  if (!staged.write->may_read) {
    staged.write->needs_read = true;
    return absl::AbortedError("write: the key's record is only on disk; read it first");
  }
  const absl::Status status =
      core_.tier->Get(staged.key, [&](const DurableTier::Entry& stored) REMORA_WRITER {
        take(stored.header, stored.value);
        return absl::OkStatus();
      });
  return status.ok() ? status : fail(status);
}

bool WriteStage::ViewsMayNeed(const Write& write) const {
  if (core_.ordered == nullptr) return false;
  const bool may_be_pending =
      core_.ships || LevelOf(write) == Durability::kSynced || !core_.unsynced_keys.empty();
  return core_.ordered->has_views() || may_be_pending;
}

void WriteStage::Pin(StagedWrite& staged) {
  has_pending_ |= staged.pending;
  // If a later write of the batch follows a pending one, this one waits, too (SyncAllOrNone). By then its
  // segment may be full, and it is too late to pin it.
  const bool may_wait = in_batch_ && !core_.unsynced_keys.empty();
  if ((!has_pending_ && !may_wait) || staged.place.extent_code == 0) return;
  core_.log.Pin(staged.place);
  staged.pinned = true;
}

void WriteStage::SyncAllOrNone(std::span<StagedWrite> batch, bool holds_on_pending) {
  if (batch.empty() || (!holds_on_pending && std::ranges::none_of(batch, &StagedWrite::pending))) return;
  const bool synced = !core_.ships || std::ranges::any_of(batch, &StagedWrite::synced);
  for (StagedWrite& staged : batch) {
    staged.synced = synced;
    staged.pending = true;
  }
  has_pending_ = true;
  for (const Change& change : batch_changes_) {
    // A pending delete frees no slot (Decide).
    if (change.growth < 0) growth_[change.bucket] -= change.growth;
  }
}

void WriteStage::Rollback(const StagedWrite& staged) {
  if (staged.place.extent_code == 0) return;
  if (staged.pinned) core_.log.Unpin(staged.place, core_.clock.Now());
  core_.log.Rollback(staged.place);
}

}  // namespace remora
