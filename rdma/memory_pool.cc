#include "rdma/memory_pool.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
absl::Status SharedMemoryPool::Start() {
  REMORA_ASSIGN_OR_RETURN(thread_, StartThread([this] { return std::thread([this] { Run(); }); }));
  return absl::OkStatus();
}

SharedMemoryPool::~SharedMemoryPool() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemoryPool::Create(std::string_view name,
                                                                       std::size_t size,
                                                                       SharedMemory::Writers writers) {
  std::unique_ptr<SharedMemory> memory;
  {
    const MutexLock lock(mutex_);
    PoolSlot& slot = SlotFor(name, size, writers);
    slot.wants_more = true;
    if (!slot.ready.empty()) {
      memory = std::move(slot.ready.back());
      slot.ready.pop_back();
    }
  }
  changed_.notify_one();
  if (memory == nullptr) {
    auto made = SharedMemory::Create(name, size, writers);
    if (!made.ok()) return made;
    memory = *std::move(made);
  }
  memory->pool_ = this;
  return memory;
}

SharedMemoryPool::PoolSlot& SharedMemoryPool::SlotFor(std::string_view name, std::size_t size,
                                                      SharedMemory::Writers writers) {
  for (PoolSlot& slot : slots_) {
    if (slot.size == size && slot.writers == writers && slot.name == name) return slot;
  }
  return slots_.emplace_back(PoolSlot{.name = std::string(name), .size = size, .writers = writers});
}

void SharedMemoryPool::Deregister(Ended ended) {
  {
    const MutexLock lock(mutex_);
    ended_.push_back(ended);
  }
  changed_.notify_one();
}

void SharedMemoryPool::Run() {
  MutexLock lock(mutex_);
  std::vector<Ended> ended;
  while (true) {
    if (!ended_.empty()) {
      ended.swap(ended_);
      lock.Unlock();
      for (const Ended& each : ended) SharedMemory::Release(each.fd, each.bytes);
      ended.clear();
      lock.Lock();
      continue;
    }
    if (stop_) return;
    const auto low = std::ranges::find_if(
        slots_, [](const PoolSlot& slot) { return slot.wants_more && slot.ready.size() < kAhead; });
    if (low == slots_.end()) {
      lock.Wait(changed_);
      continue;
    }
    PoolSlot& slot = *low;  // stays where it is
    lock.Unlock();
    auto made = SharedMemory::Create(slot.name, slot.size, slot.writers);
    lock.Lock();
    if (made.ok()) {
      slot.ready.push_back(*std::move(made));
    } else {
      slot.wants_more = false;
    }
  }
}

}  // namespace remora::rdma
