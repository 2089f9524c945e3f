#include "store/durable/tier.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/shortage.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/backup_engine.h"
#include "store/durable/commit_log/log_file.h"
#include "store/durable/data_dir.h"
#include "store/durable/rocksdb_options.h"
#include "store/durable/status.h"
#include "store/durable/tier_impl.h"
#include "store/durable/tier_log/shipped_group.h"
#include "store/durable/tier_log/tier_log.h"
#include "store/durable/wal/wal_archive.h"
#include "store/durable/wal/wal_change_feed.h"
#include "store/durable/wal/wal_recovery.h"

namespace remora {
namespace {

constexpr char kMetaFamily[] = "meta";
// Larger than any memtable, so that RocksDB flushes none by itself; TierLog does.
constexpr std::size_t kNeverFull = std::size_t{64} << 30;

/// Has RocksDB flush no memtable by itself. The filter is still a share of the bytes that one takes in truth.
void MakeNeverFull(std::size_t write_buffer_bytes, rocksdb::ColumnFamilyOptions* options) {
  options->memtable_prefix_bloom_size_ratio *=
      static_cast<double>(write_buffer_bytes) / static_cast<double>(kNeverFull);
  options->write_buffer_size = kNeverFull;
}

// Bytes of a batch's memory that the next batch may use again.
constexpr std::size_t kKeptBatch = std::size_t{1} << 20;

// Space on a disk that has failed a write before another one is tried.
constexpr std::uint64_t kTriedSpace = std::uint64_t{1} << 20;

template <typename T>
rocksdb::Slice BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

absl::Status DurableTier::Impl::Open(const DurableTierOptions& options) {
  const std::uint64_t log_bytes = options.read_only ? 0 : options.commit_log_bytes;
  if (!options.read_only) {
    REMORA_RETURN_IF_ERROR(TierLog::CheckUse(*dir_, log_bytes > 0));
    REMORA_RETURN_IF_ERROR(dir_->CheckShard(options.shard));
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
      {rocksdb::kDefaultColumnFamilyName, DataOptions(options.block_cache_bytes, options.write_buffer_bytes)},
      {kMetaFamily, MetaOptions(options.write_buffer_bytes)}};

  for (auto& family : descriptors) {
    if (log_bytes > 0) MakeNeverFull(options.write_buffer_bytes, &family.options);
  }
  rocksdb::DBOptions database =
      DatabaseOptions(dir_->fresh(), options.log_retention, /*has_own_log=*/log_bytes == 0);
  database.env = files_.env();
  database.max_open_files = MaxOpenTables(options.max_open_files);
  flusher_ = std::make_shared<Flusher>(log_bytes > 0 ? ResumedBy::kFlusher : ResumedBy::kRocksdb);
  database.listeners.push_back(flusher_->listener());
  database.listeners.push_back(kept_.listener());
  const RecoveryOptions recovery{.meta = kMetaFamilyIndex,
                                 .is_of_this_boot = dir_->is_of_this_boot(),
                                 .boot_file = dir_->boot_file(),
                                 .read_only = options.read_only};
  rocksdb::DB* db = nullptr;
  std::vector<std::string> torn;
  REMORA_ASSIGN_OR_RETURN(const rocksdb::Status opened, StartThread([&] {
                            return OpenDatabase(database, dir_->path(), descriptors, recovery, &families_,
                                                &db, &torn);
                          }));
  REMORA_RETURN_IF_ERROR(Translate(opened));
  db_.reset(db);
  log_was_torn_ = !torn.empty();
  if (!options.read_only) {
    if (!dir_->is_of_this_boot()) DropDamagedLogs(dir_->path());  // RocksDB could not list any of them
    TrimLogArchive(dir_->path(), options.log_retention);
  }
  if (!options.read_only) REMORA_RETURN_IF_ERROR(dir_->NoteShard(options.shard));
  if (dir_->fresh()) REMORA_RETURN_IF_ERROR(dir_->MarkComplete());
  if (log_bytes > 0) {
    REMORA_ASSIGN_OR_RETURN(
        log_, TierLog::OpenIn(*dir_, {.db = db_.get(),
                                      .entries = data(),
                                      .meta = meta(),
                                      .flusher = flusher_,
                                      .max_bytes = log_bytes,
                                      .keeps_group_number = options.keeps_group_number,
                                      .write_buffer_bytes = options.write_buffer_bytes,
                                      .applying = options.applies_in_steps ? LogApplying::kByWriter
                                                                           : LogApplying::kInThread,
                                      .retention = options.log_retention}));
  }
  if (options.read_only && dir_->has_commit_log()) {
    REMORA_ASSIGN_OR_RETURN(overlay_, ReadLogOverlay({.dir = TierLog::DirIn(*dir_),
                                                      .db = db_.get(),
                                                      .entries = data(),
                                                      .meta = meta(),
                                                      .is_of_this_boot = dir_->is_of_this_boot()}));
  }
  log_was_torn_ = log_was_torn_ || overlay_.log_was_torn || (log_ != nullptr && log_->was_torn());
  // A log that a power cut has torn does not belong to this boot. As long as it exists, NoteBoot has to
  // wait: a later Open would take the log for one of this boot.
  const auto is_there = [](const std::string& log) { return std::filesystem::exists(log); };
  if (!options.read_only && std::ranges::none_of(torn, is_there)) {
    REMORA_RETURN_IF_ERROR(dir_->NoteBoot());
  }
  REMORA_RETURN_IF_ERROR(ReadVersionLimit());
  REMORA_RETURN_IF_ERROR(ReadStoredGroupNumber());
  if (log_ != nullptr) log_->Begin(version_limit_);
  return absl::OkStatus();
}

absl::Status DurableTier::Impl::WriteToRocksdb(Log log) {
  REMORA_RETURN_IF_ERROR(log_failed_);
  // A reader may see the new values before RocksDB returns, and even if the write fails.
  if (next_limit_ > readable_limit_.load(std::memory_order_relaxed)) {
    readable_limit_.store(next_limit_, std::memory_order_relaxed);  // relaxed: see TryParse
  }
  rocksdb::WriteOptions options;
  options.disableWAL = log == Log::kSkipped;
  options.sync = false;  // the page cache has it: it survives the process, but not the machine; see Sync
  // Relaxed: an older value is true, too.
  const SyncedMark mark{synced_.load(std::memory_order_relaxed)};
  const bool marks = log == Log::kWritten && mark.sequence != marked_;
  if (marks) REMORA_CHECK(batch_.Put(meta(), SyncedMark::kKey, BytesOf(mark)).ok());  // it only copies
  rocksdb::Status status =
      log == Log::kWritten ? files_.PrepareWrite(batch_.GetDataSize()) : rocksdb::Status::OK();
  if (status.ok()) status = db_->Write(options, &batch_);
  if (batch_.GetDataSize() <= kKeptBatch) {
    batch_.Clear();
  } else {
    batch_ = rocksdb::WriteBatch();
  }
  if (!status.ok()) {
    // The log file may end in half a record now, so RocksDB rejects all further writes to it. After a
    // full disk or a shortage, RocksDB moves by itself to a new log file, once there is space for a
    // whole write buffer. After any other error, it rejects writes until it is opened again. RocksDB
    // never replaces a log file without a record (F2 of files.h).
    next_limit_ = version_limit_;
    const absl::Status why = Translate(status);
    const bool goes_on = IsDiskFull(status) || WillPass(status);
    if (goes_on && !files_.has_dead_log()) return WithMarksOf(why, absl::UnavailableError(why.message()));
    const absl::Status final =
        WithMarksOf(why, absl::UnavailableError(absl::StrCat(
                             "the store takes no more writes until it is opened again: ", why.message())));
    if (goes_on) log_failed_ = final;
    return final;
  }
  version_limit_ = next_limit_;
  if (marks) marked_ = mark.sequence;
  if (log == Log::kWritten) {
    files_.NoteWritten();
    // Release: a thread that reads this number and then syncs finds the write in the log.
    logged_.store(db_->GetLatestSequenceNumber(), std::memory_order_release);
  } else {
    skipped_log_.store(true, std::memory_order_relaxed);  // a feed that reads the log may find a gap
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DurableTier>> DurableTier::Open(const std::string& path,
                                                               const DurableTierOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<DataDir> dir,
                          options.read_only ? DataDir::OpenToRead(path) : DataDir::Open(path));
  auto impl = std::make_unique<Impl>(std::move(dir));
  REMORA_RETURN_IF_ERROR(impl->Open(options));
  return std::unique_ptr<DurableTier>(new DurableTier(std::move(impl)));
}

DurableTier::DurableTier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DurableTier::~DurableTier() = default;

bool DurableTier::has_commit_log() const { return impl_->log_ != nullptr; }
std::string DurableTier::commit_log_description() const {
  return has_commit_log() ? impl_->log_->description() : "";
}
bool DurableTier::Holds(std::uint64_t version) const {
  return impl_->log_ == nullptr || impl_->log_->Holds(version);
}
absl::Status DurableTier::apply_status() const {
  return has_commit_log() ? impl_->log_->apply_status() : absl::OkStatus();
}
bool DurableTier::may_show_failed() const { return has_commit_log() && impl_->log_->may_show_failed(); }
bool DurableTier::log_was_torn() const { return impl_->log_was_torn_; }

std::uint64_t DurableTier::version_limit() const { return impl_->version_limit_; }

void DurableTier::Put(std::string_view key, const StoredHeader& header, std::string_view value) {
  if (impl_->log_ != nullptr) return impl_->log_->group().Put(key, header, value);
  const rocksdb::Slice key_part = ToSlice(key);
  const std::array<rocksdb::Slice, 2> value_parts = {BytesOf(header), ToSlice(value)};
  const rocksdb::Status status =
      impl_->batch_.Put(impl_->data(), rocksdb::SliceParts(&key_part, 1),
                        rocksdb::SliceParts(value_parts.data(), static_cast<int>(value_parts.size())));
  REMORA_CHECK(status.ok());  // it only copies
}

void DurableTier::Delete(std::string_view key, std::uint64_t version) {
  if (impl_->log_ != nullptr) return impl_->log_->group().Delete(key, version);
  REMORA_CHECK(impl_->batch_.Delete(impl_->data(), ToSlice(key)).ok());  // it only copies
}

void DurableTier::Forget(std::string_view key) { impl_->log_->group().Delete(key, 0, kForgottenMark); }

void DurableTier::MarkSlots() { impl_->log_->group().PutMeta(kSlotsKey, "-"); }

void DurableTier::MarkCopied() { impl_->log_->group().PutMeta(kCopiedKey, "-"); }

void DurableTier::SetVersionLimit(std::uint64_t limit) {
  impl_->next_limit_ = limit;
  if (impl_->log_ != nullptr) return impl_->log_->group().PutMeta(kVersionLimitKey, ViewOf(BytesOf(limit)));
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), kVersionLimitKey, BytesOf(limit)).ok());  // it only copies
}

