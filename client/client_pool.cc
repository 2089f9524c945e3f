// Invariants, under mutex_:
//
//   P1 While a thread waits, no slot is free: Release passes a slot to the first waiter under the same lock.
//      So a later call finds none, and waiters are served in their order.
//   P2 Each slot is with a thread (counters_.in_use), in the list of idle ones (counters_.idle), or in
//      empty_. A slot whose attempt to connect failed is released as any other, so the pool keeps its size.
//   P3 Only the thread that has a slot uses its client. Passing the slot on under the mutex orders the uses.
//   P4 No client is connected or destroyed under the mutex: both take long.
#include "client/client_pool.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/session/address_choice.h"
#include "client/session/fork_guard.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

constexpr const char* kPoolForked =
    "client pool: it was made before a fork and belongs to the parent; make a new one in the child";

// A longer wait has no practical use, and its end might be no point in time.
constexpr std::chrono::hours kLongestAcquire{24 * 365};

std::atomic<std::uint64_t> next_pool_id = 1;

/// The slot that this thread had last, of the pool that it used last.
struct LastSlot {
  std::uint64_t pool = 0;
  std::uint32_t slot = 0;
};
thread_local LastSlot last_slot;

absl::Status CheckPoolOptions(const ClientPoolOptions& options) {
  if (options.max_clients < 1 || options.max_clients > kMaxPoolClients) {
    return absl::InvalidArgumentError(absl::StrCat("client pool: max_clients is ", options.max_clients,
                                                   "; choose a number from 1 to ", kMaxPoolClients));
  }
  if (options.acquire_timeout.count() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("client pool: acquire_timeout is ",
                                                   options.acquire_timeout.count(),
                                                   " ms; choose 0 or more, where 0 is not to wait"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientPool>> ClientPool::Create(std::string_view address,
                                                               const ClientOptions& client,
                                                               const ClientPoolOptions& pool,
                                                               const Clock& clock) {
  REMORA_RETURN_IF_ERROR(CheckPoolOptions(pool));
  REMORA_ASSIGN_OR_RETURN(const AddressChoice choice, AddressChoice::Of(address, client, clock));
  REMORA_RETURN_IF_ERROR(choice.MakeDialer().status());
  const auto connect = [address = std::string(address), client, &clock] {
    return Client::Connect(address, client, clock);
  };
  return std::unique_ptr<ClientPool>(new ClientPool(connect, client.metrics, pool, clock));
}

absl::StatusOr<std::unique_ptr<ClientPool>> ClientPool::Create(Dialer dialer, const ClientOptions& client,
                                                               const ClientPoolOptions& pool,
                                                               const Clock& clock) {
  REMORA_RETURN_IF_ERROR(CheckPoolOptions(pool));
  const auto connect = [dialer = std::move(dialer), client, &clock] {
    return Client::Connect(dialer, client, clock);
  };
  return std::unique_ptr<ClientPool>(new ClientPool(connect, client.metrics, pool, clock));
}

ClientPool::ClientPool(Connector connect, bool has_metrics, const ClientPoolOptions& pool, const Clock& clock)
    : connect_(std::move(connect)),
      has_metrics_(has_metrics),
      options_(pool),
      clock_(clock),
      forks_(Forks::Count()),
      id_(next_pool_id.fetch_add(1, std::memory_order_relaxed)),
      slots_(pool.max_clients) {
  for (std::size_t slot = slots_.size(); slot > 0; --slot) {
    empty_.push_back(static_cast<std::uint32_t>(slot - 1));
  }
}

ClientPool::~ClientPool() {
  if (is_forked()) {
    for (Slot& slot : slots_) static_cast<void>(slot.client.release());
    return;
  }
  const MutexLock lock(mutex_);
  if (counters_.in_use == 0 && counters_.waiting == 0) return;
  EndOnMisuse(absl::StrCat("a ClientPool is destroyed while ", counters_.in_use,
                           " of its clients are lent and ", counters_.waiting,
                           " threads wait for one; destroy all leases, and join the threads, before the pool")
                  .c_str());
}

bool ClientPool::is_forked() const { return forks_ != Forks::Count(); }

absl::StatusOr<ClientPool::Lease> ClientPool::TryAcquire(std::chrono::milliseconds timeout) {
  // Before the mutex: at the fork another thread may have had it.
  if (is_forked()) return absl::FailedPreconditionError(kPoolForked);
  std::uint32_t index = kNoSlot;
  {
    MutexLock lock(mutex_);
    ++counters_.acquires;
    index = TakeSlot();
    if (index == kNoSlot) {
      REMORA_ASSIGN_OR_RETURN(index, AwaitSlot(lock, timeout));
    }
  }
  last_slot = {.pool = id_, .slot = index};
  Slot& slot = slots_[index];
  if (slot.client != nullptr && slot.client->is_lost()) Drop(slot);
  if (slot.client == nullptr) {
    if (const absl::Status connected = Connect(slot); !connected.ok()) {
      Release(index);
      return connected;
    }
  }
  return Lease(*this, *slot.client, index);
}

std::uint32_t ClientPool::TakeSlot() {
  std::uint32_t slot = newest_idle_;
  if (last_slot.pool == id_ && slots_[last_slot.slot].is_idle) slot = last_slot.slot;
  if (slot != kNoSlot) {
    UnlinkIdle(slot);
  } else if (!empty_.empty()) {
    slot = empty_.back();
    empty_.pop_back();
  } else {
    return kNoSlot;
  }
  ++counters_.in_use;
  return slot;
}

absl::StatusOr<std::uint32_t> ClientPool::AwaitSlot(MutexLock& lock, std::chrono::milliseconds timeout) {
  const TimePoint deadline = clock_.Now() + std::min<Duration>(timeout, kLongestAcquire);
  Waiter waiter;
  if (timeout.count() > 0) {
    ++counters_.waits;
    ++counters_.waiting;
    waiters_.push_back(&waiter);
    bool is_interrupted = false;
    for (TimePoint now = clock_.Now(); waiter.slot == kNoSlot && now < deadline && !is_interrupted;
         now = clock_.Now()) {
      lock.WaitFor(waiter.granted, std::min<Duration>(deadline - now, clock_.LongestSleep()));
      is_interrupted = clock_.IsInterrupted();
    }
    --counters_.waiting;
    if (waiter.slot != kNoSlot) return waiter.slot;
    std::erase(waiters_, &waiter);
    if (is_interrupted) return absl::CancelledError(kInterrupted);
  }
  ++counters_.timeouts;
  return absl::DeadlineExceededError(
      absl::StrCat("client pool: all ", slots_.size(), " clients were in use for ",
                   std::max<std::chrono::milliseconds::rep>(timeout.count(), 0),
                   " ms; return leases earlier, or raise max_clients"));
}

absl::Status ClientPool::Connect(Slot& slot) {
  absl::StatusOr<std::unique_ptr<Client>> client = connect_();
  const MutexLock lock(mutex_);
  if (!client.ok()) {
    ++counters_.connect_failures;
    return client.status();
  }
  ++counters_.connects;
  slot.client = *std::move(client);
  return absl::OkStatus();
}

void ClientPool::Drop(Slot& slot) {
  std::unique_ptr<Client> dropped;  // destroyed after the mutex is free
  const MutexLock lock(mutex_);
  dropped = std::move(slot.client);
  ++counters_.replaced;
  dropped_ += dropped->counters();
  dropped_metrics_ += dropped->metrics();
  slot.counters = {};
}

void ClientPool::Release(std::uint32_t index) {
  if (is_forked()) return;
  const MutexLock lock(mutex_);
  Slot& slot = slots_[index];
  if (slot.client != nullptr) slot.counters = slot.client->counters();
  if (!waiters_.empty()) {
    Waiter& waiter = *waiters_.front();
    waiters_.pop_front();
    waiter.slot = index;
    waiter.granted.notify_one();  // under the mutex: the waiter is gone as soon as it can see its slot
    return;
  }
  --counters_.in_use;
  if (slot.client != nullptr) {
    LinkIdle(index);
  } else {
    empty_.push_back(index);
  }
}

void ClientPool::LinkIdle(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.is_idle = true;
  slot.newer = kNoSlot;
  slot.older = newest_idle_;
  if (newest_idle_ != kNoSlot) slots_[newest_idle_].newer = index;
  newest_idle_ = index;
  ++counters_.idle;
}

void ClientPool::UnlinkIdle(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.is_idle = false;
  if (slot.newer != kNoSlot) slots_[slot.newer].older = slot.older;
  if (slot.older != kNoSlot) slots_[slot.older].newer = slot.newer;
  if (newest_idle_ == index) newest_idle_ = slot.older;
  --counters_.idle;
}

ClientPoolCounters ClientPool::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

ClientCounters ClientPool::client_counters() const {
  const MutexLock lock(mutex_);
  ClientCounters sum = dropped_;
  for (const Slot& slot : slots_) sum += slot.counters;
  return sum;
}

ClientMetrics ClientPool::metrics() const {
  ClientMetrics sum;
  if (has_metrics_) {
    const MutexLock lock(mutex_);
    sum = dropped_metrics_;
    for (const Slot& slot : slots_) {
      if (slot.client != nullptr) sum += slot.client->metrics();
    }
  } else {
    sum.Set(client_counters());
  }
  sum.Set(counters());
  return sum;
}

}  // namespace remora
