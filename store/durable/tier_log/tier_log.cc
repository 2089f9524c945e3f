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
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_file.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr char kLogFolder[] = "commit-log";

constexpr std::uint64_t kFilesOfLog = 16;
// Holds a group with a value of the largest size, its key, and 1 MiB of other entries.
constexpr std::uint64_t kMostLogFile = kMaxValueSize + (std::uint64_t{1} << 20);
constexpr std::uint64_t kMostApplied = std::uint64_t{8} << 20;
// A step takes twice as much memory: a copy, and RocksDB's batch.
constexpr std::uint64_t kMostOfStep = std::uint64_t{16} << 20;
// Share of the log that may wait for the applier. A restart replays it, and the first scan waits for it.
constexpr std::uint64_t kLazyShare = 16;

// Pause between two looks of the applier. If it hurries, a longer pause merges more versions of a key; a
// shorter one leaves less work to a caller that waits for it.
constexpr std::chrono::milliseconds kApplyPause{100};

// Pace of a writer when the log is full: 10 MB/s, which the flushes of any disk can follow.
constexpr double kSlowestNsPerByte = 100;
constexpr double kWorthSleepingNs = 100'000;
constexpr double kLongestSleepNs = 10'000'000;

// Bytes that tables take beside their records, approximately.
constexpr std::uint64_t kTablesRoom = std::uint64_t{1} << 20;

// Deleted keys that are not applied take memory beside the log.
constexpr std::size_t kManyDeletes = 65536;

// Number of entries whose memory the next group may use again.
constexpr std::size_t kKeptEntries = 4096;

/// Removes applied_to and the openings, which refer to a log that does not exist here. A restored backup
/// of a store with a log has them.
absl::Status ForgetOtherLog(const TierLogOptions& options) {
  constexpr std::string_view kWhat = "forget the commit log of the store that was backed up";
  REMORA_ASSIGN_OR_RETURN(const std::vector<Opening> openings, ReadLogOpenings(options.db, options.meta));
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Delete(options.meta, LogApplier::kAppliedToKey);
  for (const Opening& opening : openings) {
    if (status.ok()) status = batch.Delete(options.meta, LogOpeningKey(Lsn{opening.found}));
  }
  if (status.ok()) status = options.db->Write({}, &batch);
  return ToStatus(status, kWhat);
}

}  // namespace

std::uint64_t LogFileSizeFor(std::uint64_t max_bytes) {
  const std::uint64_t share = max_bytes / kFilesOfLog / kLogFileUnit * kLogFileUnit;
  return share >= kMaxValueSize ? kMostLogFile : std::max(share, kMinLogFileSize);
}

// --- Opening (C5) ---------------------------------------------------------------------------------------

TierLog::TierLog(const TierLogOptions& options, Lsn applied_to)
    : options_(options),
      file_size_(LogFileSizeFor(options.max_bytes)),
      apply_bytes_(std::min(kMostApplied, options.max_bytes / kFilesOfLog)),
      step_bytes_(std::min(kMostOfStep, options.max_bytes / kFilesOfLog)),
      persist_bytes_(std::min(options.write_buffer_bytes, options.max_bytes / 4)),
      applier_({.db = options.db,
                .entries = options.entries,
                .meta = options.meta,
                .way = ApplyWay::kInsert,
                .dir = {}},
               applied_to),
      pace_(options.max_bytes / kLazyShare),
      applied_to_(applied_to.value),
      persisted_to_(applied_to.value) {}

