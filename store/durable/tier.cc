#include "store/durable/tier.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/backup_engine.h"
#include "store/durable/data_dir.h"
#include "store/durable/files.h"
#include "store/durable/range_split.h"
#include "store/durable/rocksdb_options.h"
#include "store/durable/status.h"
#include "store/durable/tier_log.h"
#include "store/durable/wal_archive.h"
#include "store/durable/wal_change_feed.h"
#include "store/durable/wal_recovery.h"
#include "store/format/memory/layout.h"

namespace remora {
namespace {

// The families, as they are opened.
constexpr std::size_t kData = 0;
constexpr std::size_t kMeta = 1;
constexpr char kMetaFamily[] = "meta";
constexpr char kVersionLimitKey[] = "version_limit";
// Larger than what is in memory ever is: TierLog flushes.
constexpr std::size_t kNeverFull = std::size_t{64} << 30;

// Of a batch's memory, up to so much is kept for the next one.
constexpr std::size_t kKeptBatch = std::size_t{1} << 20;

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
rocksdb::Slice ToSlice(std::string_view view) { return {view.data(), view.size()}; }

template <typename T>
rocksdb::Slice BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

class DurableTier::Impl {
 public:
  explicit Impl(std::unique_ptr<DataDir> dir) : dir_(std::move(dir)) {}
  ~Impl() {
    log_.reset();
    for (rocksdb::ColumnFamilyHandle* family : families_) delete family;
  }

  absl::Status Open(const DurableTierOptions& options) {
    const std::uint64_t log_bytes = options.read_only ? 0 : options.commit_log_bytes;
    REMORA_RETURN_IF_ERROR(TierLog::CheckUse(*dir_, log_bytes > 0));
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
        {rocksdb::kDefaultColumnFamilyName,
         DataOptions(options.block_cache_bytes, options.write_buffer_bytes)},
        {kMetaFamily, MetaOptions(options.write_buffer_bytes)}};

    for (auto& family : descriptors) {
      if (log_bytes > 0) family.options.write_buffer_size = kNeverFull;
    }
    rocksdb::DBOptions database = DatabaseOptions(dir_->fresh(), options.log_retention);
    database.env = files_.env();
    database.max_open_files = MaxOpenTables(options.descriptors);
    const RecoveryOptions recovery{.meta = kMeta,
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
    if (dir_->fresh()) REMORA_RETURN_IF_ERROR(dir_->MarkComplete());
    if (log_bytes > 0) {
      REMORA_ASSIGN_OR_RETURN(
          log_, TierLog::OpenIn(*dir_, {.db = db_.get(),
                                        .entries = data(),
                                        .meta = meta(),
                                        .max_bytes = log_bytes,
                                        .write_buffer_bytes = options.write_buffer_bytes,
                                        .applying = options.applies_in_steps ? LogApplying::kByWriter
                                                                             : LogApplying::kInThread,
                                        .retention = options.log_retention}));
    }
    // A log that was torn by a power cut must not be taken for one of this boot, should it still be there.
    const auto is_there = [](const std::string& log) { return std::filesystem::exists(log); };
    if (!options.read_only && std::ranges::none_of(torn, is_there)) {
      REMORA_RETURN_IF_ERROR(dir_->NoteBoot());
    }
    REMORA_RETURN_IF_ERROR(ReadVersionLimit());
    if (log_ != nullptr) log_->Begin(version_limit_);
    return absl::OkStatus();
  }

  /// As Write, to the commit log.
  absl::Status WriteLogged() {
    if (next_limit_ > readable_limit_.load(std::memory_order_relaxed)) {
      readable_limit_.store(next_limit_, std::memory_order_relaxed);  // relaxed: see TryParse
    }
    const absl::Status status = log_->Write();
    (status.ok() ? version_limit_ : next_limit_) = status.ok() ? next_limit_ : version_limit_;
    return status;
  }

  std::string place() const { return absl::StrCat(AbslView(kStoreDir.name), " ", dir_->path()); }
  absl::Status Damaged(std::string_view why) const { return DamagedStatus(place(), why); }
  absl::Status Translate(const rocksdb::Status& status) const {
    return status.ok() ? absl::OkStatus() : ToStatus(status, place());
  }

