// The durable tier's commit log, and the applier that moves its groups to RocksDB (decision 0049). With it,
// RocksDB's own log is not used: a group of writes is durable once it stands in the commit log.
//
//   writer ── Write ──> CommitLog ── reader ──> LogApplier ──> memtables ── Persist ──> tables, applied_to
//                       C1, C2                  C3                          C4
//
//   C1   Write returns OK only when the whole group stands in the log, or is on the disk (T1).
//   C3   Groups are applied in their order, each with the LSN that it reaches, in one atomic step.
//   C4   Before RocksDB persists an applied_to, the log is synced to there; only then are files recycled.
//        So Persist alone flushes the memtables, and RocksDB has no bound for their size.
//   C5   Open applies the groups of the log behind applied_to, before any read.
//   C6   RocksDB has each record that memory forgets: Holds waits for the applier. Only a deleted key
//        leaves memory at once: IsDeleted knows the keys that RocksDB may still have.
//   C10  Writers are slowed as the log fills, and apply it themselves where it is full. Only a failure of the
//        disk refuses a write.
//   T1   A group that is larger than a file of the log goes to RocksDB at once, behind all that is logged.
//        It is on the disk when Write returns. The log has a mark in its place before (C8c).
//   T2   Once a flush has failed, RocksDB may try again by itself. Until one succeeds, the log is synced
//        before each step of the applier.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/change_log.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/commit_log/mutex.h"
#include "store/durable/completion_records.h"
#include "store/durable/data_dir.h"
#include "store/durable/format.h"
#include "store/durable/log_applier.h"
#include "store/durable/log_change_feed.h"
#include "store/durable/log_retention.h"

namespace remora {

/// Of TierLogOptions::max_bytes, at least.
inline constexpr std::uint64_t kMinTierLogBytes = std::uint64_t{1} << 20;

/// When the log is applied, beside Holds, ApplyAll and a full log, which wait for it.
enum class LogApplying : std::uint8_t {
  kInThread = 1,
  kByWriter = 2,  // Write, once enough was logged
  kOnDemand = 3,  // not at all: for tests
};

struct TierLogOptions {
  /// Of the log alone; it exists.
  std::string dir{};
  /// As LogApplierOptions; never flushes its memtables by itself. Outlives the log.
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  /// As CommitLogOptions.
  bool is_of_this_boot = false;
  LogWriterKind writer = LogWriterKind::kChoose;
  /// Of all files together; each has a sixteenth of it, and 64 MiB at most.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Applied and not persisted: about so many bytes at most, and a quarter of max_bytes.
  std::uint64_t write_buffer_bytes = std::uint64_t{64} << 20;
  LogApplying applying = LogApplying::kInThread;
  /// As CommitLogOptions.
  LogRetention retention{};
};

/// Thread Safety: Put to Write and Begin are for one thread at a time; the others for any.
class TierLog {
 public:
  /// Applies what the log holds (C5). Errors as CommitLog::Open and LogApplier. InvalidArgument: max_bytes is
  /// too small.
  static absl::StatusOr<std::unique_ptr<TierLog>> Open(const TierLogOptions& options);
  /// The same for a data directory, whose log it makes where there is none, once RocksDB's own log is in
  /// tables. `options`: without dir, is_of_this_boot. Errors as Store::Open.
  static absl::StatusOr<std::unique_ptr<TierLog>> OpenIn(DataDir& dir, TierLogOptions options);
  /// Where the log of a data directory is.
  static std::string DirIn(const DataDir& dir);
  /// FailedPrecondition: the directory has a log, and would be used without it.
  static absl::Status CheckUse(const DataDir& dir, bool with_log);
  /// Applies and flushes nothing: the log has it.
  ~TierLog();
  TierLog(const TierLog&) = delete;
  TierLog& operator=(const TierLog&) = delete;

  /// The log is this incarnation's from now on; returns those that it knows (C8d of log_change_feed.h). Once,
  /// before all else is written. Errors as Write, and DataLoss.
  absl::StatusOr<std::vector<Opening>> AddOpening(std::uint64_t incarnation);
  /// As ReadLogChanges.
  absl::StatusOr<std::unique_ptr<ChangeLog>> ReadChanges(std::uint64_t from) const {
    return ReadLogChanges(*log_, from);
  }

  /// RocksDB has all versions below this one that were ever written. Once, before Holds.
  void Begin(std::uint64_t version_limit) { applied_version_.store(version_limit - 1); }