absl::StatusOr<std::unique_ptr<TierLog>> TierLog::Open(const TierLogOptions& options)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (options.max_bytes < kMinTierLogBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a commit log of ", options.max_bytes,
                                                   " bytes; allowed are at least ", kMinTierLogBytes));
  }
  REMORA_ASSIGN_OR_RETURN(const Lsn applied_to, LogApplier::ReadAppliedTo(options.db, options.meta));
  std::unique_ptr<TierLog> tier(new TierLog(options, applied_to));
  const MutexLock lock(tier->apply_mutex_);  // uncontended: no other thread has the object yet
  const auto replay = [&tier](const LogGroup& group)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return tier->Replay(group); };
  REMORA_ASSIGN_OR_RETURN(tier->log_, CommitLog::Open({.dir = options.dir,
                                                       .file_size = tier->file_size_,
                                                       .max_bytes = options.max_bytes,
                                                       .retention = options.retention,
                                                       .incarnation = RandomId(),
                                                       .replay_from = applied_to,
                                                       .is_of_this_boot = options.is_of_this_boot,
                                                       .writer = options.writer},
                                                      replay));
  REMORA_RETURN_IF_ERROR(tier->ApplyAdded());
  const Lsn from = std::max(tier->applier_.applied_to(), tier->log_->first());
  REMORA_ASSIGN_OR_RETURN(tier->reader_, tier->log_->Read(from));
  tier->NoteMoment();
  tier->log_->Recycle(tier->persisted_to());
  tier->woken_at_ = tier->log_->appended();
  if (options.applying == LogApplying::kInThread) {
    TierLog* const log = tier.get();
    REMORA_ASSIGN_OR_RETURN(tier->applier_thread_,
                            StartThread([log] { return std::thread([log] { log->RunApplier(); }); }));
    REMORA_ASSIGN_OR_RETURN(tier->persister_thread_,
                            StartThread([log] { return std::thread([log] { log->RunPersister(); }); }));
  }
  return tier;
}

absl::Status TierLog::CheckUse(const DataDir& dir, bool with_log) {
  if (with_log || !dir.has_commit_log()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(AbslView(kStoreDir.name), " ", dir.path(),
                   " has a commit log, which holds a part of the data: open it with "
                   "StoreOptions::commit_log_bytes (kvserver --commit_log=SIZE)"));
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

absl::Status TierLog::Replay(const LogGroup& group) {
  applier_.Add(group);
  if (applier_.bytes() < step_bytes_) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(ApplyAdded());
  if (applied_to() - persisted_to() < persist_bytes_) return absl::OkStatus();
  // C4: an earlier process may have appended the group without a sync.
  if (!files_are_synced_) REMORA_RETURN_IF_ERROR(SyncLogFiles(options_.dir));
  files_are_synced_ = true;
  REMORA_RETURN_IF_ERROR(Flush());
  persisted_to_.store(applier_.applied_to().value, std::memory_order_release);
  return absl::OkStatus();
}

TierLog::~TierLog() {
  {
    const MutexLock lock(thread_mutex_);
    stops_ = true;
  }
  wanted_changed_.notify_all();
  if (applier_thread_.joinable()) applier_thread_.join();
  if (persister_thread_.joinable()) persister_thread_.join();
}

absl::StatusOr<std::vector<Opening>> TierLog::AddOpening(std::uint64_t incarnation) {
  REMORA_ASSIGN_OR_RETURN(std::vector<Opening> openings, ReadLogOpenings(options_.db, options_.meta));
  const Opening& opening = openings.emplace_back(Opening{incarnation, appended().value});
  PutMeta(LogOpeningKey(Lsn{opening.found}), {reinterpret_cast<const char*>(&opening), sizeof(opening)});
  const std::size_t old = openings.size() - std::min(openings.size(), kOpenings);
  for (std::size_t i = 0; i < old; ++i) PutMeta(LogOpeningKey(Lsn{openings[i].found}), {});
  openings.erase(openings.begin(), openings.begin() + static_cast<std::ptrdiff_t>(old));
  REMORA_RETURN_IF_ERROR(Write());
  return openings;
}

// --- The group ------------------------------------------------------------------------------------------

void TierLog::Put(std::string_view key, const StoredHeader& header, std::string_view value) {
  entries_.push_back({.kind = LogEntryKind::kPut,
                      .version = header.version,
                      .expiry_ms = header.expiry_ms,
                      .key = key,
                      .value = value});
}

void TierLog::Delete(std::string_view key, std::uint64_t version) {
  entries_.push_back({.kind = LogEntryKind::kDelete, .version = version, .key = own_.emplace_back(key)});
  has_delete_ = true;
}

void TierLog::PutMeta(std::string_view key, std::string_view value) {
  const std::string_view own_key = own_.emplace_back(key);
  entries_.push_back({.kind = LogEntryKind::kMeta, .key = own_key, .value = own_.emplace_back(value)});
}

void TierLog::PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result) {
  REMORA_CHECK(!entries_.empty() && entries_.back().version == version);
  entries_.back().request = request;
  entries_.back().result = result;
}