  absl::Status ReadVersionLimit() {
    std::string bytes;
    const rocksdb::Status status = db_->Get({}, meta(), kVersionLimitKey, &bytes);
    if (status.IsNotFound()) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(Translate(status));
    const std::optional<std::uint64_t> limit = remora::ReadVersionLimit(bytes);
    if (!limit) return Damaged("its version limit is out of bounds");
    version_limit_ = next_limit_ = *limit;
    readable_limit_.store(version_limit_, std::memory_order_relaxed);  // nobody else is here yet
    return absl::OkStatus();
  }

  absl::StatusOr<Entry> Parse(std::string_view key, std::string_view stored) const {
    Entry entry;
    if (TryParse(key, stored, &entry)) return entry;
    return WhyNoEntry(key, stored);
  }

  /// False: see WhyNoEntry. Inline, for iterations.
  bool TryParse(std::string_view key, std::string_view stored, Entry* entry) const {
    // Relaxed: it was raised before the write, and RocksDB made the write visible to us with a release that
    // we have acquired.
    return ReadEntry(key, stored, readable_limit_.load(std::memory_order_relaxed), entry);
  }

  absl::Status WhyNoEntry(std::string_view key, std::string_view stored) const {
    if (!IsEntrySized(key, stored)) {
      return Damaged(absl::StrCat("it holds a key of ", key.size(), " bytes with a value of ", stored.size(),
                                  ", header included"));
    }
    StoredHeader header;
    std::memcpy(&header, stored.data(), sizeof(header));
    return Damaged(absl::StrCat("it holds a value with version ", header.version, "; the version limit is ",
                                readable_limit_.load(std::memory_order_relaxed)));
  }

  absl::Status Write(Log log) {
    if (log_ != nullptr) return WriteLogged();
    REMORA_RETURN_IF_ERROR(log_failed_);
    // Who reads may see the new values before RocksDB returns. When it fails they may be there all the same.
    if (next_limit_ > readable_limit_.load(std::memory_order_relaxed)) {
      readable_limit_.store(next_limit_, std::memory_order_relaxed);  // relaxed: see Parse
    }
    rocksdb::WriteOptions options;
    options.disableWAL = log == Log::kSkipped;
    options.sync = false;  // the system has it: it survives the process, not the machine; see Sync
    // Relaxed: what is said of the log was so before.
    const SyncedMark mark{synced_.load(std::memory_order_relaxed)};
    const bool marks = log == Log::kWritten && mark.sequence != marked_;
    if (marks) REMORA_CHECK(batch_.Put(meta(), SyncedMark::kKey, BytesOf(mark)).ok());  // it only copies
    const rocksdb::Status status = db_->Write(options, &batch_);
    if (batch_.GetDataSize() <= kKeptBatch) {
      batch_.Clear();
    } else {
      batch_ = rocksdb::WriteBatch();
    }
    if (!status.ok()) {
      // The log file may end in half a record now, and RocksDB refuses all further writes to it: after a full
      // disk, and where the system was short of something, until it has moved everything to a new one by
      // itself, for which it waits until there is space for a whole write buffer; after any other error until
      // it is opened again. It does not move what has nothing in it (F3 of files.h).
      next_limit_ = version_limit_;
      const std::string why(Translate(status).message());
      const bool goes_on = IsDiskFull(status) || WillPass(status);
      if (goes_on && !files_.has_dead_log()) return absl::UnavailableError(why);
      const absl::Status final = absl::UnavailableError(
          absl::StrCat("the store takes no more writes until it is opened again: ", why));
      if (goes_on) log_failed_ = final;
      return final;
    }
    version_limit_ = next_limit_;
    if (marks) marked_ = mark.sequence;
    if (log == Log::kWritten) {
      // Release: who syncs it finds it in the log.
      logged_.store(db_->GetLatestSequenceNumber(), std::memory_order_release);
    } else {
      skipped_log_.store(true, std::memory_order_relaxed);  // a log that is read later has a gap, if any
    }
    return absl::OkStatus();
  }