  /// Add to the group. Put: the bytes stay until Write. The others copy.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  void Delete(std::string_view key, std::uint64_t version);
  /// No value: removes the key.
  void PutMeta(std::string_view key, std::string_view value);
  void PutOutcome(const RequestName& request, std::uint64_t version, std::int64_t result);
  void DeleteClient(std::uint64_t client);
  /// Appends the group (C1). Unavailable: it is not in the log, but may be in RocksDB if it was larger than a
  /// file.
  absl::Status Write();

  /// As CommitLog::Sync.
  absl::Status Sync();
  /// RocksDB shows all that was appended before. Unavailable, DataLoss.
  absl::Status ApplyAll();
  /// The same, and tables on the disk have it: so files of the log can be recycled, or a backup made.
  absl::Status PersistAll();
  /// Whether RocksDB has the write of this version, and all before (C6). False: it cannot take it.
  bool Holds(std::uint64_t version);
  /// Whether the key was deleted, and RocksDB may still have it (C6).
  bool IsDeleted(std::string_view key) const;

  /// Whether RocksDB may show a write that failed: one of T1 whose flush did. Then all later ones fail, too.
  bool may_show_failed() const { return may_show_failed_.load(std::memory_order_relaxed); }

  /// As DurableTier::log_was_torn.
  bool was_torn() const { return log_->was_torn(); }
  Lsn appended() const { return log_->appended(); }
  Lsn durable() const { return log_->durable(); }
  Lsn applied_to() const { return Lsn{applied_to_.load(std::memory_order_acquire)}; }
  Lsn persisted_to() const { return Lsn{persisted_to_.load(std::memory_order_acquire)}; }
  /// How long writers were made to wait (C10).
  std::chrono::nanoseconds slowed() const {
    return std::chrono::nanoseconds(slowed_ns_.load(std::memory_order_relaxed));
  }

 private:
  TierLog(const TierLogOptions& options, Lsn applied_to);

  absl::Status Replay(const LogGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  absl::Status ApplyTo(Lsn until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  absl::Status ApplyAdded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  absl::Status Persist() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Errors as CommitLog::Append; makes room where the log is full.
  absl::StatusOr<Lsn> Append(std::span<const LogEntry> entries);
  absl::Status WriteUnlogged();
  /// Applies all that is appended, and flushes where that is due.
  absl::Status ApplyStep();
  /// Once enough was appended.
  void HaveApplied(Lsn lsn);
  void RunApplier();
  void NoteDeletes(Lsn lsn);
  void Clear();
  /// C10. `bytes`: that were appended.
  void SlowDown(std::uint64_t bytes);

  const TierLogOptions options_;
  const std::uint64_t file_size_;
  const std::uint64_t apply_bytes_;    // read and sorted at a time
  const std::uint64_t persist_bytes_;  // of the log, from one flush to the next
  std::unique_ptr<CommitLog> log_;

  // The writer's: the group, and whose bytes are copies.
  std::vector<LogEntry> entries_;
  std::deque<std::string> own_;
  bool has_delete_ = false;
  Lsn woken_at_;
  double owed_ns_ = 0;

  LogMutex apply_mutex_;
  LogApplier applier_ ABSL_GUARDED_BY(apply_mutex_);
  std::unique_ptr<CommitLogReader> reader_ ABSL_GUARDED_BY(apply_mutex_);
  bool flush_failed_ ABSL_GUARDED_BY(apply_mutex_) = false;      // T2
  bool files_are_synced_ ABSL_GUARDED_BY(apply_mutex_) = false;  // while Open replays them

  // Stored under apply_mutex_.
  std::atomic<std::uint64_t> applied_to_;
  std::atomic<std::uint64_t> persisted_to_;
  std::atomic<std::uint64_t> applied_version_ = 0;
  std::atomic<std::int64_t> slowed_ns_ = 0;

  std::atomic<bool> may_show_failed_ = false;  // the writer's

  std::atomic<bool> has_deletes_ = false;
  mutable LogMutex deletes_mutex_;
  absl::flat_hash_map<std::string, std::uint64_t> deletes_ ABSL_GUARDED_BY(deletes_mutex_);  // to their LSNs
  std::deque<std::pair<std::uint64_t, std::string>> deletes_in_order_ ABSL_GUARDED_BY(deletes_mutex_);

  LogMutex thread_mutex_;
  std::condition_variable_any wanted_changed_;
  bool wanted_ ABSL_GUARDED_BY(thread_mutex_) = false;
  bool stops_ ABSL_GUARDED_BY(thread_mutex_) = false;
  std::thread thread_;
};

/// Returns when the disk has the files of the log in `dir`. Unavailable.
absl::Status SyncLogFiles(const std::string& dir);

}  // namespace remora
