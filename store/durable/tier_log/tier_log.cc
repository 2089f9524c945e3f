#include "store/durable/tier_log/tier_log.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/random_id.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_file.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr char kLogFolder[] = "commit-log";

constexpr std::uint64_t kFilesOfLog = 16;
// Holds a group with a value of the largest size, its key, and 1 MiB of other entries.
constexpr std::uint64_t kMaxLogFileBytes = kMaxValueSize + (std::uint64_t{1} << 20);

// Bytes that tables take beside their records, approximately.
constexpr std::uint64_t kTablesSpace = std::uint64_t{1} << 20;

// Deleted keys that are not applied take memory beside the log.
constexpr std::size_t kManyDeletes = 65536;

/// Removes applied_to and the openings, which refer to a log that does not exist here. A restored backup of a
/// store with a log has them. Also removes the number of the last group, because without a log, the store may
/// have written outside of that history; a copy of a primary's files has not.
absl::Status ForgetOtherLog(const TierLogOptions& options) {
  constexpr std::string_view kWhat = "forget the commit log of the store that was backed up";
  REMORA_ASSIGN_OR_RETURN(const std::vector<Opening> openings, ReadLogOpenings(options.db, options.meta));
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Delete(options.meta, LogApplier::kAppliedToKey);
  if (status.ok() && !options.keeps_group_number) {
    status = batch.Delete(options.meta, {kGroupNumberKey.data(), kGroupNumberKey.size()});
  }
  for (const Opening& opening : openings) {
    if (status.ok()) status = batch.Delete(options.meta, LogOpeningKey(Lsn{opening.found}));
  }
  if (status.ok()) status = options.db->Write({}, &batch);
  return ToStatus(status, kWhat);
}

}  // namespace

std::uint64_t LogFileSizeFor(std::uint64_t max_bytes) {
  const std::uint64_t share = max_bytes / kFilesOfLog / kLogFileUnit * kLogFileUnit;
  return share >= kMaxValueSize ? kMaxLogFileBytes : std::max(share, kMinLogFileSize);
}

// --- Opening --------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<TierLog>> TierLog::Open(const TierLogOptions& options) {
  if (options.max_bytes < kMinTierLogBytes) {
    return absl::InvalidArgumentError(absl::StrCat("open: a commit log of ", options.max_bytes,
                                                   " bytes is too small; give at least ", kMinTierLogBytes));
  }
  REMORA_ASSIGN_OR_RETURN(const Lsn applied_to, LogApplier::ReadAppliedTo(options.db, options.meta));
  std::unique_ptr<TierLog> tier(new TierLog(options, applied_to));
  const auto replay = [&tier](const LogGroup& group) { return tier->applier_.Replay(group); };
  REMORA_ASSIGN_OR_RETURN(tier->log_, CommitLog::Open({.dir = options.dir,
                                                       .file_size = tier->file_size_,
                                                       .max_bytes = options.max_bytes,
                                                       .retention = options.retention,
                                                       .incarnation = RandomId(),
                                                       .replay_from = applied_to,
                                                       .is_of_this_boot = options.is_of_this_boot,
                                                       .writer = options.writer},
                                                      replay));
  REMORA_RETURN_IF_ERROR(tier->applier_.Start(*tier->log_));
  tier->woken_at_ = tier->log_->appended();
  return tier;
}

absl::Status TierLog::CheckUse(const DataDir& dir, bool with_log) {
  if (with_log || !dir.has_commit_log()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(AbslView(kStoreDir.name), " ", dir.path(),
                   " has a commit log, which holds a part of the data: open it with "
                   "StoreOptions::commit_log_bytes (kvserver: without --commit_log=off)"));
}

std::string TierLog::DirIn(const DataDir& dir) { return absl::StrCat(dir.path(), "/", kLogFolder); }

absl::StatusOr<std::unique_ptr<TierLog>> TierLog::OpenIn(DataDir& dir, TierLogOptions options) {
  options.dir = DirIn(dir);
  options.is_of_this_boot = dir.is_of_this_boot();
  if (dir.has_commit_log()) return Open(options);
  // After this flush, tables have everything that RocksDB's own log has, and that log is never written
  // again (C11). A folder that exists here stems from an earlier call that failed before MarkLogged.
  REMORA_RETURN_IF_ERROR(ForgetOtherLog(options));
  REMORA_RETURN_IF_ERROR(ToStatus(options.db->Flush({}, {options.entries, options.meta}),
                                  "flush what an earlier store has logged"));
  std::error_code error;
  std::filesystem::remove_all(options.dir, error);
  if (error || !std::filesystem::create_directory(options.dir, error)) {
    return MarkedByErrno(error.value(), absl::UnavailableError(absl::StrCat("cannot make ", options.dir, ": ",
                                                                            error.message())));
  }
  REMORA_RETURN_IF_ERROR(SyncDirectory(dir.path()));
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<TierLog> log, Open(options));
  REMORA_RETURN_IF_ERROR(dir.MarkLogged());
  return log;
}

