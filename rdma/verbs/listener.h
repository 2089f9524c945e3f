// The server's end: one completion queue for all connections, and the thread that accepts them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "rdma/verbs/address.h"
#include "rdma/verbs/cm_thread.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory_window.h"
#include "rdma/verbs/resource_pool.h"
#include "rdma/verbs/server.h"

namespace remora::rdma {

/// Accepts clients over RDMA, and collects the completions of all their connections.
///
/// The class has more than 15 fields, because it owns the objects of the device (identifier, completion
/// channel, regions, pool) that all of its connections use.
class VerbsListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Create(const Address& address,
                                                               const QueueLimits& limits,
                                                               MemoryWindows windows);
  ~VerbsListener() override;

  const Address& address() const override { return address_; }
  const QueueLimits& limits() const override { return limits_; }
  bool binds_writes() const override { return device_.memory_windows; }
  absl::StatusOr<RemoteRegion> RegisterRead(SharedMemory& memory) override;
  std::unique_ptr<ServerConnection> NextRequest() override;
  void AwaitEnds() override { cm_thread_->AwaitCommands(); }
  std::size_t Poll(std::span<Completion> out) override;
  void Arm() override;
  void Disarm() override;
  int wait_fd() const override { return wait_fd_; }
  std::uint64_t dropped_handshakes() const override { return dropped_handshakes_; }

  // --- For its connections ------------------------------------------------------------------------

  const DeviceLimits& device() const { return device_; }
  ResourcePool& pool() { return *pool_; }
  CmThread& cm_thread() { return *cm_thread_; }
  /// Removes a connection; called by its destructor.
  void Forget(VerbsServer& connection);

 private:
  VerbsListener(const Address& address, const QueueLimits& limits) : address_(address), limits_(limits) {}

  absl::Status Start(MemoryWindows windows);
  absl::Status MakeWaitable();
  void HandleCmEvents();
  void TakeDisconnections();
  /// Appends completions to the first `count` entries of `out`, and raises `count`. Returns true if the
  /// queue is empty.
  bool TakeCompletions(std::span<Completion> out, std::size_t& count);
  void NoteIfBroken(VerbsServer& connection);

  Address address_;
  const QueueLimits limits_;
  std::unique_ptr<EventChannel> events_;
  IdPtr id_;
  DeviceLimits device_;
  std::unique_ptr<CompletionQueue> completions_;
  std::vector<std::unique_ptr<VerbsRegistration>> regions_;
  std::unique_ptr<ResourcePool> pool_;
  std::unique_ptr<CmThread> cm_thread_;
  int wait_fd_ = -1;  // an epoll of the events and the completions
  std::uint64_t dropped_handshakes_ = 0;
  // A completion queue that overflows is lost, so it has space for all requests that its
  // connections may have in flight. The listener accepts no more connections before the completions
  // of so many are gone.
  std::size_t ended_ = 0;
  std::unordered_map<std::uint32_t, VerbsServer*> connections_;  // by serial
  std::vector<Disconnection> disconnections_;  // of connections that had been accepted, not told them yet
  std::vector<VerbsServer*> broken_;           // those with kDisconnected still to come
  std::deque<std::unique_ptr<VerbsServer>> requests_;  // not returned by NextRequest yet
};

}  // namespace remora::rdma