  /// REQUIRES: sync_mutex_.
  absl::Status Sync() {
    const std::uint64_t logged = logged_.load(std::memory_order_acquire);
    const rocksdb::Status status = files_.SyncLogs();
    if (!status.ok()) return absl::UnavailableError(Translate(status).message());
    synced_.store(logged, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  absl::Status ReadAll(const rocksdb::ReadOptions& options, std::string_view begin, Take take) const {
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options, data()));
    for (iterator->Seek(ToSlice(begin)); iterator->Valid(); iterator->Next()) {
      REMORA_ASSIGN_OR_RETURN(const Entry entry, Parse(View(iterator->key()), View(iterator->value())));
      REMORA_RETURN_IF_ERROR(take(entry));
    }
    return Translate(iterator->status());
  }

  rocksdb::ColumnFamilyHandle* data() const { return families_[kData]; }
  rocksdb::ColumnFamilyHandle* meta() const { return families_[kMeta]; }

  const std::unique_ptr<DataDir> dir_;  // unlocked last
  DurableFiles files_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // deleted before the database
  std::unique_ptr<TierLog> log_;                        // and before these; null: RocksDB's own log is used
  rocksdb::WriteBatch batch_;
  std::uint64_t version_limit_ = 1;
  std::uint64_t next_limit_ = 1;  // version_limit_ once the batch is written
  bool log_was_torn_ = false;
  absl::Status log_failed_;  // for good
  // In sequence numbers: the log's last group; how far it is synced; and the last mark of that in it.
  std::atomic<std::uint64_t> logged_{0};
  std::atomic<std::uint64_t> synced_{0};
  std::uint64_t marked_ = 0;
  std::atomic<bool> skipped_log_ = false;
  std::vector<Opening> openings_;
  std::mutex sync_mutex_;
  absl::Status sync_failed_;                      // for good
  std::atomic<std::uint64_t> readable_limit_{1};  // all versions that a reader may find are less
};

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
bool DurableTier::Holds(std::uint64_t version) const {
  return impl_->log_ == nullptr || impl_->log_->Holds(version);
}
bool DurableTier::may_show_failed() const { return has_commit_log() && impl_->log_->may_show_failed(); }
bool DurableTier::log_was_torn() const { return impl_->log_was_torn_; }

std::uint64_t DurableTier::version_limit() const { return impl_->version_limit_; }

void DurableTier::Put(std::string_view key, const StoredHeader& header, std::string_view value) {
  if (impl_->log_ != nullptr) return impl_->log_->Put(key, header, value);
  const rocksdb::Slice key_part = ToSlice(key);
  const std::array<rocksdb::Slice, 2> value_parts = {BytesOf(header), ToSlice(value)};
  const rocksdb::Status status =
      impl_->batch_.Put(impl_->data(), rocksdb::SliceParts(&key_part, 1),
                        rocksdb::SliceParts(value_parts.data(), static_cast<int>(value_parts.size())));
  REMORA_CHECK(status.ok());  // it only copies
}

void DurableTier::Delete(std::string_view key, std::uint64_t version) {
  if (impl_->log_ != nullptr) return impl_->log_->Delete(key, version);
  REMORA_CHECK(impl_->batch_.Delete(impl_->data(), ToSlice(key)).ok());  // it only copies
}

void DurableTier::SetVersionLimit(std::uint64_t limit) {
  impl_->next_limit_ = limit;
  if (impl_->log_ != nullptr) return impl_->log_->PutMeta(kVersionLimitKey, View(BytesOf(limit)));
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), kVersionLimitKey, BytesOf(limit)).ok());  // it only copies
}

absl::Status DurableTier::Write(Log log) { return impl_->Write(log); }

absl::Status DurableTier::Begin(std::uint64_t incarnation) {
  REMORA_ASSIGN_OR_RETURN(impl_->openings_, has_commit_log() ? impl_->log_->AddOpening(incarnation)
                                                             : AddOpening(*impl_->db_, *impl_->meta(),
                                                                          impl_->place(), incarnation));
  impl_->logged_.store(impl_->db_->GetLatestSequenceNumber(), std::memory_order_relaxed);
  return absl::OkStatus();
}

std::uint64_t DurableTier::logged_to() const {
  if (impl_->log_ != nullptr) return impl_->log_->appended().value;
  return impl_->logged_.load(std::memory_order_relaxed);
}

absl::StatusOr<std::uint64_t> DurableTier::Continue(const ChangePlace& place, std::uint64_t end) const {
  return remora::Continue(impl_->openings_, place, end);
}

