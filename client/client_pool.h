// A pool of clients of one server, for programs with many threads.
//
//   auto pool = remora::ClientPool::Create("local:///run/remora.sock", {}, {.max_clients = 8});
//   absl::StatusOr<remora::ClientPool::Lease> client = (*pool)->Acquire();
//   if (!client.ok()) return client.status();
//   absl::StatusOr<std::string> value = (*client)->Get("key");
//
// A thread acquires a lease, uses its client, and destroys the lease. A thread that works all the time may
// keep its lease.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/client_metrics.h"
#include "client/client_pool_counters.h"
#include "client/counters.h"
#include "client/misuse.h"
#include "client/options.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora {

/// Largest ClientPoolOptions::max_clients.
inline constexpr std::size_t kMaxPoolClients = 4096;

/// Options of a ClientPool, besides those of its clients.
struct ClientPoolOptions {
  /// Number of clients at most, 1 to kMaxPoolClients. Each is a connection, with 264 KiB of the server's
  /// memory.
  std::size_t max_clients = 16;
  /// Time for which Acquire waits while all clients are in use. At least 0; 0: it does not wait.
  std::chrono::milliseconds acquire_timeout{5000};
};

/// A bounded set of clients with the same options, which lends them to threads.
///
/// The pool connects a client when a thread wants one and none is idle. A failure to connect is returned to
/// that thread alone. The next call tries again, so the pool keeps its size. A client that reconnects by
/// itself (ClientOptions::reconnect) stays in the pool when its connection breaks. The pool replaces a client
/// that does not, when it would lend it next. The pool never drops idle clients otherwise.
///
/// A thread gets the client that it had last, if that one is idle: its location cache has the keys of that
/// thread. Otherwise it gets the client that was returned last.
///
/// Threads that find all clients in use wait, and are served in turn. No later call overtakes them.
///
/// Thread safety: all functions may be called from many threads. A lease, and the client behind it, is for
/// one thread at a time (Client). Several leases of one thread are fine, but threads that each hold some and
/// wait for another one may wait for each other until acquire_timeout.
///
/// Cost: Acquire and the return of its lease each lock a mutex for some tens of instructions, and allocate
/// nothing. Waiting and connecting threads do not hold it.
///
/// A program destroys all leases first, and then the pool. The destructor ends the process with a message if
/// leases exist, or if threads are waiting for one. In a forked child, each Acquire ends with
/// FailedPrecondition. Leases and the pool may be destroyed there, which does nothing: the clients are the
/// parent's.
class ClientPool {
 public:
  /// Right to use one client of a pool. It returns the client when it is destroyed. Scans, watches and
  /// registered buffers of that client must end before. Not copyable.
  class Lease {
   public:
    /// Makes an empty lease.
    Lease() = default;
    /// Takes over the client of `other`, which is empty then.
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    /// Returns the client that it had before to the pool, and takes over that of `other`.
    Lease& operator=(Lease&& other) noexcept {
      if (this == &other) return *this;
      Return();
      pool_ = std::exchange(other.pool_, nullptr);
      client_ = std::exchange(other.client_, nullptr);
      slot_ = other.slot_;
      return *this;
    }
    ~Lease() { Return(); }

    /// Returns the client, which is valid until the lease returns it. An empty lease ends the process with a
    /// message.
    Client& operator*() const { return *get(); }
    Client* operator->() const { return get(); }
    /// Returns whether it has a client: it was neither moved from nor returned.
    explicit operator bool() const { return client_ != nullptr; }

    /// Returns the client to the pool, as the destructor does. The lease is empty then.
    void Return() {
      client_ = nullptr;
      if (pool_ != nullptr) std::exchange(pool_, nullptr)->Release(slot_);
    }

   private:
    friend class ClientPool;
    Lease(ClientPool& pool, Client& client, std::uint32_t slot)
        : pool_(&pool), client_(&client), slot_(slot) {}
    Client* get() const {
      if (client_ == nullptr) [[unlikely]] {
        EndOnMisuse(
            "a lease of a ClientPool is used after it was moved from or returned; acquire another one");
      }
      return client_;
    }

    ClientPool* pool_ = nullptr;
    Client* client_ = nullptr;
    std::uint32_t slot_ = 0;
  };

