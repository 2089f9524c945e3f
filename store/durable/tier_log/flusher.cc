#include "store/durable/tier_log/flusher.h"

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/mutex.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr std::string_view kPlace = "durable tier";

bool IsFlushPending(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family) {
  std::uint64_t memtables = 0;
  return db->GetIntProperty(family, rocksdb::DB::Properties::kNumImmutableMemTable, &memtables) &&
         memtables > 0;
}

}  // namespace

/// The errors that have stopped RocksDB so far. Thread Safety: any thread may call any member.
class Flusher::Listener final : public rocksdb::EventListener {
 public:
  std::uint64_t count() const {
    const LogMutexLock lock(&mutex_);
    return count_;
  }
  rocksdb::Status last() const {
    const LogMutexLock lock(&mutex_);
    return last_;
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction &&
        error->severity() <= rocksdb::Status::Severity::kSoftError) {
      *error = rocksdb::Status::OK();  // otherwise RocksDB 7.8 would refuse writes after an earlier error
      return;
    }
    const LogMutexLock lock(&mutex_);
    ++count_;
    last_ = *error;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                            bool* auto_recovery) override {
    error.PermitUncheckedError();
    *auto_recovery = false;
  }

 private:
  mutable LogMutex mutex_;
  std::uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  rocksdb::Status last_ ABSL_GUARDED_BY(mutex_);
};

Flusher::Flusher() : listener_(std::make_shared<Listener>()) {}

std::shared_ptr<rocksdb::EventListener> Flusher::listener() const { return listener_; }

void Flusher::ResumeIfStopped(rocksdb::DB* db) {
  const std::uint64_t count = listener_->count();  // before Resume: an error behind it stops RocksDB again
  if (count != resumed_ && db->Resume().ok()) resumed_ = count;
}

absl::Status Flusher::Flush(rocksdb::DB* db,
                            std::initializer_list<rocksdb::ColumnFamilyHandle*> families) const {
  REMORA_RETURN_IF_ERROR(ToStatus(db->Flush({}, families), kPlace));
  // Until its first error, RocksDB 7.8 has waited for the tables. From then on it may return before.
  if (resumed_ == 0) return absl::OkStatus();
  const auto is_pending = [db](rocksdb::ColumnFamilyHandle* family) { return IsFlushPending(db, family); };
  while (std::ranges::any_of(families, is_pending)) {
    if (listener_->count() != resumed_) return ToStatus(listener_->last(), kPlace);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return absl::OkStatus();
}

}  // namespace remora
