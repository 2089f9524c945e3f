// All writes: a group of them, from the caller's bytes to what readers see.
//
//   Stage        each, in order: check, copy, verify the copy, decide, make sure of room, assign its version
//   SealAll      completes their records
//   MakeDurable  one write for the group; the last thing that can fail
//   Publish      each, in order; but those that are to be synced, when the disk has them (sync_queue.cc)
//
// A plain put of a store that is only in memory takes a shorter way: at_once.cc.
// What follows from it (growth, cleaning, counters) is owed until CatchUp (store/reclaim/maintenance.cc): who
// waits for an outcome need not wait for that.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"
#include "store/format/wire/write_batch.h"

namespace remora {
namespace {

// Versions are reserved on disk in blocks: a restart goes on behind the block, so none comes twice.
constexpr std::uint64_t kVersionBlock = std::uint64_t{1} << 20;

// Bytes of values of one group, but for the first: the durable tier holds a copy of them all.
constexpr std::size_t kMaxGroupBytes = kMaxValueSize;

std::size_t ValueSize(const Write& write) {
  if (write.reserved != nullptr) return write.reserved->bytes.size() - write.reserved->key_size;
  return write.kind == Write::Kind::kPut || write.kind == Write::Kind::kAppend ? write.value.size() : 0;
}

// The writes of the batch that begins here; 1 where none does.
std::size_t BatchSize(std::span<const Write> writes) {
  std::size_t size = 1;
  while (writes[size - 1].with_next && size < writes.size()) ++size;
  return size;
}

// No batch is split.
std::size_t GroupSize(std::span<const Write> writes) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < writes.size()) {
    const std::size_t some = BatchSize(writes.subspan(count));
    for (const Write& write : writes.subspan(count, some)) {
      // The value that it makes may be that large.
      bytes += write.kind == Write::Kind::kAppend ? kMaxSmallValueSize : ValueSize(write);
    }
    if (count > 0 && (count + some > kMaxGroup || bytes > kMaxGroupBytes)) break;
    count += some;
  }
  return count;
}
static_assert(kMaxBatchWrites <= kMaxGroup);

absl::Status CheckBatch(std::span<const Write> batch) {
  std::size_t bytes = 0;
  for (const Write& write : batch) {
    const bool fits =
        write.kind == Write::Kind::kDelete || (write.kind == Write::Kind::kPut && write.reserved == nullptr);
    if (!fits) return absl::InvalidArgumentError("a batch with a write that is no plain put, nor a delete");
    bytes += sizeof(BatchEntry) + write.key.size() + ValueSize(write);
  }
  const std::string why = NoBatch(batch.size(), bytes);
  return why.empty() ? absl::OkStatus() : absl::InvalidArgumentError(why);
}

// Apart, so that what all writes go through is short.
[[gnu::noinline]] absl::Status OutOfBounds(std::size_t key_size, std::size_t value_size) {
  const bool is_key = key_size >= kMinKeySize && key_size <= kMaxKeySize;
  return absl::InvalidArgumentError(is_key ? NoValue(value_size) : NoKey(key_size));
}

[[gnu::noinline]] absl::Status TtlOutOfBounds(std::chrono::milliseconds ttl) {
  return absl::InvalidArgumentError(NoTtl(ttl));
}

// `most`: the highest durability that the store has.
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
    return absl::InvalidArgumentError("a durability that the store, which is only in memory, does not have");
  }
  if (write.kind == Write::Kind::kIncrement && write.value.size() != sizeof(std::int64_t)) {
    return absl::InvalidArgumentError("what is added is not of 64 bits");
  }
  return absl::OkStatus();
}

absl::Status NoSuchKey() { return absl::NotFoundError("no such key"); }

absl::Status CheckCondition(const Condition& condition, bool exists, std::uint64_t version) {
  if (condition.is_none()) return absl::OkStatus();
  if (condition == Condition::Absent()) {
    return exists ? absl::AlreadyExistsError("the key exists") : absl::OkStatus();
  }
  if (!exists) return NoSuchKey();
  if (condition == Condition::Present() || condition.version() == version) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the key's version is ", version, ", not ", condition.version()));
}

}  // namespace