  /// Makes a pool for a server at `address`, or at the first of several (Client::Connect). Connects no client
  /// yet. `clock` must outlive the pool. Outcomes:
  ///   InvalidArgument: the address, the auth token or an option of the pool is malformed.
  static absl::StatusOr<std::unique_ptr<ClientPool>> Create(std::string_view address,
                                                            const ClientOptions& client = {},
                                                            const ClientPoolOptions& pool = {},
                                                            const Clock& clock = DefaultClock());
  /// Makes a pool of clients over connections that `dialer` makes. Several threads call it at the same time.
  /// InvalidArgument: the auth token or an option is malformed.
  static absl::StatusOr<std::unique_ptr<ClientPool>> Create(Dialer dialer, const ClientOptions& client = {},
                                                            const ClientPoolOptions& pool = {},
                                                            const Clock& clock = DefaultClock());
  /// Rejects at compile time a temporary clock, which would not outlive the pool.
  template <typename To>
  static void Create(To&& to, const ClientOptions& client, const ClientPoolOptions& pool,
                     const Clock&& clock) = delete;

  /// REQUIRES: there is no lease, and no thread is in a call.
  ~ClientPool();
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  /// Returns a lease of an idle client, or of one that it connects for this call. Waits for at most
  /// ClientPoolOptions::acquire_timeout while all clients are in use, and for at most
  /// ClientOptions::connect_timeout if it connects one. Outcomes:
  ///   DeadlineExceeded: all clients stayed in use, or the server did not answer while connecting.
  ///   FailedPrecondition: this process is a forked child; or as for Client::Connect.
  ///   Any other: as for Client::Connect.
  absl::StatusOr<Lease> Acquire() { return TryAcquire(options_.acquire_timeout); }

  /// Does what Acquire does, but waits for at most `timeout` while all clients are in use. If it is 0 or
  /// less, the call does not wait; it may still connect a client.
  absl::StatusOr<Lease> TryAcquire(std::chrono::milliseconds timeout);

  /// Returns the state and the counters of the pool, all as of one moment.
  ClientPoolCounters counters() const;

  /// Returns the sum of the counters of all clients that the pool has had. The work of a client that is in
  /// use counts up to its last return.
  ClientCounters client_counters() const;

  /// Returns the sum of the metrics of all clients that the pool has had, with those of the pool itself. With
  /// ClientOptions::metrics it has all calls that have ended. Without, it has what `counters` and
  /// `client_counters` return.
  ClientMetrics metrics() const;

 private:
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  /// Place of one client. The thread that has the slot uses its client, and puts it there or takes it away
  /// under the mutex.
  struct Slot {
    std::unique_ptr<Client> client;  // null: none is connected
    bool is_idle = false;            // it has a client, and is in the list of those without a lease:
    std::uint32_t newer = kNoSlot;
    std::uint32_t older = kNoSlot;
    ClientCounters counters;  // of its client, at the last return
  };
  /// A thread that waits for a slot; it lives on that thread's stack.
  struct Waiter {
    std::condition_variable granted;
    std::uint32_t slot = kNoSlot;
  };

  /// Several threads call it at the same time.
  using Connector = std::function<absl::StatusOr<std::unique_ptr<Client>>()>;

  ClientPool(Connector connect, bool has_metrics, const ClientPoolOptions& pool, const Clock& clock);

  bool is_forked() const;
  /// Takes a slot that nobody has, the caller's last one if possible; kNoSlot: there is none.
  std::uint32_t TakeSlot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Waits for a slot until `timeout` has passed.
  absl::StatusOr<std::uint32_t> AwaitSlot(MutexLock& lock, std::chrono::milliseconds timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Puts a client into a slot that the caller has and that has none.
  absl::Status Connect(Slot& slot);
  /// Destroys the client of a slot that the caller has.
  void Drop(Slot& slot);
  /// Passes a slot on to the thread that waits longest, or makes it free.
  void Release(std::uint32_t slot);
  void LinkIdle(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnlinkIdle(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Connector connect_;
  const bool has_metrics_;  // of the clients: ClientOptions::metrics
  const ClientPoolOptions options_;
  const Clock& clock_;
  const std::uint64_t forks_;
  const std::uint64_t id_;  // of this pool in this process; never used again

  mutable Mutex mutex_;
  std::vector<Slot> slots_;                                      // of constant size; Slot says who uses what
  std::uint32_t newest_idle_ ABSL_GUARDED_BY(mutex_) = kNoSlot;  // head of the list of idle clients
  std::vector<std::uint32_t> empty_ ABSL_GUARDED_BY(mutex_);     // slots that nobody has, without a client
  std::deque<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);          // the one that waits longest first
  ClientPoolCounters counters_ ABSL_GUARDED_BY(mutex_);
  ClientCounters dropped_ ABSL_GUARDED_BY(mutex_);  // counters of clients that were destroyed
  ClientMetrics dropped_metrics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
