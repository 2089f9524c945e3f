// The server's end: one event channel and one completion queue for all connections.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "rdma/verbs_address.h"
#include "rdma/verbs_connection.h"
#include "rdma/verbs_device.h"
#include "rdma/verbs_registration.h"

namespace remora::rdma {

class VerbsListener;

/// A client's request, then its connection.
class VerbsServerConnection final : public VerbsConnection {
 public:
  VerbsServerConnection(VerbsListener& listener, ConnectionEvent request, std::uint32_t serial,
                        const QueueLimits& limits, const DeviceLimits& device, CompletionQueue& completions);
  ~VerbsServerConnection() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) override;
  absl::Status Connect(std::span<const std::byte>, TimePoint) override;
  absl::Status Accept(std::span<const std::byte> data) override;
  void Reject(std::span<const std::byte> data) override;
  std::size_t Poll(std::span<Completion>) override { return 0; }
  absl::Status Wait(TimePoint) override;

  bool accepted() const { return connected(); }

 private:
  /// Not before somebody means to accept: who is rejected costs the device nothing.
  absl::Status EnsureQueuePair();
  /// The queue pair takes requests, too, before the client knows of it: windows are bound by requests.
  absl::Status EnsureRequests();
  rdma_conn_param Parameters(std::span<const std::byte> data) const;

  VerbsListener& listener_;
  CompletionQueue& completions_;
  const std::uint32_t initiator_depth_;      // asked for by the client, seen from this side
  const std::uint32_t responder_resources_;  // likewise
  bool takes_requests_ = false;
};

class VerbsListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Create(const Address& address,
                                                               const QueueLimits& limits, const Clock& clock,
                                                               MemoryWindows windows);
  ~VerbsListener() override;

  const Address& address() const override { return address_; }
  const QueueLimits& limits() const override { return limits_; }
  bool binds_writes() const override { return device_.memory_windows; }
  absl::StatusOr<RemoteRegion> RegisterRead(SharedMemory& memory) override;
  std::unique_ptr<Connection> NextRequest() override;
  std::size_t Poll(std::span<Completion> out) override;
  void Arm() override;
  void Disarm() override;
  int wait_fd() const override { return wait_fd_; }
  std::uint64_t dropped_handshakes() const override { return dropped_handshakes_; }

  /// For the connection's destructor, when its queue pair is gone.
  void Forget(VerbsServerConnection& connection);
  /// Waits until the device has done what was posted to the connection's send queue: requests that no peer
  /// has a part in. Not OK: the connection is broken, or the device does nothing.
  absl::Status AwaitSends(VerbsServerConnection& connection);

 private:
  VerbsListener(const Address& address, const QueueLimits& limits, const Clock& clock)
      : address_(address), limits_(limits), clock_(clock) {}

  absl::Status Start();
  absl::Status MakeWaitable();
  void HandleEventsSometimes();
  void HandleEvents();
  /// What the caller may have looked for already is there: it must not sleep.
  void WakeIfArmed();
  std::size_t TakeCompletions(std::span<ibv_wc> out);
  void AddRequest(ConnectionEvent event);
  void NoteIfBroken(VerbsServerConnection& connection);

  Address address_;
  const QueueLimits limits_;
  const Clock& clock_;
  std::unique_ptr<EventChannel> events_;
  IdPtr id_;
  DeviceLimits device_;
  std::unique_ptr<CompletionQueue> completions_;
  std::deque<ibv_wc> early_;  // completions that AwaitSends came across, of others; before those of the queue
  std::vector<std::unique_ptr<VerbsRegistration>> regions_;
  int wake_fd_ = -1;  // an eventfd: turns wait_fd_ readable for what was found between Arm and sleeping
  int wait_fd_ = -1;  // an epoll of wake_fd_, the events and the completions
  bool armed_ = false;
  bool woken_ = false;       // wake_fd_ was written to
  bool events_due_ = false;  // the next NextRequest or Poll must ask for events
  unsigned idle_calls_ = 0;
  std::uint64_t dropped_handshakes_ = 0;

  // A completion queue that overflows is lost, so there is room for everything that its connections may have
  // under way: connections_.size() + forgotten_ <= capacity_.
  std::size_t capacity_ = 0;
  std::size_t forgotten_ = 0;  // destroyed, but some of their completions may still be in the queue
  std::uint32_t last_serial_ = 0;
  std::unordered_map<std::uint32_t, VerbsServerConnection*> connections_;  // by serial
  std::vector<VerbsServerConnection*> broken_;                   // those with kDisconnected still to come
  std::deque<std::unique_ptr<VerbsServerConnection>> requests_;  // not returned by NextRequest yet
};

}  // namespace remora::rdma
