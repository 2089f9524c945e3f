#include "store/durable/kept_iterator.h"

#include <rocksdb/iterator.h>
#include <rocksdb/listener.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"

namespace remora {

/// RocksDB calls it without its own mutex, so that an iterator may be destroyed here.
class KeptIterator::Place final : public rocksdb::EventListener {
 public:
  Taken Take() {
    const MutexLock lock(mutex_);
    return {std::move(iterator_), replaced_};
  }
  void Keep(Taken taken) {
    const MutexLock lock(mutex_);
    if (iterator_ == nullptr && taken.replaced == replaced_) iterator_ = std::move(taken.iterator);
  }
  void Drop() {
    std::unique_ptr<rocksdb::Iterator> dropped;  // destroyed without the lock
    const MutexLock lock(mutex_);
    ++replaced_;
    dropped = std::move(iterator_);
  }

  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { Drop(); }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { Drop(); }

 private:
  Mutex mutex_;
  std::unique_ptr<rocksdb::Iterator> iterator_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t replaced_ ABSL_GUARDED_BY(mutex_) = 0;
};

KeptIterator::KeptIterator() : place_(std::make_shared<Place>()) {}
KeptIterator::~KeptIterator() = default;

std::shared_ptr<rocksdb::EventListener> KeptIterator::listener() const { return place_; }

KeptIterator::Taken KeptIterator::Take() {
  Taken taken = place_->Take();
  if (taken.iterator != nullptr && !taken.iterator->Refresh().ok()) taken.iterator.reset();  // K1
  return taken;
}

void KeptIterator::Keep(Taken taken) { place_->Keep(std::move(taken)); }

void KeptIterator::Drop() { place_->Drop(); }

}  // namespace remora
