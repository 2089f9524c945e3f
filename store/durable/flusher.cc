#include "store/durable/flusher.h"

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <chrono>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/base/status_macros.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr std::string_view kFlushedPlace = "durable tier";

/// Returns the number of memtables that take no more writes, and that no table has yet.
std::uint64_t Pending(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family) {
  std::uint64_t memtables = 0;
  db->GetIntProperty(family, rocksdb::DB::Properties::kNumImmutableMemTable, &memtables);
  return memtables;
}

}  // namespace

/// Counts the flushes and the errors of RocksDB. Thread safety: any thread may call any member.
class Flusher::Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(ResumedBy resumed_by) : resumed_by_(resumed_by) {}

  /// Returns the number of errors that have stopped RocksDB.
  std::uint64_t errors() const {
    const MutexLock lock(mutex_);
    return errors_;
  }
  rocksdb::Status last_error() const {
    const MutexLock lock(mutex_);
    return last_error_;
  }
  /// Returns the number of flushes of a family that have ended. Each has moved at least its oldest memtable.
  std::uint64_t flushes(std::uint32_t family) const {
    const MutexLock lock(mutex_);
    const auto found = flushes_.find(family);
    return found == flushes_.end() ? 0 : found->second;
  }

  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    const MutexLock lock(mutex_);
    ++flushes_[info.cf_id];
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction &&
        error->severity() <= rocksdb::Status::Severity::kSoftError) {
      // RocksDB 7.8 would reject writes until it is resumed if an earlier error had stopped it.
      if (resumed_by_ == ResumedBy::kFlusher) *error = rocksdb::Status::OK();
      return;
    }
    const MutexLock lock(mutex_);
    ++errors_;
    last_error_ = *error;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                            bool* auto_recovery) override {
    error.PermitUncheckedError();
    if (resumed_by_ == ResumedBy::kFlusher) *auto_recovery = false;
  }

 private:
  const ResumedBy resumed_by_;
  mutable Mutex mutex_;
  std::uint64_t errors_ ABSL_GUARDED_BY(mutex_) = 0;
  rocksdb::Status last_error_ ABSL_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::uint64_t> flushes_ ABSL_GUARDED_BY(mutex_);  // by family
};

Flusher::Flusher(ResumedBy resumed_by) : listener_(std::make_shared<Listener>(resumed_by)) {}

std::shared_ptr<rocksdb::EventListener> Flusher::listener() const { return listener_; }

void Flusher::ResumeIfStopped(rocksdb::DB* db) {
  const std::uint64_t errors = listener_->errors();  // before Resume: an error behind it stops RocksDB again
  if (errors != resumed_ && db->Resume().ok()) resumed_ = errors;
}

absl::Status Flusher::Flush(rocksdb::DB* db,
                            std::initializer_list<rocksdb::ColumnFamilyHandle*> families) const {
  const std::uint64_t errors = listener_->errors();
  REMORA_RETURN_IF_ERROR(ToStatus(db->Flush({}, families), kFlushedPlace));
  if (errors == 0) return absl::OkStatus();
  for (rocksdb::ColumnFamilyHandle* const family : families) {
    const std::uint64_t begin = listener_->flushes(family->GetID());  // before Pending
    const std::uint64_t end = begin + Pending(db, family);
    while (Pending(db, family) > 0 && listener_->flushes(family->GetID()) < end) {
      if (listener_->errors() != errors) return ToStatus(listener_->last_error(), kFlushedPlace);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return absl::OkStatus();
}

}  // namespace remora