void Store::Impl::SubmitLocked(std::span<Write> writes, std::uint64_t foreseen, TimePoint now,
                               std::int64_t unix_ms) {
  if (!sync_failed_.ok()) {
    for (Write& write : writes) write.status = sync_failed_;
    return;
  }
  if (writes.size() == 1) core_.index.PrefetchRecords(foreseen);
  if (!pending_.empty()) PublishSynced(now, unix_ms);
  while (!writes.empty()) {
    if (IsPressing()) KeepPace(now, unix_ms);  // of the group before, whoever's it was
    if (core_.tier == nullptr) {
      const std::size_t done = PutAtOnce(writes, now, unix_ms);
      writes = writes.subspan(done);
      if (done > 0) continue;
    }
    const std::size_t some = writes.size() == 1 ? 1 : GroupSize(writes);
    const std::size_t done = CommitSome(writes.first(some), now, unix_ms);
    writes = writes.subspan(done);
    if (done == some) continue;
    owed_.sizes = true;
    const Room room = MakeRoomFor(writes.front(), now, unix_ms);
    if (room == Room::kNow) continue;
    if (room == Room::kLater) {
      for (Write& write : writes) write.status = absl::AbortedError("no room until dead memory has rested");
      core_.metrics.Add(Counter::kWritesPutOff, 1);
      break;
    }
    const std::size_t run = RunOf(writes.front());
    const absl::Status never = run > 0 ? NoRun(run) : Full();
    if (writes.front().reserved != nullptr) core_.log.TakeBack(PlaceOf(*writes.front().reserved));
    const std::size_t refused = BatchSize(writes);
    for (Write& write : writes.first(refused)) write.status = never;
    writes = writes.subspan(refused);
  }
  RestFromNow();
  Owe(now, unix_ms);
}

std::size_t Store::Impl::CommitSome(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  sweeper_.Flush();  // so that the tier does not show what was removed to make room
  const std::uint64_t keys = core_.index.entry_count();
  const std::uint64_t written = core_.log.bytes_appended(ValueLog::Head::kWrites);
  staged_.clear();
  staged_.reserve(writes.size());  // views into its elements must stay good
  if (!group_growth_.empty()) group_growth_.clear();
  group_is_one_ = writes.size() == 1;
  if (!group_is_one_) group_keys_.Begin(writes.size());
  group_has_synced_ = false;
  group_is_on_disk_ = false;
  ReservePending();

  std::size_t done = 0;
  std::size_t foreseen = 0;
  while (done < writes.size()) {
    if (done >= foreseen && !group_is_one_) foreseen = done + Foresee(writes.subspan(done));
    const std::size_t some = BatchSize(writes.subspan(done));
    Write& first = writes[done];
    first.status = some == 1 && !first.begins_batch ? Stage(first, now, unix_ms)
                                                    : StageBatch(writes.subspan(done, some), now, unix_ms);
    if (!first.status.ok()) {
      if (absl::IsAborted(first.status)) break;
      if (decided_on_pending_) refused_.push_back(&first);
    }
    for (Write& write : writes.subspan(done + 1, some - 1)) write.status = first.status;
    done += some;
  }
  if (staged_.empty()) {
    AwaitRefusals();
    return done;
  }
  SealAll();
  if (core_.tier != nullptr) {
    logged_before_ = core_.tier->logged_to();
    const absl::Status durable = MakeDurable();
    if (sync_failed_.ok()) NoteDisk(durable);
    if (!durable.ok()) {
      Abandon(durable);
      AwaitRefusals();
      return done;
    }
  }
  PublishOrAwait(now);
  AwaitRefusals();
  if (group_is_on_disk_) {  // and so is all that was pending before it
    synced_to_ = last_ticket_;
    PublishSynced(now, unix_ms);
  }
  if (core_.tier != nullptr) SetChangesEnd();
  NoteGroup(done, keys, written);
  return done;
}