absl::StatusOr<std::vector<Opening>> TierLog::AddOpening(std::uint64_t incarnation) {
  REMORA_ASSIGN_OR_RETURN(std::vector<Opening> openings, ReadLogOpenings(options_.db, options_.meta));
  const Opening& opening = openings.emplace_back(Opening{incarnation, appended().value});
  group_.PutMeta(LogOpeningKey(Lsn{opening.found}),
                 {reinterpret_cast<const char*>(&opening), sizeof(opening)});
  const std::size_t old = openings.size() - std::min(openings.size(), kOpenings);
  for (std::size_t i = 0; i < old; ++i) group_.PutMeta(LogOpeningKey(Lsn{openings[i].found}), {});
  openings.erase(openings.begin(), openings.begin() + static_cast<std::ptrdiff_t>(old));
  REMORA_RETURN_IF_ERROR(Write());
  return openings;
}

// --- The group ------------------------------------------------------------------------------------------

absl::Status TierLog::Write() {
  if (group_.entries().empty()) return absl::OkStatus();
  const bool is_numbered = numbers_.is_on();
  if (is_numbered) numbers_.Add(&group_);
  const std::span<const LogEntry> entries = group_.entries();
  const std::uint64_t size = LogGroupSize(entries);
  const Lsn before = appended();
  REMORA_CHECK(size != 0);  // the write pipeline has checked all bounds
  absl::Status status;
  if (may_show_failed()) {
    status = MarkedAsDiskFailure(absl::UnavailableError("write: a large write failed; open the store again"));
  } else if (size > log_->max_group_bytes()) {
    status = WriteUnlogged();
  } else {
    const absl::StatusOr<Lsn> lsn = Append(entries);
    status = lsn.status();
    if (status.ok()) {
      NoteDeletes(*lsn);
      if (*lsn - woken_at_ >= applier_.apply_bytes()) {
        woken_at_ = *lsn;
        applier_.Advance();
      }
    }
  }
  if (is_numbered && status.ok()) numbers_.NoteWritten(entries, before);
  group_.Clear();
  if (status.ok()) SlowDown(size);
  return status.ok() ? status : WithMarksOf(status, absl::UnavailableError(status.message()));
}

absl::StatusOr<Lsn> TierLog::Append(std::span<const LogEntry> entries) {
  absl::StatusOr<Lsn> lsn = log_->Append(entries);
  if (absl::IsResourceExhausted(lsn.status())) {
    REMORA_RETURN_IF_ERROR(PersistAll());
    lsn = log_->Append(entries);
  }
  return lsn;
}

absl::Status TierLog::CheckSpace() {
  absl::Status status = log_->CheckSpace();
  if (absl::IsResourceExhausted(status)) {
    REMORA_RETURN_IF_ERROR(PersistAll());
    status = log_->CheckSpace();
  }
  return status;
}

absl::Status TierLog::WriteUnlogged() {
  // RocksDB would keep and show the write after a flush that failed. So the space for the tables comes first.
  const std::uint64_t tables = appended() - persisted_to() + LogGroupSize(group_.entries());
  REMORA_RETURN_IF_ERROR(CheckDiskSpace(options_.dir, tables + tables / 8 + kTablesSpace));
  // The mark precedes the write: after a crash RocksDB may have the write, even if Write has not returned.
  const LogEntry gap = {.kind = LogEntryKind::kMeta, .key = kGapKey, .value = "-"};
  REMORA_RETURN_IF_ERROR(Append({&gap, 1}).status());
  const auto applied = [this] {
    may_show_failed_.store(true, std::memory_order_relaxed);
    NoteDeletes(appended());
  };
  REMORA_RETURN_IF_ERROR(applier_.ApplyUnlogged(group_.entries(), applied));
  may_show_failed_.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

// --- Deletions that RocksDB does not have yet (C6) ------------------------------------------------------

void TierLog::NoteDeletes(Lsn lsn) {
  if (!group_.has_delete() && deletes_.empty()) return;
  if (deletes_.Note(group_.entries(), lsn, applied_to()) >= kManyDeletes) applier_.Hurry();  // C12
}

// --- Slow writers (C10) ---------------------------------------------------------------------------------

// The pause for each byte grows linearly, from 0 when half of the log is filled. Two files do not count as
// space: the spare, and the oldest file, of which only a part is still needed. While a scan waits for the
// applier, the pause is the longest, so that the applier catches up.
void TierLog::SlowDown(std::uint64_t bytes) {
  const auto space = static_cast<double>(options_.max_bytes - 2 * file_size_);
  const double fill = IsViewAwaited() ? 1 : 2 * static_cast<double>(appended() - persisted_to()) / space - 1;
  pace_.SlowDown(fill, bytes);
}

}  // namespace remora
