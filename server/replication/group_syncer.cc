#include "server/replication/group_syncer.h"

#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::unique_ptr<GroupSyncer>> GroupSyncer::Start(SyncFunction sync,
                                                                std::function<void()> on_done) {
  std::unique_ptr<GroupSyncer> syncer(new GroupSyncer(std::move(sync), std::move(on_done)));
  REMORA_ASSIGN_OR_RETURN(syncer->thread_,
                          StartThread([&] { return std::thread([one = syncer.get()] { one->Run(); }); }));
  return syncer;
}

GroupSyncer::~GroupSyncer() {
  {
    const MutexLock lock(mutex_);
    is_stopped_ = true;
  }
  wanted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GroupSyncer::Begin() {
  {
    const MutexLock lock(mutex_);
    is_wanted_ = true;
  }
  wanted_.notify_one();
}

absl::StatusOr<std::uint64_t> GroupSyncer::synced() const {
  const MutexLock lock(mutex_);
  return synced_;
}

void GroupSyncer::Run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!is_wanted_ && !is_stopped_) lock.Wait(wanted_);
    if (is_stopped_) return;
    is_wanted_ = false;
    lock.Unlock();
    absl::StatusOr<std::uint64_t> synced = sync_();
    lock.Lock();
    synced_ = std::move(synced);
    lock.Unlock();
    on_done_();
    lock.Lock();
  }
}

}  // namespace remora