// --- Stage ----------------------------------------------------------------------------------------------

absl::Status Store::Impl::Stage(Write& write, TimePoint now, std::int64_t unix_ms) {
  Staged& staged = staged_.emplace_back();
  staged.write = &write;
  decided_on_pending_ = false;
  if (write.reserved != nullptr) {
    staged.place = PlaceOf(*write.reserved);
    owed_.sizes = true;
  }
  absl::Status status = Check(write, core_.tier == nullptr ? Durability::kMemory : Durability::kSynced);
  if (status.ok()) status = CopyAndVerify(staged, now);
  if (status.ok()) status = Decide(staged, now, unix_ms);
  if (status.ok()) {
    Hold(staged);
  } else {
    const bool stays_reserved = write.reserved != nullptr && absl::IsAborted(status);
    if (staged.place.extent_code != 0 && !stays_reserved) core_.log.TakeBack(staged.place);
    staged_.pop_back();
  }
  return status;
}

absl::Status Store::Impl::StageBatch(std::span<Write> batch, TimePoint now, std::int64_t unix_ms) {
  REMORA_RETURN_IF_ERROR(CheckBatch(batch));
  const std::size_t before = staged_.size();
  in_batch_ = true;
  batch_changes_.clear();
  absl::Status status;
  std::size_t number = 0;
  for (; number < batch.size() && status.ok(); ++number) {
    batch[number].durability = batch.front().durability;
    status = Stage(batch[number], now, unix_ms);
  }
  in_batch_ = false;
  if (status.ok()) {
    SyncAllOrNone(std::span(staged_).subspan(before));
    return status;
  }
  UnstageTo(before);
  return absl::Status(
      status.code(),
      absl::StrCat("write ", number, " of the batch, of which nothing was done: ", status.message()));
}

void Store::Impl::UnstageTo(std::size_t count) {
  for (; staged_.size() > count; staged_.pop_back(), batch_changes_.pop_back()) {
    const Staged& staged = staged_.back();
    const Change& change = batch_changes_.back();
    if (change.growth != 0) group_growth_[change.bucket] -= change.growth;
    *change.last = change.before;
    TakeBack(staged);
  }
}