absl::StatusOr<std::unique_ptr<ChangeLog>> DurableTier::ReadLog(std::uint64_t from) const {
  if (impl_->log_ != nullptr) return impl_->log_->ReadChanges(from);
  // What is missing from an earlier opening's log was lost.
  const bool gaps =
      impl_->skipped_log_.load(std::memory_order_relaxed) && from > impl_->openings_.back().found;
  return ReadWalChanges(*impl_->db_, impl_->place(), from, gaps);
}

absl::Status DurableTier::Sync() {
  if (impl_->log_ != nullptr) return impl_->log_->Sync();
  // One after the other: the system reports a failure to one of two callers only.
  const std::lock_guard lock(impl_->sync_mutex_);
  if (impl_->sync_failed_.ok()) impl_->sync_failed_ = impl_->Sync();
  return impl_->sync_failed_;
}

absl::Status DurableTier::VerifyTables() const {
  return impl_->Translate(impl_->db_->VerifyChecksum(ReadThrough()));
}

absl::StatusOr<BackupInfo> DurableTier::Backup(const std::string& dir, const BackupRequest& request) const {
  // C4: RocksDB must not flush by itself. What is applied meanwhile, and is not in tables, is not in the
  // backup.
  if (has_commit_log()) REMORA_RETURN_IF_ERROR(impl_->log_->PersistAll());
  return CreateBackup(*impl_->db_, impl_->place(), dir, request, /*flush=*/!has_commit_log());
}

void DurableTier::PutClient(std::uint64_t client, std::int64_t since_ms) {
  if (impl_->log_ != nullptr) return impl_->log_->PutMeta(ClientKey(client), View(BytesOf(since_ms)));
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), ClientKey(client), BytesOf(since_ms)).ok());
}

void DurableTier::DeleteClient(std::uint64_t client) {
  if (impl_->log_ != nullptr) return impl_->log_->DeleteClient(client);
  const std::string key = ClientKey(client);
  const std::string end = key + static_cast<char>(kRememberedWrites);
  REMORA_CHECK(impl_->batch_.DeleteRange(impl_->meta(), key, end).ok());
}

void DurableTier::PutOutcome(const RequestName& request, std::uint64_t version, std::int64_t result) {
  if (impl_->log_ != nullptr) return impl_->log_->PutOutcome(request, version, result);
  const RememberedWrite outcome{request.number, version, result};
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), OutcomeKey(request), BytesOf(outcome)).ok());
}

absl::StatusOr<std::vector<RememberedClient>> DurableTier::Clients() const {
  std::vector<RememberedClient> clients;
  const std::unique_ptr<rocksdb::Iterator> iterator(impl_->db_->NewIterator(ReadThrough(), impl_->meta()));
  for (iterator->Seek(ToSlice(kClientPrefix)); iterator->Valid(); iterator->Next()) {
    std::string_view key = View(iterator->key());
    const std::string_view value = View(iterator->value());
    if (!key.starts_with(kClientPrefix)) break;
    key.remove_prefix(kClientPrefix.size());
    if (!ReadRemembered(key, value, &clients)) {
      return impl_->Damaged("what it remembers of a client has the wrong size");
    }
  }
  REMORA_RETURN_IF_ERROR(impl_->Translate(iterator->status()));
  return clients;
}

absl::Status DurableTier::Get(std::string_view key, Take take) const {
  if (impl_->log_ != nullptr && impl_->log_->IsDeleted(key)) return absl::NotFoundError("no such key");
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  rocksdb::PinnableSlice value;  // stays where it is in the cache
  const rocksdb::Status status = impl_->db_->Get(options, impl_->data(), ToSlice(key), &value);
  if (status.IsNotFound()) return absl::NotFoundError("no such key");
  REMORA_RETURN_IF_ERROR(impl_->Translate(status));
  REMORA_ASSIGN_OR_RETURN(const Entry entry, impl_->Parse(key, View(value)));
  return take(entry);
}

absl::Status DurableTier::ForEach(Take take) const { return impl_->ReadAll(ReadThrough(), "", take); }

absl::Status DurableTier::ForEachFrom(std::string_view begin, Take take) const {
  const TierLog* const log = impl_->log_.get();
  return impl_->ReadAll(ReadOnce(), begin, [&](const Entry& entry) {
    return log != nullptr && log->IsDeleted(entry.key) ? absl::OkStatus() : take(entry);
  });
}

// --- Cursors --------------------------------------------------------------------------------------------

