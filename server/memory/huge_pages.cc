#include "server/memory/huge_pages.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "rdma/shared_memory.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// The pause after a page, as a multiple of the time that the page took: a twentieth of a CPU, at most.
constexpr int kPauseFactor = 20;
// Failures in a row after which the thread ends. Where free memory is fragmented, each try takes long, and
// fails again.
constexpr int kMaxFailures = 8;

}  // namespace

void HugePages::Reached(std::uint64_t end) {
  const MutexLock lock(mutex_);
  reached_ = std::max(reached_, end);
  changed_.notify_all();
}

absl::Status HugePages::Start(ServerStore* store) {
  store_ = store;
  REMORA_ASSIGN_OR_RETURN(thread_, StartThread([this] { return std::thread([this] { Run(); }); }));
  return absl::OkStatus();
}

void HugePages::ProvideAll() {
  MutexLock lock(mutex_);
  is_urgent_ = true;
  reached_ = region_.size();
  changed_.notify_all();
  while (!has_ended_) lock.Wait(changed_);
}

void HugePages::Stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HugePages::Run() {
  using std::chrono::steady_clock;
  int failures = 0;
  MutexLock lock(mutex_);
  for (std::uint64_t end = rdma::kHugePage; end <= region_.size(); end += rdma::kHugePage) {
    while (reached_ < end && !stop_) lock.Wait(changed_);
    if (stop_ || failures == kMaxFailures) break;
    lock.Unlock();
    const steady_clock::time_point start = steady_clock::now();
    const bool done = rdma::ProvideHugePage(region_.data() + end - rdma::kHugePage);
    if (done) store_->Add(Metric::kLargePageBytes, static_cast<std::int64_t>(rdma::kHugePage));
    failures = done ? 0 : failures + 1;
    const steady_clock::time_point now = steady_clock::now();
    lock.Lock();
    while (!stop_ && !is_urgent_ && lock.WaitUntil(changed_, now + kPauseFactor * (now - start))) {
    }
  }
  has_ended_ = true;
  changed_.notify_all();
}

}  // namespace remora
