#include "store/write/group_follower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/write/staged_write.h"
#include "store/write/write.h"

namespace remora {

absl::Status GroupFollower::Apply(std::uint64_t number, std::string_view bytes) {
  const absl::StatusOr<ShippedGroup> group = ReadShippedGroup(number, bytes);
  const WriterLock lock(core_.mutex);
  REMORA_RETURN_IF_ERROR(CheckNext(number));
  REMORA_RETURN_IF_ERROR(group.status());
  REMORA_RETURN_IF_ERROR(CheckVersions(*group));
  const TimePoint now = core_.clock.Now();
  absl::Status status = ApplyChecked(*group, now, core_.clock.UnixMillisAt(now));
  if (absl::IsResourceExhausted(status)) GiveUp();
  changes_.clear();  // views into the caller's bytes
  status.ok() ? maintenance_.PayAllDebt() : maintenance_.Finish();
  return status;
}

absl::Status GroupFollower::CheckNext(std::uint64_t number) const {
  if (!core_.is_following()) {
    return absl::FailedPreconditionError(
        "apply group: the store follows no primary; open it with StoreOptions::follows");
  }
  REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());
  const std::uint64_t next = core_.tier->group_number() + 1;
  if (number == next) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("apply group: the next group is ", next, ", not ", number,
                                                    "; ship the groups in their order"));
}

absl::Status GroupFollower::CheckVersions(const ShippedGroup& group) const {
  const std::uint64_t limit = std::max(group.version_limit, core_.tier->version_limit());
  const bool goes_back = group.version_limit != 0 && group.version_limit < core_.tier->version_limit();
  const bool is_old = knows_versions_ && group.first_version != 0 && group.first_version < core_.next_version;
  if (!goes_back && !is_old && group.last_version < limit) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "group ", group.number, " of the primary was not applied: its versions, ", group.first_version, " to ",
      group.last_version, ", do not follow those before; copy the data of the primary anew"));
}

absl::Status GroupFollower::ApplyChecked(const ShippedGroup& group, TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t keys = core_.index.entry_count();
  const std::uint64_t written = core_.log.bytes_appended(ValueLog::Head::kWrites);
  if (group.checksum != staged_checksum_) GiveUp();
  staged_checksum_ = group.checksum;
  CollectChanges(group);
  REMORA_RETURN_IF_ERROR(StageRecords(now, unix_ms));
  REMORA_RETURN_IF_ERROR(ReserveSlots(now, unix_ms));
  REMORA_RETURN_IF_ERROR(FindColdKeys());
  REMORA_RETURN_IF_ERROR(Log(group));
  if (group.is_copied) {  // X5 of store/slot_transfer.h
    core_.disk.NoteSync(core_.tier->ApplyLog());
    REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());
  }
  for (const Change& change : changes_) Publish(change, now);
  staged_.clear();
  core_.next_version = std::max(core_.next_version, group.last_version + 1);
  maintenance_.AddGroup(changes_.size(), keys, written);
  maintenance_.AddDebt(now, unix_ms);
  return absl::OkStatus();
}

// The state of a key after the group is that of its last write, so the others need no record.
void GroupFollower::CollectChanges(const ShippedGroup& group) {
  changes_.clear();
  absl::flat_hash_map<absl::string_view, std::size_t> numbers;
  for (const LogEntry& entry : group.entries) {
    // A primary that had more slots has logged the keys of others (O1 of owned_slots.h).
    if (entry.kind == LogEntryKind::kMeta || !core_.slots.Has(entry.key)) continue;
    const auto [at, is_new] = numbers.try_emplace(AbslView(entry.key), changes_.size());
    if (is_new) changes_.push_back({.entry = {}, .key_hash = HashKey(entry.key)});
    changes_[at->second].entry = entry;
  }
  std::size_t records = 0;
  for (Change& change : changes_) {
    if (change.entry.kind == LogEntryKind::kPut) change.record = records++;
  }
}