absl::Status DurableTier::Write(Log log) {
  return impl_->log_ != nullptr ? impl_->WriteLogged() : impl_->WriteToRocksdb(log);
}

absl::Status DurableTier::TryToWrite() {
  // A small group alone could find space where the next one does not.
  REMORA_RETURN_IF_ERROR(has_commit_log() ? impl_->log_->CheckSpace()
                                          : CheckDiskSpace(impl_->dir_->path(), kTriedSpace));
  SetVersionLimit(impl_->version_limit_);  // as it is
  return Write();
}

void DurableTier::WatchLog(std::function<void(const LogProgress&)> take) {
  if (impl_->log_ != nullptr) impl_->log_->WatchProgress(std::move(take));
}

absl::Status DurableTier::Begin(std::uint64_t incarnation) {
  REMORA_ASSIGN_OR_RETURN(impl_->openings_, has_commit_log() ? impl_->log_->AddOpening(incarnation)
                                                             : AddOpening(*impl_->db_, *impl_->meta(),
                                                                          impl_->place(), incarnation));
  if (!has_commit_log()) impl_->files_.NoteWritten();
  if (has_commit_log()) impl_->log_->numbers().Restore(impl_->group_number_);  // the opening is in no history
  impl_->logged_.store(impl_->db_->GetLatestSequenceNumber(), std::memory_order_relaxed);
  return absl::OkStatus();
}

