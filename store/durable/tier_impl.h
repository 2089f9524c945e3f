// Implementation of DurableTier, shared by its sources: tier.cc opens and writes, tier_reads.cc reads.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/mutex.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/files.h"
#include "store/durable/flusher.h"
#include "store/durable/format.h"
#include "store/durable/kept_iterator.h"
#include "store/durable/status.h"
#include "store/durable/tier.h"
#include "store/durable/tier_log/group_numbers.h"
#include "store/durable/tier_log/log_overlay.h"
#include "store/durable/tier_log/tier_log.h"

namespace remora {

// Indices of the column families, in the order in which Open lists them.
inline constexpr std::size_t kDataFamilyIndex = 0;
inline constexpr std::size_t kMetaFamilyIndex = 1;

inline std::string_view ViewOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
inline rocksdb::Slice ToSlice(std::string_view view) { return {view.data(), view.size()}; }

/// State of a durable tier.
///
/// The class has more than 15 fields, because the files, the open group and the state of its log belong to
/// one writer.
class DurableTier::Impl {
 public:
  explicit Impl(std::unique_ptr<DataDir> dir) : dir_(std::move(dir)) {}
  ~Impl() {
    kept_.Drop();
    log_.reset();
    for (rocksdb::ColumnFamilyHandle* family : families_) delete family;
  }

  absl::Status Open(const DurableTierOptions& options);

  /// Does the work of Write with a commit log.
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
    rocksdb::PinnableSlice bytes;
    const rocksdb::Status status = Get({}, meta(), kVersionLimitKey, &bytes);
    if (status.IsNotFound()) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(Translate(status));
    const std::optional<std::uint64_t> limit = remora::ReadVersionLimit(ViewOf(bytes));
    if (!limit) return Damaged("its version limit is out of bounds");
    version_limit_ = next_limit_ = *limit;
    readable_limit_.store(version_limit_, std::memory_order_relaxed);  // no other thread uses the tier yet
    return absl::OkStatus();
  }

  absl::Status ReadStoredGroupNumber() {
    rocksdb::PinnableSlice bytes;
    const rocksdb::Status status = Get({}, meta(), ToSlice(kGroupNumberKey), &bytes);
    if (status.IsNotFound()) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(Translate(status));
    const std::optional<std::uint64_t> number = ReadGroupNumber(ViewOf(bytes));
    if (!number) return Damaged("its number of the last group has the wrong size, or is 0");
    group_number_ = *number;
    return absl::OkStatus();
  }

  /// Does the rest of Get, with what RocksDB has returned.
  absl::Status TakeGot(const rocksdb::Status& status, std::string_view key, const rocksdb::Slice& value,
                       Take take) const {
    if (status.IsNotFound()) return absl::NotFoundError("no such key");
    REMORA_RETURN_IF_ERROR(Translate(status));
    REMORA_ASSIGN_OR_RETURN(const Entry entry, Parse(key, ViewOf(value)));
    return take(entry);
  }

  absl::StatusOr<Entry> Parse(std::string_view key, std::string_view stored) const {
    Entry entry;
    if (TryParse(key, stored, &entry)) return entry;
    return WhyNoEntry(key, stored);
  }

  /// Decodes an entry. Returns false if it is invalid; WhyNoEntry then has the error. Inline, since
  /// iterations call it for each entry.
  bool TryParse(std::string_view key, std::string_view stored, Entry* entry) const {
    // Relaxed: the writer raised the limit before the write. RocksDB published the write with a release,
    // and this thread has acquired it.
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

  /// Does the work of Write without a commit log.
  absl::Status WriteToRocksdb(Log log);

  /// Syncs the log files.
  absl::Status Sync() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sync_mutex_) {
    const std::uint64_t logged = logged_.load(std::memory_order_acquire);
    const rocksdb::Status status = files_.SyncLogs();
    if (!status.ok()) {
      const absl::Status why = Translate(status);
      return WithMarksOf(why, absl::UnavailableError(why.message()));
    }
    synced_.store(logged, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  // NewIterator and Get read like those of rocksdb::DB. If read_only, they add the groups of the commit
  // log (overlay_).

  std::unique_ptr<rocksdb::Iterator> NewIterator(const rocksdb::ReadOptions& options,
                                                 rocksdb::ColumnFamilyHandle* family) const {
    std::unique_ptr<rocksdb::Iterator> stored(db_->NewIterator(options, family));
    if (overlay_.writes == nullptr) return stored;
    return std::unique_ptr<rocksdb::Iterator>(
        overlay_.writes->NewIteratorWithBase(family, stored.release(), &options));
  }
  rocksdb::Status Get(const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family,
                      const rocksdb::Slice& key, rocksdb::PinnableSlice* value) const {
    if (overlay_.writes == nullptr) return db_->Get(options, family, key, value);
    return overlay_.writes->GetFromBatchAndDB(db_.get(), options, family, key, value);
  }

  absl::Status ReadAll(const rocksdb::ReadOptions& options, std::string_view begin, Take take) const {
    const std::unique_ptr<rocksdb::Iterator> iterator = NewIterator(options, data());
    for (iterator->Seek(ToSlice(begin)); iterator->Valid(); iterator->Next()) {
      REMORA_ASSIGN_OR_RETURN(const Entry entry, Parse(ViewOf(iterator->key()), ViewOf(iterator->value())));
      REMORA_RETURN_IF_ERROR(take(entry));
    }
    return Translate(iterator->status());
  }

  rocksdb::ColumnFamilyHandle* data() const { return families_[kDataFamilyIndex]; }
  rocksdb::ColumnFamilyHandle* meta() const { return families_[kMetaFamilyIndex]; }

  const std::unique_ptr<DataDir> dir_;  // unlocked last
  DurableFiles files_;
  std::shared_ptr<Flusher> flusher_;
  mutable KeptIterator kept_;  // of the data family, for ForKeys
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // deleted before the database
  std::unique_ptr<TierLog> log_;                        // deleted before families_; null: no commit log
  LogOverlay overlay_;                                  // only used if read_only
  rocksdb::WriteBatch batch_;
  std::uint64_t version_limit_ = 1;
  std::uint64_t next_limit_ = 1;    // value of version_limit_ after the batch is written
  std::uint64_t group_number_ = 0;  // as Open found it; 0: none
  bool log_was_torn_ = false;
  absl::Status log_failed_;  // not OK: all later writes fail, too
  // Sequence numbers of RocksDB: of the last logged write, of the last synced write, and the value of the
  // last SyncedMark in the log.
  std::atomic<std::uint64_t> logged_{0};
  std::atomic<std::uint64_t> synced_{0};
  std::uint64_t marked_ = 0;
  std::atomic<bool> skipped_log_ = false;
  std::vector<Opening> openings_;
  const std::shared_ptr<CopyPins> copy_pins_ = std::make_shared<CopyPins>();
  Mutex sync_mutex_;
  absl::Status sync_failed_ ABSL_GUARDED_BY(sync_mutex_);  // not OK: all later syncs fail, too
  std::atomic<std::uint64_t> readable_limit_{1};           // all versions that a reader may find are lower
};

}  // namespace remora