absl::Status GroupFollower::StageRecords(TimePoint now, std::int64_t unix_ms) {
  for (const Change& change : changes_) {
    const LogEntry& entry = change.entry;
    if (entry.kind != LogEntryKind::kPut || change.record < staged_.size()) continue;
    std::optional<Place> place;
    while (!(place = core_.log.Append(ValueLog::Head::kWrites, entry.key, entry.value, now))) {
      REMORA_RETURN_IF_ERROR(MakeSpace(LargeBytes(entry.key.size(), entry.value.size()), now, unix_ms));
    }
    core_.log.Seal(*place, entry.version, entry.expiry_ms, change.key_hash,
                   HashValue(entry.value.data(), entry.value.size()));
    core_.log.Pin(*place);
    staged_.push_back(*place);
  }
  return absl::OkStatus();
}

absl::Status GroupFollower::ReserveSlots(TimePoint now, std::int64_t unix_ms) {
  for (;;) {
    growth_.clear();
    bool fits = true;
    for (const Change& change : changes_) {
      if (change.entry.kind != LogEntryKind::kPut || core_.index.Find(change.entry.key, change.key_hash))
        continue;
      const std::size_t more = ++growth_[core_.index.MainBucketOf(change.key_hash)];
      fits = core_.index.Reserve(change.key_hash, more);
      if (!fits) break;
    }
    if (fits) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(MakeSpace(/*run=*/0, now, unix_ms));
  }
}

// A cold entry has a hash only, so the tier says whether it is this key's (store/write/write_stage.cc does
// the same).
absl::Status GroupFollower::FindColdKeys() {
  for (Change& change : changes_) {
    const std::string_view key = change.entry.key;
    if (core_.index.Find(key, change.key_hash) || !core_.coverage.Covers(key)) continue;
    if (!core_.FindCold(key, change.key_hash)) continue;
    const bool has_views = core_.ordered != nullptr && core_.ordered->has_views();
    const absl::Status stored = core_.tier->Get(key, [&](const DurableTier::Entry& entry) {
      if (has_views) {
        change.old = core_.ordered->CopyOf(entry.header.version, entry.header.expiry_ms, entry.value);
      }
      return absl::OkStatus();
    });
    if (!stored.ok() && !absl::IsNotFound(stored)) return stored;
    change.is_cold = stored.ok();
  }
  return absl::OkStatus();
}

absl::Status GroupFollower::Log(const ShippedGroup& group) {
  if (!knows_versions_ && group.first_version != 0) {
    core_.next_version = group.first_version;
    core_.tier->ExpectVersionsFrom(group.first_version);
    knows_versions_ = true;
  }
  return core_.NoteTierWrite(core_.tier->WriteFollowed(group));
}

void GroupFollower::Publish(const Change& change, TimePoint now) {
  Write write;
  StagedWrite staged;
  staged.write = &write;
  staged.key = change.entry.key;
  staged.key_hash = change.key_hash;
  staged.version = change.entry.version;
  staged.expiry_ms = change.entry.expiry_ms;
  staged.old.is_looked_up = true;
  staged.old.entry = core_.index.Find(staged.key, staged.key_hash);
  staged.old.cold = change.is_cold;
  staged.old.record = change.old;
  if (change.entry.kind == LogEntryKind::kDelete) {
    write.kind = Write::Kind::kDelete;
    // The primary repeats deletions of expired keys of which it does not know whether the disk has them.
    const bool is_there = staged.old.entry || change.is_cold || core_.is_loading();
    if (is_there) pipeline_.Publish(staged, now);
    return;
  }
  staged.place = staged_[change.record];
  pipeline_.Publish(staged, now);
  core_.log.Unpin(staged.place, now);
}

absl::Status GroupFollower::MakeSpace(std::size_t run, TimePoint now, std::int64_t unix_ms) {
  space_.ReleaseRetired(now);
  SpaceResult result = space_.MakeSpace(now, unix_ms);
  if (result == SpaceResult::kAvailable && run > 0) result = space_.MakeRun(run, now, unix_ms);
  switch (result) {
    case SpaceResult::kAvailable:
      return absl::OkStatus();
    case SpaceResult::kRetryLater:
      return absl::AbortedError(
          "apply group: no space until the grace period of retired memory ends; try again later");
    case SpaceResult::kFull:
      break;
  }
  return run > 0 ? space_.NoRunError(run) : space_.FullError();
}

void GroupFollower::GiveUp() {
  for (; !staged_.empty(); staged_.pop_back()) {
    core_.log.Unpin(staged_.back(), core_.clock.Now());
    core_.log.Rollback(staged_.back());
  }
  staged_checksum_ = 0;
}

}  // namespace remora
