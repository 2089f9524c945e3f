#include "store/durable_tier.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/data_dir.h"
#include "store/format/layout.h"

namespace remora {
namespace {

constexpr char kMetaFamily[] = "meta";
constexpr char kVersionLimitKey[] = "version_limit";

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
rocksdb::Slice ToSlice(std::string_view view) { return {view.data(), view.size()}; }

template <typename T>
rocksdb::Slice BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

absl::Status Damaged(const std::string& path, const std::string& why) {
  return absl::DataLossError(
      absl::StrCat("data directory ", path, " is damaged; restore it from a copy: ", why));
}

/// The translator of RocksDB's errors.
absl::Status ToStatus(const rocksdb::Status& status, const std::string& path) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  // RocksDB has no code for this one, and may call a file that it must not read a damaged one; its text ends
  // with that of errno.
  if (absl::StrContains(text, std::strerror(EACCES))) {
    return absl::PermissionDeniedError(absl::StrCat("not allowed to use data directory ", path, ": ", text));
  }
  // Our options do not change, so an argument that RocksDB calls invalid came from the files. So did "not
  // found", which an iterator or an open only says of a file.
  if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotFound()) return Damaged(path, text);
  if (status.IsNoSpace()) {
    return absl::UnavailableError(absl::StrCat("no space left for data directory ", path, ": ", text));
  }
  return absl::UnavailableError(absl::StrCat("data directory ", path, ": ", text));
}

rocksdb::CompressionType Compression() {
  // LZ4 costs little next to the disk writes that it saves. No build of RocksDB must have it.
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  return std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end()
             ? rocksdb::kLZ4Compression
             : rocksdb::kNoCompression;
}

rocksdb::ColumnFamilyOptions FamilyOptions(std::size_t write_buffer_size) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = write_buffer_size;
  options.compression = Compression();
  // Nobody looks up keys here, and the one iteration reads each block once: no filter, no cache.
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

/// RocksDB's own diary, which nobody asked for: what matters comes as a status. Some builds of RocksDB,
/// Debian's among them, abort the process when the file that they write it to cannot grow.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::DBOptions DatabaseOptions(bool fresh) {
  rocksdb::DBOptions options;
  // A store that lost its files is damaged, not new.
  options.create_if_missing = fresh;
  options.create_missing_column_families = fresh;
  // A killed process may leave the last record of the log incomplete; that one was not acknowledged. Any
  // other damage to the log would lose acknowledged writes, so it is an error and not an earlier end.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Each write is with the system before it is acknowledged.
  options.manual_wal_flush = false;
  // The meta family is written seldom, and would keep old log files from being deleted until this many bytes
  // of them are there. It also bounds what a restart has to replay.
  options.max_total_wal_size = std::uint64_t{256} << 20;
  // The log files have all of it, so a stop takes no time.
  options.avoid_flush_during_shutdown = true;
  options.skip_stats_update_on_db_open = true;
  options.info_log = std::make_shared<NoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

}  // namespace

class DurableTier::Impl {
 public:
  explicit Impl(std::unique_ptr<DataDir> dir) : dir_(std::move(dir)) {}
  ~Impl() {
    for (rocksdb::ColumnFamilyHandle* family : families_) delete family;
  }

