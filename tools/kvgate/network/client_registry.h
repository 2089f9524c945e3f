// The clients of a gate, over all of its threads: for CLIENT LIST and INFO.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tools/kvgate/pubsub/mailbox.h"

namespace remora::kvgate {

/// A client as others see it. Its own thread sets the atomic members; the registry's lock protects the names.
struct ClientRecord {
  std::int64_t id = 0;
  std::string address;
  std::string local_address;
  int fd = -1;
  std::int64_t connected_ms = 0;  // Clock::UnixMillis
  std::atomic<std::int64_t> active_ms{0};
  std::atomic<const char*> command{"NULL"};  // name of the last one, which stays
  std::atomic<int> protocol{2};
  std::atomic<int> channels{0};  // that it has subscribed to
  std::atomic<int> patterns{0};
  std::atomic<int> shard_channels{0};
  std::atomic<std::int64_t> redirect{-1};  // of CLIENT TRACKING; 0: to itself; -1: it does not track
  std::atomic<bool> has_broadcast{false};  // CLIENT TRACKING with BCAST
  std::atomic<bool> is_redirect_broken{false};
  std::string user{"default"};
  /// Returns its type in CLIENT LIST and CLIENT KILL.
  bool is_subscriber() const { return channels + patterns + shard_channels > 0; }
  const char* type() const { return is_subscriber() ? "pubsub" : "normal"; }
  bool is_shut_down = false;  // its thread has not noticed yet
  std::string name{};
  std::string library{};
  std::string library_version{};
  std::shared_ptr<Mailbox> mailbox{};  // under the lock; null: no thread serves it yet
};

/// The set of all connected clients.
///
/// Thread safety: all methods may be called from any thread.
class ClientRegistry {
 public:
  /// Returns a record with a new ID.
  std::shared_ptr<ClientRecord> Add(std::string address, std::string local_address, int fd,
                                    std::int64_t now_ms);
  void Remove(std::int64_t id);
  /// Calls with each client, in the order of their IDs, under the lock.
  void ForEach(const std::function<void(const ClientRecord&)>& visit) const;
  /// Sets a name of a record, under the lock.
  void Rename(std::string ClientRecord::*name, ClientRecord* record, std::string text);
  /// Ends the sockets of the clients for which `ends` returns true, under the lock, once each. Their threads
  /// notice it.
  void ShutDown(const std::function<bool(const ClientRecord&)>& ends);
  /// Sets the mailbox of a record. Remove precedes the end of the thread that the mailbox wakes.
  void SetMailbox(ClientRecord* record, std::shared_ptr<Mailbox> mailbox);
  /// Returns whether the client is connected.
  bool Has(std::int64_t id) const;
  /// Adds to the mailbox of a client, under the lock. Returns false if it is not connected.
  bool Send(std::int64_t id, Delivery delivery, TimePoint now);
  std::size_t size() const;

 private:
  mutable Mutex mutex_;
  std::int64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::int64_t, std::shared_ptr<ClientRecord>> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora::kvgate