std::uint64_t DurableTier::logged_to() const {
  if (impl_->log_ != nullptr) return impl_->log_->appended().value;
  return impl_->logged_.load(std::memory_order_relaxed);
}

// --- Groups of a replicated store -----------------------------------------------------------------------

std::uint64_t DurableTier::group_number() const { return impl_->log_->numbers().last(); }

absl::Status DurableTier::BeginShipping(GroupSink* sink) {
  impl_->log_->numbers().Begin(sink);
  SetVersionLimit(impl_->version_limit_);
  const absl::Status written = Write();
  if (!written.ok()) EndShipping();
  return written;
}

void DurableTier::EndShipping() { impl_->log_->numbers().End(); }

void DurableTier::AcknowledgeGroups(std::uint64_t number) { impl_->log_->numbers().Acknowledge(number); }

std::uint64_t DurableTier::acknowledged_to() const {
  if (impl_->log_ == nullptr) return logged_to();
  return impl_->log_->numbers().AcknowledgedTo(impl_->log_->appended()).value;
}

absl::Status DurableTier::WriteFollowed(const ShippedGroup& group) {
  TierLog& log = *impl_->log_;
  for (const LogEntry& entry : group.entries) log.group().Add(entry);
  impl_->next_limit_ = std::max(group.version_limit, impl_->version_limit_);
  log.numbers().Follow(group.number);
  const absl::Status written = Write();
  if (!written.ok()) log.numbers().Follow(0);
  return written;
}