struct DurableTier::Cursor::Rep {
  Rep(const Impl& tier, const ScanRange& keys)
      : impl(tier), range(keys), begin(ToSlice(range.begin)), end(ToSlice(range.end)) {
    rocksdb::ReadOptions options = ReadOnce();
    if (!range.begin.empty()) options.iterate_lower_bound = &begin;
    if (range.has_end()) options.iterate_upper_bound = &end;
    iterator.reset(impl.db_->NewIterator(options, impl.data()));
  }

  void Move() {
    if (!started) {
      started = true;
      range.reverse ? iterator->SeekToLast() : iterator->SeekToFirst();
    } else {
      range.reverse ? iterator->Prev() : iterator->Next();
    }
  }

  const Impl& impl;
  const ScanRange range;
  const rocksdb::Slice begin;
  const rocksdb::Slice end;
  std::unique_ptr<rocksdb::Iterator> iterator;
  bool started = false;
};

DurableTier::Cursor::Cursor(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
DurableTier::Cursor::~Cursor() = default;

std::unique_ptr<DurableTier::Cursor> DurableTier::NewCursor(const ScanRange& range) const {
  // C7: all that is logged is published.
  absl::Status applied = impl_->log_ == nullptr ? absl::OkStatus() : impl_->log_->ApplyAll();
  const bool is_over = range.is_empty() || !applied.ok();
  std::unique_ptr<Cursor> cursor(
      new Cursor(is_over ? nullptr : std::make_unique<Cursor::Rep>(*impl_, range)));
  cursor->status_ = std::move(applied);
  return cursor;
}

bool DurableTier::Cursor::Next() {
  if (rep_ == nullptr) return false;
  rep_->Move();
  if (rep_->iterator->Valid()) {
    const std::string_view key = View(rep_->iterator->key());
    const std::string_view stored = View(rep_->iterator->value());
    if (rep_->impl.TryParse(key, stored, &entry_)) return true;
    status_ = rep_->impl.WhyNoEntry(key, stored);
  } else {
    status_ = rep_->impl.Translate(rep_->iterator->status());
  }
  rep_.reset();
  return false;
}

DurableTier::Size DurableTier::EstimateSize() const {
  Size size;
  rocksdb::TablePropertiesCollection tables;
  // A table that cannot be read counts nothing: whoever scans it is told.
  if (!impl_->db_->GetPropertiesOfAllTables(impl_->data(), &tables).ok()) return size;
  for (const auto& [name, table] : tables) {
    const std::uint64_t entries = table->num_entries - table->num_deletions;
    constexpr std::uint64_t kInternal = 8;  // that RocksDB adds to each key
    const std::uint64_t added = table->num_entries * kInternal + entries * sizeof(StoredHeader);
    size.keys += entries;
    size.bytes += table->raw_key_size + table->raw_value_size - added;
    size.disk_bytes += table->data_size;
  }
  return size;
}

std::vector<DurableTier::KeyRange> DurableTier::Split(std::size_t parts) const {
  REMORA_CHECK(parts > 0);
  KeyRange rest;  // what is not in a range yet
  rest.disk_bytes_ = EstimateSize().disk_bytes / parts;
  rocksdb::DB* db = impl_->db_.get();
  rest.snapshot_ = std::shared_ptr<const rocksdb::Snapshot>(
      db->GetSnapshot(), [db](const rocksdb::Snapshot* snapshot) { db->ReleaseSnapshot(snapshot); });
  std::vector<KeyRange> ranges;
  for (std::string& border : KeyBorders(*db, *impl_->data(), parts)) {
    KeyRange range = rest;
    range.end_ = border;
    rest.begin_ = std::move(border);
    ranges.push_back(std::move(range));
  }
  ranges.push_back(std::move(rest));
  return ranges;
}

absl::Status DurableTier::ForEachFrom(const KeyRange& range, std::string_view begin, Take take) const {
  rocksdb::ReadOptions options = ReadThrough(range.disk_bytes_);
  options.snapshot = static_cast<const rocksdb::Snapshot*>(range.snapshot_.get());
  const rocksdb::Slice end(range.end_);
  if (!range.end_.empty()) options.iterate_upper_bound = &end;
  return impl_->ReadAll(options, std::max<std::string_view>(range.begin_, begin), take);
}

}  // namespace remora
