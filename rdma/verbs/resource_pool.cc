#include "rdma/verbs/resource_pool.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "rdma/verbs/status.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

/// Takes one that is ready, if there is one, and asks for more from now on.
template <typename PoolSlot>
auto TakeFrom(PoolSlot& slot) {
  std::optional<typename decltype(slot.ready)::value_type> taken;
  slot.wanted = true;
  if (!slot.ready.empty()) {
    taken = std::move(slot.ready.back());
    slot.ready.pop_back();
  }
  return taken;
}

}  // namespace

ResourcePool::~ResourcePool() {
  for (const QueuePair& queue : queues_.ready) REMORA_CHECK(ibv_destroy_qp(queue.qp) == 0);
}

absl::StatusOr<QueuePair> ResourcePool::TakeQueuePair() {
  {
    const MutexLock lock(mutex_);
    if (const std::optional<QueuePair> queue = TakeFrom(queues_)) return *queue;
  }
  return MakeQueuePair();
}

absl::StatusOr<OwnedMemory> ResourcePool::TakeMemory(VerbsRegistration::Use use, std::size_t size) {
  {
    const MutexLock lock(mutex_);
    if (std::optional<OwnedMemory> memory = TakeFrom(SlotFor(use, size))) return *std::move(memory);
  }
  return MakeMemory(use, size);
}

absl::StatusOr<QueuePair> ResourcePool::MakeQueuePair() const {
  QueuePair queue;
  int error = 0;
  for (const std::uint32_t inline_size : kInlineSizes) {
    ibv_qp_init_attr attributes = QueuePairAttributes(completions_, limits_, inline_size);
    queue.qp = ibv_create_qp(id_->pd, &attributes);
    if (queue.qp != nullptr) {
      queue.inline_size = attributes.cap.max_inline_data;
      break;
    }
    error = errno;
  }
  if (queue.qp == nullptr) {
    return StatusFromErrno(error, "ibv_create_qp", ibv_get_device_name(id_->verbs->device));
  }
  // Accepting the connection sets its own attributes; receives may be posted from here on.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = id_->port_num;
  error = ibv_modify_qp(queue.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return queue;
  REMORA_CHECK(ibv_destroy_qp(queue.qp) == 0);
  return StatusFromErrno(error, "ibv_modify_qp", ibv_get_device_name(id_->verbs->device));
}

absl::StatusOr<OwnedMemory> ResourcePool::MakeMemory(VerbsRegistration::Use use, std::size_t size) const {
  OwnedMemory memory;
  memory.bytes.resize(size);
  if (use == VerbsRegistration::Use::kWindow) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<MemoryWindow> window, MemoryWindow::Create(id_, memory.bytes));
    memory.window = window.get();
    memory.registration = std::move(window);
  } else {
    REMORA_ASSIGN_OR_RETURN(memory.registration, VerbsRegistration::Create(id_, memory.bytes, use));
  }
  return memory;
}

ResourcePool::Memories& ResourcePool::SlotFor(VerbsRegistration::Use use, std::size_t size) {
  for (Memories& slot : memories_) {
    if (slot.use == use && slot.size == size) return slot;
  }
  return memories_.emplace_back(Memories{.use = use, .size = size});
}

bool ResourcePool::IsAnyEmpty() const {
  const auto is_empty = [](const auto& slot) { return slot.wanted && slot.ready.empty(); };
  return is_empty(queues_) || std::ranges::any_of(memories_, is_empty);
}

bool ResourcePool::IsLow() {
  const MutexLock lock(mutex_);
  awaited_ = IsAnyEmpty();
  return awaited_;
}

template <typename Slot, typename Make>
ResourcePool::Made ResourcePool::AddTo(Slot& slot, MutexLock& lock,
                                       Make make) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  lock.Unlock();
  auto made = make();
  lock.Lock();
  slot.wanted = made.ok();
  if (made.ok()) slot.ready.push_back(*std::move(made));
  const bool is_last = awaited_ && !IsAnyEmpty();
  if (is_last) awaited_ = false;
  return is_last ? Made::kLast : Made::kOne;
}

ResourcePool::Made ResourcePool::MakeOne() {
  MutexLock lock(mutex_);
  for (std::size_t count = 0; count < kAhead; ++count) {
    const auto has = [&](const auto& slot) { return slot.wanted && slot.ready.size() == count; };
    if (has(queues_)) return AddTo(queues_, lock, [&] { return MakeQueuePair(); });
    const auto memories = std::ranges::find_if(memories_, has);
    if (memories == memories_.end()) continue;
    return AddTo(*memories, lock,
                 [&, use = memories->use, size = memories->size] { return MakeMemory(use, size); });
  }
  return Made::kNothing;
}

}  // namespace remora::rdma
