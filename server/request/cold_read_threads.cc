#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/request/cold_read_pool.h"
#include "store/base/check.h"
#include "store/base/mutex.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Bytes of values that were read and not taken yet, from which on no thread begins another read. A server
// thread that is held up keeps no more than these, and a value of each thread.
constexpr std::size_t kMaxDoneBytes = std::size_t{64} << 20;

class ColdReadThreads final : public ColdReadPool {
 public:
  ColdReadThreads(ReadFunction read, std::function<void()> on_done)
      : read_(std::move(read)), on_done_(std::move(on_done)) {}
  ~ColdReadThreads() override {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ColdReadThreads(const ColdReadThreads&) = delete;
  ColdReadThreads& operator=(const ColdReadThreads&) = delete;

  absl::Status Start(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      REMORA_ASSIGN_OR_RETURN(std::thread thread,
                              StartThread([this] { return std::thread([this] { Run(); }); }));
      threads_.push_back(std::move(thread));
    }
    return absl::OkStatus();
  }

  void Begin(std::unique_ptr<ColdRead> read) override {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(read));
    }
    wanted_.notify_one();
  }

  void TakeDone(std::vector<std::unique_ptr<ColdRead>>* done) override {
    bool was_full = false;
    {
      const MutexLock lock(mutex_);
      for (std::unique_ptr<ColdRead>& read : done_) done->push_back(std::move(read));
      done_.clear();
      was_full = done_bytes_ >= kMaxDoneBytes;
      done_bytes_ = 0;
    }
    if (was_full) wanted_.notify_all();
  }

 private:
  void Run() {
    MutexLock lock(mutex_);
    for (;;) {
      while (!stopped_ && (queue_.empty() || done_bytes_ >= kMaxDoneBytes)) lock.Wait(wanted_);
      if (stopped_) return;
      std::unique_ptr<ColdRead> read = std::move(queue_.front());
      queue_.pop_front();
      lock.Unlock();
      read_(read.get());
      lock.Lock();
      done_bytes_ += read->value.size();
      done_.push_back(std::move(read));
      if (done_.size() > 1) continue;  // TakeDone takes it along
      lock.Unlock();
      on_done_();
      lock.Lock();
    }
  }

  const ReadFunction read_;
  const std::function<void()> on_done_;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  std::condition_variable wanted_;  // a read may begin, or the end has come
  std::deque<std::unique_ptr<ColdRead>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ColdRead>> done_ ABSL_GUARDED_BY(mutex_);
  std::size_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ColdReadPool>> StartColdReadThreads(std::size_t threads,
                                                                   ColdReadPool::ReadFunction read,
                                                                   std::function<void()> on_done) {
  REMORA_CHECK(threads > 0);
  auto pool = std::make_unique<ColdReadThreads>(std::move(read), std::move(on_done));
  REMORA_RETURN_IF_ERROR(pool->Start(threads));
  return pool;
}

}  // namespace remora