// The caller's bytes are read once, into the copy. Everything after looks at the copy only: whoever shares
// the original with us may change it at any moment. What was reserved is the copy already: nobody else can
// write it any more.
absl::Status Store::Impl::CopyAndVerify(Staged& staged, TimePoint now) {
  const Write& write = *staged.write;
  if (write.reserved != nullptr) {
    staged.key = core_.log.Key(staged.place);
    staged.value = core_.log.Value(staged.place);
  } else if (write.kind == Write::Kind::kPut) {
    const std::optional<Place> place = core_.log.Append(ValueLog::Head::kWrites, write.key, write.value, now);
    if (!place) return absl::AbortedError("no room in the log");
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
  staged.value_hash = HashValue(staged.value.data(), staged.value.size());
  if (write.verify != nullptr && !write.verify(write.verify_context, staged.key_hash, staged.value_hash)) {
    return Damaged();
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::Damaged() {
  return absl::DataLossError(
      "what was sent was damaged on its way: key and value do not match their checksum; nothing was done");
}

absl::Status Store::Impl::Decide(Staged& staged, TimePoint now, std::int64_t unix_ms) {
  const Write& write = *staged.write;
  std::uint32_t* const last =
      group_is_one_ ? nullptr : &group_keys_.LastOf(staged.key_hash, [&](std::uint32_t number) {
        return staged_[number].key == staged.key;
      });
  Known& old = staged.old;
  if (last != nullptr && *last != GroupKeys::kNone) {
    old = KnownOf(staged_[*last]);
  } else {
    REMORA_RETURN_IF_ERROR(Look(staged, &old));
  }
  decided_on_pending_ = old.unsynced;
  // One that has expired counts for nothing, but keeps its slot until it is removed.
  const bool known = old.place.has_value() || old.cold || old.unloaded;
  const bool exists = known && !HasExpired(old.expiry_ms, unix_ms);
  const bool modifies = write.kind != Write::Kind::kPut && !staged.is_delete();
  const bool adds = modifies && write.kind != Write::Kind::kTouch;
  if (!exists && (staged.is_delete() || (modifies && !adds))) return NoSuchKey();
  REMORA_RETURN_IF_ERROR(CheckCondition(write.condition, exists, old.version));
  if (modifies) REMORA_RETURN_IF_ERROR(Modify(staged, old, exists, now));
  if (adds && exists && !write.ttl) {
    staged.expiry_ms = old.expiry_ms;
  } else if (!staged.is_delete()) {
    staged.expiry_ms = ExpiryOf(unix_ms, write.ttl.value_or(default_ttl_));
    if (HasExpired(staged.expiry_ms, unix_ms)) {
      return absl::OutOfRangeError("it is to expire at a moment that is over; nothing was done");
    }
  }

  // Behind one that is synced, each is: they become visible in order.
  staged.synced = LevelOf(write) == Durability::kSynced || old.unsynced;

  // A cold key's record comes to a slot of its own. The slot of a delete that waits is not free when others
  // of the group become visible.
  const bool takes_slot = !staged.is_delete() && !old.place;
  const bool frees_slot = staged.is_delete() && (old.place || old.cold) && !staged.synced;
  Change change;
  if (takes_slot || frees_slot) {
    change.bucket = core_.index.MainBucketOf(staged.key_hash);
    change.growth = takes_slot ? 1 : -1;
    std::int64_t& growth = group_growth_[change.bucket];
    if (takes_slot && !core_.index.Reserve(staged.key_hash,
                                           static_cast<std::size_t>(std::max<std::int64_t>(growth + 1, 0)))) {
      return absl::AbortedError("no room in the index");
    }
    growth += change.growth;
  }
  // Of those staged, each has the next; so a condition can be about a write of the same group.
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

Store::Impl::Known Store::Impl::KnownOf(const Staged& earlier) {
  Known known;
  known.unsynced = earlier.synced;
  if (earlier.is_delete()) return known;
  known.place = earlier.place;
  known.expiry_ms = earlier.expiry_ms;
  known.version = earlier.version;
  return known;
}

absl::Status Store::Impl::Look(const Staged& staged, Known* known) const {
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
  const bool loaded = core_.coverage.Knows(staged.key);
  const bool cold = loaded && core_.index.FindCold(staged.key_hash).has_value();
  // Who overwrites what is not loaded, whatever it is, need not know.
  const bool overwrites = staged.write->kind == Write::Kind::kPut && staged.write->condition.is_none();
  const bool unloaded = !loaded && !overwrites;
  if (!cold && !unloaded) return absl::OkStatus();
  // The cold entry is this key's, or another's with this hash: only the tier tells.
  known->is_looked_up = false;
  const absl::Status read = core_.tier->Get(staged.key, [&](const DurableTier::Entry& stored) {
    *known = {std::nullopt, cold, unloaded, stored.header.expiry_ms, stored.header.version};
    return absl::OkStatus();
  });
  return absl::IsNotFound(read) ? absl::OkStatus() : read;
}

// --- SealAll, MakeDurable -------------------------------------------------------------------------------

void Store::Impl::SealAll() {
  for (const Staged& staged : staged_) {
    REMORA_CHECK(staged.version == core_.next_version);
    ++core_.next_version;
    if (staged.is_delete()) continue;
    core_.log.Seal(staged.place, staged.version, staged.expiry_ms, staged.key_hash, staged.value_hash);
  }
  REMORA_CHECK(core_.next_version < kMaxVersion);
}

absl::Status Store::Impl::MakeDurable() {
  REMORA_RETURN_IF_ERROR(sync_failed_);
  for (const Staged& staged : staged_) {
    if (staged.is_delete()) {
      core_.tier->Delete(staged.key);
    } else {
      core_.tier->Put(staged.key, {.version = staged.version, .expiry_ms = staged.expiry_ms}, staged.value);
    }
    const Write& write = *staged.write;
    if (write.request.client != 0) core_.tier->PutOutcome(write.request, staged.version, write.result);
  }
  const bool logged = std::ranges::any_of(
      staged_, [&](const Staged& staged) { return LevelOf(*staged.write) != Durability::kMemory; });
  const bool raises = core_.next_version > core_.tier->version_limit();
  if (raises) core_.tier->SetVersionLimit(core_.next_version + kVersionBlock);
  REMORA_RETURN_IF_ERROR(
      core_.tier->Write(logged || raises ? DurableTier::Log::kWritten : DurableTier::Log::kSkipped));
  // A version that somebody has seen never comes again, even where the machine fails and takes it back. For
  // the other case: sync_queue.cc, S3.
  group_is_on_disk_ = raises || (group_has_synced_ && core_.is_loading());
  return group_is_on_disk_ ? SyncNow() : absl::OkStatus();
}

// The group's versions stay used: it may be on disk after all.
void Store::Impl::Abandon(const absl::Status& why) {
  const absl::Status status = absl::UnavailableError(
      absl::StrCat(why.message(), " (this write is not visible; whether a restart shows it is unknown)"));
  for (auto staged = staged_.rbegin(); staged != staged_.rend(); ++staged) {
    staged->write->status = status;
    if (!sync_failed_.ok()) core_.unsynced_keys.Set(staged->key, {});  // the tier may have it, and may not
    TakeBack(*staged);
  }
}

void Store::Impl::TakeBack(const Staged& staged) {
  if (staged.place.extent_code == 0) return;
  if (staged.held) core_.log.LetGo(staged.place, core_.clock.Now());
  core_.log.TakeBack(staged.place);
}

// --- Publish --------------------------------------------------------------------------------------------

void Store::Impl::Publish(const Staged& staged, TimePoint now) {
  const Known& old = staged.old;
  const std::optional<Index::Entry> entry =
      old.is_looked_up ? old.entry : core_.index.Find(staged.key, staged.key_hash);
  std::optional<Index::ColdEntry> cold;
  // One that was in memory may have been evicted while the write waited for the disk.
  if (old.cold || (old.place && !entry)) {
    cold = core_.index.FindCold(staged.key_hash);
    REMORA_CHECK(cold.has_value());  // Decide said so
  }
  // I5: the old record is dead before the slot leads elsewhere. Only then does the new one live, so that at
  // each moment a key has at most one live record.
  if (entry) core_.log.Kill(entry->place);
  if (!entry)
    core_.coverage.Note(staged.key);  // it may come to be loaded (store/recovery/index_loader.h, L2)

  if (staged.is_delete()) {
    REMORA_CHECK(entry.has_value() || cold.has_value() || core_.is_loading());  // Decide said so
    if (entry) {
      core_.index.Erase(staged.key_hash, *entry);
    } else if (cold) {
      core_.index.EraseCold(*cold);
    }
    core_.metrics.CountOne(Counter::kDeletes);
  } else {
    core_.log.MakeLive(staged.place);
    if (entry) {
      core_.index.Replace(*entry, staged.place);
    } else if (cold) {
      core_.index.Warm(staged.key_hash, *cold, staged.place, now);
    } else {
      core_.index.Insert(staged.key_hash, staged.place, now);
    }
    core_.NoteRead(staged.key_hash);  // a write is a use, too
    core_.metrics.CountOne(staged.write->kind == Write::Kind::kTouch ? Counter::kTouches : Counter::kPuts);
    staged.write->slot =
        EncodeSlot({Fingerprint(staged.key_hash), staged.place.extent_code, staged.place.offset_units});
  }
  staged.write->version = staged.version;
}

}  // namespace remora
