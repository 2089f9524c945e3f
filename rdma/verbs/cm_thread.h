// A verbs listener's second thread: it does the work for which connected clients would have to
// wait.
//
//   serving thread                                   CM thread
//                                                    RDMA_CM_EVENT_CONNECT_REQUEST
//   TakeEvents: a request                 <-----       a PendingConnection
//   Accept(serial, command)               ----->     queue pair to RTS, bind of the windows
//   the binds' completions
//   SendAccept(serial)                    ----->     rdma_accept
//                                                    RDMA_CM_EVENT_DISCONNECTED
//   TakeEvents: a disconnection           <-----
//   MoveToError(serial, qp)               ----->     queue pair to ERR, which flushes what is posted
//   Disconnect(serial, qp)                ----->     rdma_disconnect; queue pair to ERR
//   Deregister(memory)                    ----->     registrations and windows go
//   DestroyQueuePair(serial, qp)          ----->     queue pair and id go
//   TakeEvents: one more has ended        <-----
//
// Without windows, Accept sends the acceptance, too. Only this thread touches a client's rdma_cm_id, so it
// hears no event of one that it has destroyed.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/address.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/resource_pool.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// A client's wish to connect.
struct VerbsRequest {
  std::uint32_t serial = 0;
  rdma_cm_id id{};  // a copy: its device and its addresses
  std::uint32_t initiator_depth = 0;
  std::uint32_t responder_resources = 0;
  std::vector<std::byte> data;
};

/// Parameters with which a client is accepted.
struct AcceptCommand {
  struct Bind {
    MemoryWindow* window = nullptr;
    std::uint64_t request_id = 0;
  };
  ibv_qp* qp = nullptr;
  std::vector<Bind> binds;  // posted, signalled, before the client is answered
  rdma_conn_param param{};  // but for the data
  std::vector<std::byte> data;
};

/// A connection that is lost, and why.
struct Disconnection {
  std::uint32_t serial = 0;
  absl::Status cause;
  bool flushes = true;  // no: its queue pair is gone, and nothing of it will complete any more
};

/// Events since the last call of CmThread::TakeEvents.
struct CmEvents {
  std::vector<VerbsRequest> requests;
  std::vector<Disconnection> disconnections;
  std::size_t ended = 0;        // connections whose queue pairs are gone
  std::size_t turned_away = 0;  // clients, for lack of space
};

/// Makes and ends connections, in a thread of its own, since librdmacm waits in these calls.
///
/// The class has more than 25 methods, because each command has one that enqueues it and one that the thread
/// runs.
class CmThread {
 public:
  /// `events` of the listening id are this thread's from now on; both outlive this object. At most `capacity`
  /// requests and connections at a time.
  static absl::StatusOr<std::unique_ptr<CmThread>> Start(EventChannel& events, ResourcePool& pool,
                                                         std::size_t capacity);
  /// Executes all commands first.
  ~CmThread();
  CmThread(const CmThread&) = delete;
  CmThread& operator=(const CmThread&) = delete;

  // --- For the serving thread. It ends each request once, accepted or not. -------------------------

  bool has_events() const { return has_events_.load(std::memory_order_acquire); }
  /// Returns the events since the last call.
  CmEvents TakeEvents();
  /// Returns a descriptor that becomes readable when there are events, and when a pool that was low has
  /// resources again.
  int event_fd() const { return event_fd_; }
  /// Makes event_fd() unreadable.
  void TakeNotifications();

  void Accept(std::uint32_t serial, AcceptCommand command);
  void SendAccept(std::uint32_t serial);
  void Reject(std::uint32_t serial, std::span<const std::byte> data);
  void MoveToError(std::uint32_t serial, ibv_qp* qp);
  void Disconnect(std::uint32_t serial, ibv_qp* qp);
  void DestroyQueuePair(std::uint32_t serial, ibv_qp* qp);
  void Deregister(OwnedMemory memory);
  /// Waits until all commands above are executed.
  void AwaitCommands();
  /// Notes that `count` of the ended connections have no completions left.
  void ReturnCapacity(std::size_t count) { capacity_.fetch_add(count, std::memory_order_relaxed); }

 private:
  /// A client between its request and its end.
  struct PendingConnection {
    IdPtr id;
    std::uint32_t serial = 0;
    AcceptCommand command{};
    bool is_connected = false;
    bool has_lost_queue_pair = false;
  };
  using Command = absl::AnyInvocable<void()>;

  CmThread(EventChannel& events, ResourcePool& pool, std::size_t capacity)
      : events_(events), pool_(pool), capacity_(capacity) {}

  void Enqueue(Command command);
  void Run();
  bool RunCommands();
  bool HandleEvents();
  void TakeRequest(ConnectionEvent event);
  void AcceptNow(PendingConnection& pending, AcceptCommand command);
  void SendAcceptNow(PendingConnection& pending);
  void MoveToErrorNow(PendingConnection& pending, ibv_qp* qp);
  void DestroyNow(PendingConnection& pending, ibv_qp* qp);
  static void SendDisconnect(PendingConnection& pending);
  /// Loses a client. Its queue pair goes at once.
  void DestroyQueuePairOf(PendingConnection& pending, ibv_qp* qp, absl::Status cause);
  /// Changes the events, and wakes the thread that waits for them.
  template <typename Change>
  void Report(Change change);

  EventChannel& events_;
  ResourcePool& pool_;
  int commands_fd_ = -1;  // eventfds
  int event_fd_ = -1;
  std::atomic<std::size_t> capacity_;  // for so many more
  std::atomic<bool> has_events_ = false;

  Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  CmEvents cm_events_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // The thread's own.
  std::unordered_map<std::uint32_t, std::unique_ptr<PendingConnection>>
      pending_;  // by serial; ids point to them
  std::uint32_t last_serial_ = 0;

  std::thread thread_;
};

}  // namespace remora::rdma
