#include "store/engine/replication.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora {

// --- A store that ships its groups ----------------------------------------------------------------------

absl::Status Replication::CheckSink(const GroupSink* sink) const {
  if (sink == nullptr)
    return absl::InvalidArgumentError("group sink: it is null; pass one, or remove one with DropGroupSink");
  if (core_.tier == nullptr || !core_.tier->has_commit_log()) {
    return absl::FailedPreconditionError(
        "group sink: only a store with a commit log ships its groups; open it as logged or synced, with "
        "StoreOptions::commit_log_bytes (kvserver: without --commit_log=off)");
  }
  if (core_.ships) {
    return absl::FailedPreconditionError("group sink: the store has one already; call DropGroupSink first");
  }
  // Before the load is over, synced writes are published under the lock (S3).
  if (core_.is_loading()) {
    return absl::FailedPreconditionError("group sink: the store loads; set it once that is over (loading())");
  }
  if (backups_ > 0) return absl::AbortedError("group sink: a backup is being made; set it after the backup");
  return core_.disk.sync_failure();
}

absl::Status Replication::BeginShipping(GroupSink* sink) {
  const std::uint64_t last = core_.tier->group_number();
  const absl::Status begun = core_.tier->BeginShipping(sink);
  core_.disk.NoteWrite(begun);
  REMORA_RETURN_IF_ERROR(begun);
  queue_.BeginGroups(last);
  core_.ships = true;
  queue_.UpdateChangesEnd();
  return absl::OkStatus();
}

absl::Status Replication::SetSink(GroupSink* sink) {
  const WriterLock lock(core_.mutex);
  if (core_.is_following()) {
    return absl::FailedPreconditionError("group sink: the store follows a primary; pass it to Promote");
  }
  REMORA_RETURN_IF_ERROR(CheckSink(sink));
  return BeginShipping(sink);
}

void Replication::DropSink() {
  WriterLock lock(core_.mutex);
  if (!core_.ships) return;
  core_.ships = false;
  core_.tier->EndShipping();
  queue_.EndGroups();
  PublishDue(lock);
}

absl::Status Replication::Acknowledge(std::uint64_t number) {
  WriterLock lock(core_.mutex);
  if (!core_.ships) {
    return absl::FailedPreconditionError("acknowledge: the store ships no groups; set a group sink first");
  }
  if (number > core_.tier->group_number()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "acknowledge: group ", number, " was not shipped yet; the last one is ", core_.tier->group_number()));
  }
  core_.tier->AcknowledgeGroups(number);
  queue_.Acknowledge(number);
  PublishDue(lock);
  return absl::OkStatus();
}

void Replication::PublishDue(WriterLock& lock) {
  pipeline_.PublishSynced(core_.clock.Now(), core_.clock.UnixMillis());
  queue_.UpdateChangesEnd();  // a group of expired keys has no pending write
  maintenance_.Finish();
  queue_.NotifyWaiters(lock);
}

std::uint64_t Replication::last_group() const {
  const WriterLock lock(core_.mutex);
  return core_.has_tier() && core_.tier->has_commit_log() ? core_.tier->group_number() : 0;
}

// New groups come all the time, so a cursor does not wait until none is pending. The visible writes are those
// of the groups up to changes_end, because all writes become visible in their order. If RocksDB has more
// already, the applier's next step is some 100 ms away, and the followers will have what it has now before.
absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> Replication::NewCursor(const ScanRange& range) {
  REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());
  if (queue_.is_within_group()) {
    return absl::AbortedError(
        "scan: a group of writes is visible in part, as space is missing; try again later");
  }
  std::unique_ptr<DurableTier::Cursor> cursor = core_.tier->NewCursor(
      range, core_.changes_end.load(std::memory_order_relaxed));  // only the writer stores it
  if (absl::IsAborted(cursor->status())) return cursor->status();
  return cursor;
}

// A group that the followers lack must not come into a backup. RocksDB has such groups, so a store that ships
// makes none.
absl::StatusOr<BackupInfo> Replication::Backup(const std::string& dir, std::uint32_t keep,
                                               std::stop_token stop) {
  std::uint64_t version = 0;
  {
    const WriterLock lock(core_.mutex);
    if (core_.ships) {
      return absl::FailedPreconditionError(
          "backup: a store that ships its groups makes none; back up a store that follows it");
    }
    ++backups_;
    version = core_.next_version - 1;
  }
  absl::StatusOr<BackupInfo> made = core_.tier->Backup(dir, {version, keep, std::move(stop)});
  const WriterLock lock(core_.mutex);
  --backups_;
  return made;
}

// Without the lock: the tier stays, and any thread may read its log.
absl::StatusOr<std::unique_ptr<GroupHistory>> Replication::ReadGroups(std::uint64_t from) const {
  if (!core_.has_tier() || !core_.tier->has_commit_log()) {
    return absl::OutOfRangeError("read groups: the store has no commit log, and so no groups");
  }
  return core_.tier->ReadGroups(from);
}

// Unlike a backup, a copy may have groups that the followers lack: the one that takes it is a follower, too.
absl::StatusOr<std::unique_ptr<StoreCopy>> Replication::BeginCopy() const {
  const std::uint64_t after = last_group();
  if (after == 0) {
    return absl::FailedPreconditionError("copy: the store has no numbered groups; begin it as a primary's");
  }
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<StoreCopy> copy, core_.tier->BeginCopy());
  copy->set_after(after);
  return copy;
}

// --- A store that follows -------------------------------------------------------------------------------

absl::StatusOr<std::uint64_t> Replication::SyncGroups() {
  const std::uint64_t last = last_group();
  const absl::Status synced = core_.has_tier() ? core_.tier->Sync() : absl::OkStatus();
  const WriterLock lock(core_.mutex);
  core_.disk.NoteSync(synced);
  REMORA_RETURN_IF_ERROR(core_.disk.sync_failure());
  return last;
}

absl::StatusOr<std::vector<ClientCompletions>> Replication::Promote(GroupSink* sink,
                                                                    std::uint64_t versions_from) {
  if (!core_.is_following()) {
    return absl::FailedPreconditionError(
        "promote: the store follows no primary; open it with StoreOptions::follows");
  }
  // Most of the work, without the lock.
  REMORA_RETURN_IF_ERROR(core_.tier->ApplyLog());
  const WriterLock lock(core_.mutex);
  if (sink != nullptr) REMORA_RETURN_IF_ERROR(CheckSink(sink));
  REMORA_RETURN_IF_ERROR(core_.tier->ApplyLog());
  REMORA_ASSIGN_OR_RETURN(std::vector<ClientCompletions> completions, core_.tier->Clients());
  if (sink != nullptr) REMORA_RETURN_IF_ERROR(BeginShipping(sink));
  follower_.GiveUp();
  // G8 of group_sink.h: the primary has used no version beyond the limit in any group that was applied.
  core_.next_version = std::max(core_.next_version, core_.tier->version_limit());
  core_.next_version = std::max(core_.next_version, versions_from);
  core_.follows.store(false, std::memory_order_relaxed);
  maintenance_.Finish();
  return completions;
}

}  // namespace remora
