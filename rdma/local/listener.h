// The server's end of a local address: the admission of clients, and the events of all connections.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rdma/local/futex.h"
#include "rdma/local/liveness.h"
#include "rdma/local/polled_connections.h"
#include "rdma/local/server.h"
#include "rdma/local/socket.h"
#include "rdma/memory_pool.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Accepts clients of this host at a Unix socket, and finds those that have news.
///
/// The class has more than 25 methods and 15 fields, because it implements an interface, and keeps clients
/// apart that are half connected, ready, and connected.
class LocalListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Make(const Address& address, const QueueLimits& limits,
                                                        const Clock& clock, const LocalAccess& access);
  ~LocalListener() override;

  const Address& address() const override { return address_; }
  const QueueLimits& limits() const override { return limits_; }
  bool binds_writes() const override { return true; }  // only a process with the mapping can write
  absl::StatusOr<RemoteRegion> RegisterRead(SharedMemory& memory) override;
  std::unique_ptr<ServerConnection> NextRequest() override;
  std::size_t Poll(std::span<Completion> out) override;
  bool PollingPays() const override { return !connections_.has_client_here(); }
  void Arm() override;
  void Disarm() override;
  bool ArmBriefly() override;
  std::atomic<std::uint32_t>* brief_word() override;
  bool SleepBriefly(Duration longest) override { return FutexWaitAny(wakes_, longest); }
  int wait_fd() const override { return epoll_.get(); }
  std::uint64_t dropped_handshakes() const override { return dropped_handshakes_; }
  std::uint64_t without_descriptor() const override { return without_descriptor_; }

  // --- For its connections ---
  int page_fd() const { return alive_->memory().fd(); }
  const std::vector<SharedMemory*>& reads() const { return reads_; }
  SharedMemoryPool& pool() { return pool_; }
  /// Adds a connection, when it is made. Remove follows when it is destroyed.
  void Add(LocalServer* connection);
  void Remove(LocalServer* connection);
  /// Polls the connection and gives it its socket's events, from Watch to Unwatch or Remove.
  absl::Status Watch(LocalServer* connection);
  /// Ends the events only.
  void Unwatch(LocalServer* connection);
  /// Polls a connection that may be parked.
  void Unpark(LocalServer* connection) { connections_.Unpark(connection); }

 private:
  /// A client that has connected and not yet said what it wants.
  struct HalfOpen {
    UniqueFd socket;
    ucred peer = {};
    TimePoint since;
  };

  LocalListener(const Address& address, const QueueLimits& limits, const Clock& clock,
                const LocalAccess& access)
      : address_(address), limits_(limits), clock_(clock), access_(access) {}
  absl::Status Start();

  /// Handles the events of all sockets.
  void HandleEvents();
  /// Accepts new clients, and reads the hellos of half-open ones: kMaxPendingServed at most.
  void ServePendingClients();
  void AcceptSocket();
  void RejectOne();
  void AddClient(UniqueFd socket);
  bool Admits(int socket, const ucred& peer) const;
  void DropOldest();
  void Forget(std::list<HalfOpen>::iterator client);
  /// Reads the hello of `client`. Returns false if it has sent none. Otherwise the client is no longer
  /// half-open: it became a connection, or it was dropped and counted, because its hello is wrong.
  bool ReadHello(HalfOpen& client);
  /// Accepts the hello of `client`. Returns false if it is no request.
  bool Take(HalfOpen& client, const ReceivedHello& received);

  const Address address_;
  const QueueLimits limits_;
  const Clock& clock_;
  const LocalAccess access_;
  SharedMemoryPool pool_;
  // Released last, when nothing of this server is left: see A1 of wire.h.
  UniqueFd lock_;
  std::unique_ptr<ServerLiveness> alive_;
  UniqueFd spare_;
  UniqueFd listening_;
  FileName file_;                     // of the socket's path
  UniqueFd pending_epoll_;            // the listening socket (null) and those of half_open_ (their addresses)
  UniqueFd epoll_;                    // pending_epoll_ (null) and connections (their addresses)
  std::vector<SharedMemory*> reads_;  // by key - 1
  std::list<HalfOpen> half_open_;     // oldest first
  std::deque<std::unique_ptr<LocalServer>> ready_;
  PolledConnections connections_;  // that are watched, or were
  std::size_t connection_count_ = 0;
  std::uint32_t polls_ = 0;  // since the last check of the sockets
  TimePoint pending_pause_until_;
  std::uint64_t dropped_handshakes_ = 0;
  std::uint64_t without_descriptor_ = 0;
  bool armed_ = false;  // by Arm
  const bool has_futex_wait_any_ = HasFutexWaitAny();
  std::vector<SeenWord> wakes_;  // of a brief sleep; empty: it is not possible any more
};

}  // namespace remora::rdma
