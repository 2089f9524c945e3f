// A verbs listener's second thread: it does what would keep waiting whoever is served.
//
//   serving thread                                   doorkeeper
//                                                    RDMA_CM_EVENT_CONNECT_REQUEST
//   TakeNews: a request                   <-----       a Visitor
//   Accept(serial, order)                 ----->     queue pair to RTS, bind of the windows
//   the binds' completions
//   Answer(serial)                        ----->     rdma_accept
//                                                    RDMA_CM_EVENT_DISCONNECTED
//   TakeNews: a loss                      <-----
//   Break(serial, qp)                     ----->     queue pair to ERR, which flushes what is posted
//   Disconnect(serial, qp)                ----->     rdma_disconnect; queue pair to ERR
//   TakeApart(memory)                     ----->     registrations and windows go
//   End(serial, qp)                       ----->     queue pair and id go
//   TakeNews: one more has ended          <-----
//
// Without windows, Accept answers, too. Only this thread touches a client's rdma_cm_id, so it hears no event
// of one that it has destroyed.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/address.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/resource_pool.h"

namespace remora::rdma {

/// A client's wish to connect.
struct VerbsRequest {
  std::uint32_t serial = 0;
  rdma_cm_id id{};  // a copy: its device and its addresses
  std::uint32_t initiator_depth = 0;
  std::uint32_t responder_resources = 0;
  std::vector<std::byte> data;
};

/// How a client is to be accepted.
struct AcceptOrder {
  struct Bind {
    VerbsWindow* window = nullptr;
    std::uint64_t request_id = 0;
  };
  ibv_qp* qp = nullptr;
  std::vector<Bind> binds;  // posted, signalled, before the client is answered
  rdma_conn_param param{};  // but for the data
  std::vector<std::byte> data;
};

class Doorkeeper {
 public:
  /// A connection that is lost, and why.
  struct Loss {
    std::uint32_t serial = 0;
    absl::Status cause;
    bool flushes = true;  // no: its queue pair is gone, and nothing of it will complete any more
  };
  struct News {
    std::vector<VerbsRequest> requests;
    std::vector<Loss> losses;
    std::size_t ended = 0;        // connections whose queue pairs are gone
    std::size_t turned_away = 0;  // clients, for want of room
  };

  /// `events` of the listening id are this thread's from now on; both outlive this object. At most `capacity`
  /// requests and connections at a time.
  static absl::StatusOr<std::unique_ptr<Doorkeeper>> Start(EventChannel& events, VerbsStock& stock,
                                                           std::size_t capacity);
  /// Does first what it was told to.
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

  // --- For the serving thread. Each request is ended once, whatever became of it. ------------------

  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  /// Returns the news since the last call.
  News TakeNews();
  /// Turns readable with news, and when the stock that was low is not any more.
  int news_fd() const { return news_fd_; }
  /// Makes news_fd() unreadable.
  void TakeNotifications();

  void Accept(std::uint32_t serial, AcceptOrder order);
  void Answer(std::uint32_t serial);
  void Reject(std::uint32_t serial, std::span<const std::byte> data);
  void Break(std::uint32_t serial, ibv_qp* qp);
  void Disconnect(std::uint32_t serial, ibv_qp* qp);
  void End(std::uint32_t serial, ibv_qp* qp);
  void TakeApart(OwnedMemory memory);
  /// Waits until all of that is done.
  void AwaitOrders();
  /// So many of those that have ended have no completions left.
  void LeaveRoom(std::size_t count) { room_.fetch_add(count, std::memory_order_relaxed); }

 private:
  /// A client between its request and its end.
  struct Visitor {
    IdPtr id;
    std::uint32_t serial = 0;
    AcceptOrder order{};
    bool is_connected = false;
    bool has_lost_queue_pair = false;
  };
  using Order = absl::AnyInvocable<void()>;

  Doorkeeper(EventChannel& events, VerbsStock& stock, std::size_t capacity)
      : events_(events), stock_(stock), room_(capacity) {}

  void Tell(Order order);
  void Run();
  bool DoOrders();
  bool HandleEvents();
  void TakeRequest(ConnectionEvent event);
  void AcceptNow(Visitor& visitor, AcceptOrder order);
  void AnswerNow(Visitor& visitor);
  void BreakNow(Visitor& visitor, ibv_qp* qp);
  void EndNow(Visitor& visitor, ibv_qp* qp);
  static void TellOfEnd(Visitor& visitor);
  /// Its queue pair goes at once.
  void Lose(Visitor& visitor, ibv_qp* qp, absl::Status cause);
  /// Changes the news, and wakes who waits for them.
  template <typename Change>
  void Report(Change change);

  EventChannel& events_;
  VerbsStock& stock_;
  int orders_fd_ = -1;  // eventfds
  int news_fd_ = -1;
  std::atomic<std::size_t> room_;  // for so many more
  std::atomic<bool> has_news_ = false;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Order> orders_;
  News news_;
  bool stop_ = false;

  // The thread's own.
  std::unordered_map<std::uint32_t, std::unique_ptr<Visitor>> visitors_;  // by serial; ids point to them
  std::uint32_t last_serial_ = 0;

  std::thread thread_;
};

}  // namespace remora::rdma