void TierLog::DeleteClient(std::uint64_t client) {
  PutMeta(ClientKey(client), {});
  for (std::uint64_t number = 0; number < kCompletionsPerClient; ++number) {
    PutMeta(CompletionKey({client, number}), {});
  }
}

absl::Status TierLog::Write() {
  if (entries_.empty()) return absl::OkStatus();
  const std::uint64_t size = LogGroupSize(entries_);
  REMORA_CHECK(size != 0);  // the write pipeline has checked all bounds
  absl::Status status;
  if (may_show_failed()) {
    status = MarkedAsDiskFailure(absl::UnavailableError("a large write failed; open the store again"));
  } else if (size > log_->max_group_bytes()) {
    status = WriteUnlogged();
  } else {
    const absl::StatusOr<Lsn> lsn = Append(entries_);
    status = lsn.status();
    if (status.ok()) {
      NoteDeletes(*lsn);
      if (*lsn - woken_at_ >= apply_bytes_) HaveApplied(*lsn);
    }
  }
  Clear();
  if (status.ok()) SlowDown(size);
  return status.ok() ? status : WithMarksOf(status, absl::UnavailableError(status.message()));
}

void TierLog::HaveApplied(Lsn lsn) {
  woken_at_ = lsn;
  if (options_.applying == LogApplying::kByWriter) {
    // The next step tries again, as in RunApplier.
    ApplyAll().IgnoreError();
    PersistStep().IgnoreError();
  } else {
    Wake(Step::kApply);
  }
}

absl::StatusOr<Lsn> TierLog::Append(std::span<const LogEntry> entries) {
  absl::StatusOr<Lsn> lsn = log_->Append(entries);
  if (absl::IsResourceExhausted(lsn.status())) {
    REMORA_RETURN_IF_ERROR(PersistAll());
    lsn = log_->Append(entries);
  }
  return lsn;
}