void DurableTier::ExpectVersionsFrom(std::uint64_t version) { impl_->log_->Begin(version); }

absl::Status DurableTier::ApplyLog() const { return impl_->log_->ApplyAll(); }
absl::StatusOr<std::unique_ptr<GroupHistory>> DurableTier::ReadGroups(std::uint64_t from) const {
  return impl_->log_->ReadGroups(from);
}

absl::StatusOr<std::uint64_t> DurableTier::Continue(const ChangePosition& position, std::uint64_t end) const {
  return remora::Continue(impl_->openings_, position, end);
}

absl::StatusOr<std::unique_ptr<ChangeLog>> DurableTier::ReadLog(std::uint64_t from) const {
  if (impl_->log_ != nullptr) return impl_->log_->ReadChanges(from);
  // Only writes of this opening may skip the log. A write that an earlier opening's log lacks was lost.
  const bool gaps =
      impl_->skipped_log_.load(std::memory_order_relaxed) && from > impl_->openings_.back().found;
  return ReadWalChanges(*impl_->db_, impl_->place(), from, gaps);
}

absl::Status DurableTier::Sync() {
  if (impl_->log_ != nullptr) return impl_->log_->Sync();
  // One caller at a time: of two callers, the system may report a failure only to one.
  const MutexLock lock(impl_->sync_mutex_);
  if (impl_->sync_failed_.ok()) impl_->sync_failed_ = impl_->Sync();
  return impl_->sync_failed_;
}

absl::Status DurableTier::VerifyTables() const {
  return impl_->Translate(impl_->db_->VerifyChecksum(ReadThrough()));
}

absl::StatusOr<BackupInfo> DurableTier::Backup(const std::string& dir, const BackupRequest& request) const {
  // C4: RocksDB must not flush by itself. Writes that are applied after PersistAll are in no table, so
  // the backup does not have them.
  REMORA_RETURN_IF_ERROR(has_commit_log()
                             ? impl_->log_->PersistAll()
                             : impl_->flusher_->Flush(impl_->db_.get(), {impl_->data(), impl_->meta()}));
  return CreateBackup(*impl_->db_, impl_->place(), dir, request);
}

absl::StatusOr<std::unique_ptr<StoreCopy>> DurableTier::BeginCopy() const {
  REMORA_RETURN_IF_ERROR(impl_->log_->PersistAll());  // C4, as for a backup
  return StoreCopy::Begin(*impl_->db_, impl_->dir_->path(), impl_->copy_pins_);
}

void DurableTier::PutClient(std::uint64_t client, std::int64_t since_ms) {
  if (impl_->log_ != nullptr)
    return impl_->log_->group().PutMeta(ClientKey(client), ViewOf(BytesOf(since_ms)));
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), ClientKey(client), BytesOf(since_ms)).ok());
}

void DurableTier::DeleteClient(std::uint64_t client) {
  if (impl_->log_ != nullptr) return impl_->log_->group().DeleteClient(client);
  const std::string key = ClientKey(client);
  const std::string end = key + static_cast<char>(kCompletionsPerClient);
  REMORA_CHECK(impl_->batch_.DeleteRange(impl_->meta(), key, end).ok());
}

void DurableTier::PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result) {
  if (impl_->log_ != nullptr) return impl_->log_->group().PutCompletion(request, version, result);
  const CompletionRecord completion{request.number, version, result};
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), CompletionKey(request), BytesOf(completion)).ok());
}

}  // namespace remora
