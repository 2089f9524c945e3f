#include "rdma/memory_pool.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
absl::Status MemoryStock::Start() {
  REMORA_ASSIGN_OR_RETURN(thread_, StartThread([this] { return std::thread([this] { Run(); }); }));
  return absl::OkStatus();
}

MemoryStock::~MemoryStock() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MemoryStock::Create(std::string_view name, std::size_t size,
                                                                  SharedMemory::Writers writers) {
  std::unique_ptr<SharedMemory> memory;
  {
    const std::lock_guard lock(mutex_);
    Shelf& shelf = ShelfOf(name, size, writers);
    shelf.wants_more = true;
    if (!shelf.ready.empty()) {
      memory = std::move(shelf.ready.back());
      shelf.ready.pop_back();
    }
  }
  changed_.notify_one();
  if (memory == nullptr) {
    auto made = SharedMemory::Create(name, size, writers);
    if (!made.ok()) return made;
    memory = *std::move(made);
  }
  memory->stock_ = this;
  return memory;
}

MemoryStock::Shelf& MemoryStock::ShelfOf(std::string_view name, std::size_t size,
                                         SharedMemory::Writers writers) {
  for (Shelf& shelf : shelves_) {
    if (shelf.size == size && shelf.writers == writers && shelf.name == name) return shelf;
  }
  return shelves_.emplace_back(Shelf{.name = std::string(name), .size = size, .writers = writers});
}

void MemoryStock::TakeApart(Ended ended) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back(ended);
  }
  changed_.notify_one();
}

void MemoryStock::Run() {
  std::unique_lock lock(mutex_);
  std::vector<Ended> ended;
  while (true) {
    if (!ended_.empty()) {
      ended.swap(ended_);
      lock.unlock();
      for (const Ended& each : ended) SharedMemory::Release(each.fd, each.bytes);
      ended.clear();
      lock.lock();
      continue;
    }
    if (stop_) return;
    const auto low = std::ranges::find_if(
        shelves_, [](const Shelf& shelf) { return shelf.wants_more && shelf.ready.size() < kAhead; });
    if (low == shelves_.end()) {
      changed_.wait(lock);
      continue;
    }
    Shelf& shelf = *low;  // stays where it is
    lock.unlock();
    auto made = SharedMemory::Create(shelf.name, shelf.size, shelf.writers);
    lock.lock();
    if (made.ok()) {
      shelf.ready.push_back(*std::move(made));
    } else {
      shelf.wants_more = false;
    }
  }
}

}  // namespace remora::rdma