absl::Status TierLog::WriteUnlogged() {
  // RocksDB would keep and show the write after a flush that failed. So the space for the tables comes first.
  const std::uint64_t tables = appended() - persisted_to() + LogGroupSize(entries_);
  REMORA_RETURN_IF_ERROR(CheckDiskRoom(options_.dir, tables + tables / 8 + kTablesRoom));
  // The mark precedes the write: after a crash RocksDB may have the write, even if Write has not returned.
  const LogEntry gap = {.kind = LogEntryKind::kMeta, .key = kGapKey, .value = "-"};
  REMORA_RETURN_IF_ERROR(Append({&gap, 1}).status());
  {
    const MutexLock lock(apply_mutex_);
    REMORA_RETURN_IF_ERROR(ApplyTo(appended()));
    REMORA_RETURN_IF_ERROR(applier_.ApplyUnlogged(entries_));
    may_show_failed_.store(true, std::memory_order_relaxed);
    NoteMoment();
    NoteDeletes(appended());
    applied_version_.store(std::max(applied_version_.load(), applier_.applied_version()));
  }
  const MutexLock lock(persist_mutex_);
  REMORA_RETURN_IF_ERROR(Persist());
  may_show_failed_.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

void TierLog::Clear() {
  if (entries_.capacity() > kKeptEntries) {
    entries_ = {};
  } else {
    entries_.clear();
  }
  if (!own_.empty()) own_.clear();
  has_delete_ = false;
}

// --- Deletions that RocksDB does not have yet (C6) ------------------------------------------------------

void TierLog::NoteDeletes(Lsn lsn) {
  if (!has_delete_ && !has_deletes_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(deletes_mutex_);
  while (!deletes_in_order_.empty() && deletes_in_order_.front().first <= applied_to().value) {
    const auto& [at, key] = deletes_in_order_.front();
    const auto found = deletes_.find(key);
    if (found != deletes_.end() && found->second == at) deletes_.erase(found);
    deletes_in_order_.pop_front();
  }
  for (const LogEntry& entry : entries_) {
    if (entry.kind == LogEntryKind::kPut) deletes_.erase(AbslView(entry.key));
    if (entry.kind != LogEntryKind::kDelete) continue;
    deletes_[AbslView(entry.key)] = lsn.value;
    deletes_in_order_.emplace_back(lsn.value, entry.key);
  }
  if (deletes_in_order_.size() >= kManyDeletes) pace_.Ask();  // C12
  // Release: RocksDB has the deletions that are dropped here (see IsDeleted).
  has_deletes_.store(!deletes_.empty(), std::memory_order_release);
}

bool TierLog::IsDeleted(std::string_view key) const {
  // Acquire: this thread's next reads of RocksDB see the deletions that were applied and dropped.
  if (!has_deletes_.load(std::memory_order_acquire)) return false;
  const MutexLock lock(deletes_mutex_);
  const auto found = deletes_.find(AbslView(key));
  return found != deletes_.end() && found->second > applied_to().value;
}

bool TierLog::Holds(std::uint64_t version) {
  pace_.Ask();  // C12: later calls are about later versions
  // Acquire: from here on, this thread's reads of RocksDB see the applied groups.
  if (version <= applied_version_.load(std::memory_order_acquire)) return true;
  // An evictor asks for many records. RocksDB rejects each attempt after a failed flush.
  const bool is_tried_by_thread = options_.applying == LogApplying::kInThread;
  if (is_tried_by_thread && apply_failed_.load(std::memory_order_relaxed)) return false;
  const Lsn until = appended();
  const MutexLock lock(apply_mutex_);
  while (version > applied_version_.load() && applied_to() < until) {
    if (!ApplyTo(until, applied_to() + apply_bytes_).ok()) break;  // applied_version_ says how far it came
  }
  return version <= applied_version_.load(std::memory_order_acquire);
}

// --- Applying (C3, C4) ----------------------------------------------------------------------------------

absl::Status TierLog::Sync() { return log_->Sync().status(); }

absl::Status TierLog::ApplyAll() {
  const Lsn until = appended();
  if (applied_to() >= until) return absl::OkStatus();
  const MutexLock lock(apply_mutex_);
  return ApplyTo(until);
}

absl::Status TierLog::ApplyTo(Lsn until, Lsn enough) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const absl::Status status = ApplyGroupsTo(until, enough);
  apply_status_ = status;
  apply_failed_.store(!status.ok(), std::memory_order_relaxed);
  if (status.ok() && applied_to() >= until) applied_at_ = begin;  // `until` is of a moment before
  return status;
}

absl::Status TierLog::ApplyGroupsTo(Lsn until, Lsn enough) {
  if (flush_is_open_) REMORA_RETURN_IF_ERROR(Sync());  // T2
  for (;;) {
    if (reader_->end() >= enough) return ApplyAdded();
    if (applier_.bytes() >= step_bytes_) REMORA_RETURN_IF_ERROR(ApplyAdded());
    REMORA_ASSIGN_OR_RETURN(const bool more, reader_->Next(until));
    if (!more) return ApplyAdded();
    applier_.Add(reader_->group());
  }
}

absl::Status TierLog::ApplyAdded() {
  const TimePoint begin = std::chrono::steady_clock::now();
  REMORA_RETURN_IF_ERROR(applier_.Apply());
  if (reader_ != nullptr) NoteMoment();  // before applied_to_: see OpenView
  const std::uint64_t version = applier_.applied_version();
  if (version > applied_version_.load()) applied_version_.store(version, std::memory_order_release);
  applied_to_.store(applier_.applied_to().value, std::memory_order_release);
  TellProgress(begin);
  return absl::OkStatus();
}

void TierLog::TellProgress(std::optional<TimePoint> begin) {
  if (!take_progress_) return;
  const TimePoint now = std::chrono::steady_clock::now();
  const Lsn persisted = persisted_to();  // first, as it never passes the next one, nor that the end
  const Lsn applied = applied_to();
  const Lsn end = appended();
  LogProgress progress;
  progress.unapplied_bytes = end - applied;
  progress.unpersisted_bytes = end - persisted;
  if (applied < end) progress.lag = now - applied_at_;
  progress.slowed = slowed_.load(std::memory_order_relaxed);
  progress.slowed_for = slowed();
  if (begin) progress.write_time = now - *begin;
  take_progress_(progress);
}

absl::Status TierLog::Persist() {
  {
    const MutexLock lock(apply_mutex_);
    flush_is_open_ = true;
  }
  flush_failed_.store(true, std::memory_order_relaxed);
  REMORA_RETURN_IF_ERROR(Sync());  // C4; by T2 it also holds for all that is applied from here on
  options_.flusher->ResumeIfStopped(options_.db);  // if that fails, so does the flush
  const Lsn target = applied_to();
  REMORA_RETURN_IF_ERROR(Flush());
  {
    const MutexLock lock(apply_mutex_);
    flush_is_open_ = false;
  }
  persisted_to_.store(target.value, std::memory_order_release);
  flush_failed_.store(false, std::memory_order_relaxed);
  log_->Recycle(target);
  return absl::OkStatus();
}

absl::Status TierLog::PersistAll() {
  const MutexLock lock(persist_mutex_);
  REMORA_RETURN_IF_ERROR(ApplyAll());
  return Persist();
}

bool TierLog::HasToPersist() const {
  const Lsn persisted = persisted_to();  // first, as it never passes applied_to()
  return flush_failed_.load() || apply_failed_.load() || applied_to() - persisted >= persist_bytes_;
}

absl::Status TierLog::PersistStep() {
  const MutexLock lock(persist_mutex_);
  return HasToPersist() ? Persist() : absl::OkStatus();
}

void TierLog::Wake(Step step) {
  {
    const MutexLock lock(thread_mutex_);
    wanted_[static_cast<std::size_t>(step)] = true;
  }
  wanted_changed_.notify_all();
}

bool TierLog::WaitFor(Step step) {
  MutexLock lock(thread_mutex_);
  bool& wanted = wanted_[static_cast<std::size_t>(step)];
  const auto until = std::chrono::steady_clock::now() + kApplyPause;
  while (!wanted && !stops_) {
    if (step == Step::kPersist) {
      lock.Wait(wanted_changed_);
    } else if (!lock.WaitUntil(wanted_changed_, until)) {
      break;
    }
  }
  wanted = false;
  return !stops_;
}

bool TierLog::IsStepDue() {
  const TimePoint now = std::chrono::steady_clock::now();
  const Lsn applied = applied_to();  // first, as it never passes appended()
  const std::uint64_t backlog = appended() - applied;
  const MutexLock lock(apply_mutex_);
  if (backlog == 0) applied_at_ = std::max(applied_at_, now);
  return pace_.IsDue(backlog, now - applied_at_, now) || !apply_status_.ok();
}

void TierLog::RunApplier() {
  while (WaitFor(Step::kApply)) {
    // On an error, the next round tries again. Meanwhile the log fills, until Append returns the error.
    if (IsStepDue()) ApplyAll().IgnoreError();
    TellProgress();
    if (HasToPersist()) Wake(Step::kPersist);
  }
}

void TierLog::RunPersister() {
  while (WaitFor(Step::kPersist)) PersistStep().IgnoreError();  // the applier wakes it again
}

// --- Slow writers (C10) ---------------------------------------------------------------------------------

// The pause for each byte grows linearly, from 0 when half of the log is filled. Two files do not count as
// space: the spare, and the oldest file, of which only a part is still needed. While a scan waits for the
// applier, the pause is the longest, so that the applier catches up.
void TierLog::SlowDown(std::uint64_t bytes) {
  const auto room = static_cast<double>(options_.max_bytes - 2 * file_size_);
  const double fill = IsViewAwaited() ? 1 : 2 * static_cast<double>(appended() - persisted_to()) / room - 1;
  if (fill <= 0) return;
  owed_ns_ += std::min(fill, 1.0) * kSlowestNsPerByte * static_cast<double>(bytes);
  if (owed_ns_ < kWorthSleepingNs) return;
  const auto pause = static_cast<std::int64_t>(std::min(owed_ns_, kLongestSleepNs));
  owed_ns_ = 0;
  slowed_ns_.fetch_add(pause, std::memory_order_relaxed);
  slowed_.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
}

}  // namespace remora