  absl::Status Open() {
    // Large enough that keys which are overwritten often never reach a file of their own.
    constexpr std::size_t kDataBuffer = std::size_t{64} << 20;
    constexpr std::size_t kMetaBuffer = std::size_t{1} << 20;
    const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
        {rocksdb::kDefaultColumnFamilyName, FamilyOptions(kDataBuffer)},
        {kMetaFamily, FamilyOptions(kMetaBuffer)}};
    rocksdb::DB* db = nullptr;
    REMORA_RETURN_IF_ERROR(Translate(
        rocksdb::DB::Open(DatabaseOptions(dir_->fresh()), dir_->path(), descriptors, &families_, &db)));
    db_.reset(db);
    if (dir_->fresh()) REMORA_RETURN_IF_ERROR(dir_->MarkComplete());
    return ReadVersionLimit();
  }

  absl::Status Translate(const rocksdb::Status& status) const { return ToStatus(status, dir_->path()); }

  absl::Status ReadVersionLimit() {
    std::string bytes;
    const rocksdb::Status status = db_->Get({}, meta(), kVersionLimitKey, &bytes);
    if (status.IsNotFound()) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(Translate(status));
    if (bytes.size() != sizeof(version_limit_))
      return Damaged(dir_->path(), "its version limit is no number");
    std::memcpy(&version_limit_, bytes.data(), sizeof(version_limit_));
    next_limit_ = version_limit_;
    if (version_limit_ == 0 || version_limit_ > kMaxVersion) {
      return Damaged(dir_->path(), absl::StrCat("its version limit is ", version_limit_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Entry> Parse(std::string_view key, std::string_view stored) const {
    Entry entry;
    if (key.size() < kMinKeySize || key.size() > kMaxKeySize || stored.size() < sizeof(StoredHeader) ||
        stored.size() - sizeof(StoredHeader) > kMaxValueSize) {
      return Damaged(dir_->path(), absl::StrCat("it holds a key of ", key.size(), " bytes with a value of ",
                                                stored.size(), ", header included"));
    }
    std::memcpy(&entry.header, stored.data(), sizeof(entry.header));
    if (entry.header.version == 0 || entry.header.version >= version_limit_ || entry.header.expiry_ms != 0) {
      return Damaged(dir_->path(),
                     absl::StrCat("it holds a value with version ", entry.header.version, " and expiry ",
                                  entry.header.expiry_ms, "; the version limit is ", version_limit_));
    }
    entry.key = key;
    entry.value = stored.substr(sizeof(StoredHeader));
    return entry;
  }

  rocksdb::ColumnFamilyHandle* data() const { return families_[0]; }
  rocksdb::ColumnFamilyHandle* meta() const { return families_[1]; }

  const std::unique_ptr<DataDir> dir_;  // unlocked last
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // deleted before the database
  rocksdb::WriteBatch batch_;
  std::uint64_t version_limit_ = 1;
  std::uint64_t next_limit_ = 1;  // version_limit_ once the batch is written
};

absl::StatusOr<std::unique_ptr<DurableTier>> DurableTier::Open(const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<DataDir> dir, DataDir::Open(path));
  auto impl = std::make_unique<Impl>(std::move(dir));
  REMORA_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<DurableTier>(new DurableTier(std::move(impl)));
}

DurableTier::DurableTier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DurableTier::~DurableTier() = default;

std::uint64_t DurableTier::version_limit() const { return impl_->version_limit_; }

void DurableTier::Put(std::string_view key, const StoredHeader& header, std::string_view value) {
  const rocksdb::Slice key_part = ToSlice(key);
  const std::array<rocksdb::Slice, 2> value_parts = {BytesOf(header), ToSlice(value)};
  const rocksdb::Status status =
      impl_->batch_.Put(impl_->data(), rocksdb::SliceParts(&key_part, 1),
                        rocksdb::SliceParts(value_parts.data(), static_cast<int>(value_parts.size())));
  REMORA_CHECK(status.ok());  // it only copies
}

void DurableTier::Delete(std::string_view key) {
  REMORA_CHECK(impl_->batch_.Delete(impl_->data(), ToSlice(key)).ok());  // it only copies
}

void DurableTier::SetVersionLimit(std::uint64_t limit) {
  REMORA_CHECK(impl_->batch_.Put(impl_->meta(), kVersionLimitKey, BytesOf(limit)).ok());  // it only copies
  impl_->next_limit_ = limit;
}

absl::Status DurableTier::Write() {
  rocksdb::WriteOptions options;
  options.disableWAL = false;
  options.sync = false;  // the system has it: it survives the process, not the machine
  const rocksdb::Status status = impl_->db_->Write(options, &impl_->batch_);
  impl_->batch_.Clear();
  if (!status.ok()) {
    // The log file may end in half a record now, and RocksDB refuses all further writes to it: after a full
    // disk until it has moved everything to a new one by itself, for which it waits until there is space for
    // a whole write buffer; after any other error until it is opened again.
    impl_->next_limit_ = impl_->version_limit_;
    return absl::UnavailableError(impl_->Translate(status).message());
  }
  impl_->version_limit_ = impl_->next_limit_;
  return absl::OkStatus();
}

absl::Status DurableTier::ForEach(absl::FunctionRef<absl::Status(const Entry&)> take) const {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.readahead_size = std::size_t{2} << 20;
  const std::unique_ptr<rocksdb::Iterator> iterator(impl_->db_->NewIterator(options, impl_->data()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    REMORA_ASSIGN_OR_RETURN(const Entry entry, impl_->Parse(View(iterator->key()), View(iterator->value())));
    REMORA_RETURN_IF_ERROR(take(entry));
  }
  return impl_->Translate(iterator->status());
}

}  // namespace remora
