#include "rdma/verbs/cm_thread.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory_window.h"
#include "rdma/verbs/status.h"
#include "store/base/check.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

void Signal(int fd) { REMORA_CHECK(eventfd_write(fd, 1) == 0); }

void Drain(int fd) {
  eventfd_t ignored;
  static_cast<void>(eventfd_read(fd, &ignored));  // fails where there is nothing
}

std::string PeerOf(rdma_cm_id* id) { return AddressText(rdma_get_peer_addr(id)); }

// Lets connected clients go before new ones where there is no CPU for both. This thread gets a
// tenth of another one's share, and does not interrupt it. A smaller share would hardly let it run
// on a machine that has no CPU to spare.
void YieldToOthers() {
  constexpr int kNicer = 10;
  const sched_param none{};
  static_cast<void>(sched_setscheduler(0, SCHED_BATCH, &none));
  static_cast<void>(nice(kNicer));  // of this thread alone, in Linux
}

/// Why a step of accepting failed: that its client is gone shows in any of them.
absl::Status NotAccepted(int error, absl::string_view call, rdma_cm_id* id) {
  const std::string peer = PeerOf(id);
  if (error == ENOMEM) return StatusFromErrno(error, call, peer);
  return absl::UnavailableError(absl::StrCat(peer, ": the client gave up, or cannot be accepted (", call,
                                             ": ", std::strerror(error), ")"));
}

/// Does with a queue pair what rdma_accept does with one that it knows, before it answers.
absl::Status MakeReady(rdma_cm_id* id, const AcceptOrder& order) {
  SetRetransmission(id);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id, &attributes, &mask) != 0) {
      return NotAccepted(errno, "rdma_init_qp_attr", id);
    }
    if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = order.param.responder_resources;
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = order.param.initiator_depth;
    if (const int error = ibv_modify_qp(order.qp, &attributes, mask); error != 0) {
      return NotAccepted(error, "ibv_modify_qp", id);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Doorkeeper>> Doorkeeper::Start(EventChannel& events, VerbsStock& stock,
                                                              std::size_t capacity) {
  std::unique_ptr<Doorkeeper> self(new Doorkeeper(events, stock, capacity));
  self->orders_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  self->news_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->orders_fd_ < 0 || self->news_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  Doorkeeper* const raw = self.get();
  REMORA_ASSIGN_OR_RETURN(self->thread_, StartThread([raw] { return std::thread([raw] { raw->Run(); }); }));
  return self;
}

Doorkeeper::~Doorkeeper() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    Signal(orders_fd_);
    thread_.join();
  }
  if (orders_fd_ >= 0) close(orders_fd_);
  if (news_fd_ >= 0) close(news_fd_);
}

// --- The serving thread's part -----------------------------------------------------------------------------

void Doorkeeper::TakeNotifications() { Drain(news_fd_); }

Doorkeeper::News Doorkeeper::TakeNews() {
  const std::lock_guard lock(mutex_);
  has_news_.store(false, std::memory_order_relaxed);
  return std::exchange(news_, {});
}

void Doorkeeper::Tell(Order order) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = orders_.empty();
    orders_.push_back(std::move(order));
  }
  if (is_first) Signal(orders_fd_);
}

void Doorkeeper::Accept(std::uint32_t serial, AcceptOrder order) {
  Tell([this, serial, order = std::move(order)]() mutable {
    AcceptNow(*visitors_.at(serial), std::move(order));
  });
}

void Doorkeeper::Answer(std::uint32_t serial) {
  Tell([this, serial] { AnswerNow(*visitors_.at(serial)); });
}

void Doorkeeper::Reject(std::uint32_t serial, std::span<const std::byte> data) {
  Tell([this, serial, data = std::vector(data.begin(), data.end())] {
    // Fails when the client is gone already.
    static_cast<void>(
        rdma_reject(visitors_.at(serial)->id.get(), data.data(), static_cast<std::uint8_t>(data.size())));
  });
}

void Doorkeeper::Break(std::uint32_t serial, ibv_qp* qp) {
  Tell([this, serial, qp] { BreakNow(*visitors_.at(serial), qp); });
}

void Doorkeeper::Disconnect(std::uint32_t serial, ibv_qp* qp) {
  Tell([this, serial, qp] {
    Visitor& visitor = *visitors_.at(serial);
    TellOfEnd(visitor);
    BreakNow(visitor, qp);
  });
}

void Doorkeeper::End(std::uint32_t serial, ibv_qp* qp) {
  Tell([this, serial, qp] { EndNow(*visitors_.at(serial), qp); });
}

void Doorkeeper::TakeApart(OwnedMemory memory) {
  Tell([memory = std::move(memory)] {});  // it goes with the order
}

void Doorkeeper::AwaitOrders() {
  std::promise<void> done;
  Tell([&] { done.set_value(); });
  done.get_future().wait();
}

// --- The thread -----------------------------------------------------------------------------------------

void Doorkeeper::Run() {
  YieldToOthers();
  for (;;) {
    bool worked = HandleEvents();
    worked |= DoOrders();
    if (worked) continue;
    {
      const std::lock_guard lock(mutex_);
      if (stop_ && orders_.empty()) break;
    }
    switch (stock_.MakeOne()) {
      case VerbsStock::Made::kNothing:
        break;
      case VerbsStock::Made::kOne:
        continue;
      case VerbsStock::Made::kLast:
        Report([](News&) {});
        continue;
    }
    std::array<pollfd, 2> fds = {{{orders_fd_, POLLIN, 0}, {events_.fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) Drain(orders_fd_);
  }
  visitors_.clear();  // those that nobody has taken
}

bool Doorkeeper::DoOrders() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
  }
  for (Order& order : orders) std::exchange(order, nullptr)();
  return !orders.empty();
}

template <typename Change>
void Doorkeeper::Report(Change change) {
  {
    const std::lock_guard lock(mutex_);
    change(news_);
  }
  // In this order, a woken thread finds the news. A thread that found them before is woken once for
  // nothing.
  has_news_.store(true, std::memory_order_release);
  Signal(news_fd_);
}

bool Doorkeeper::HandleEvents() {
  bool worked = false;
  while (std::optional<ConnectionEvent> event = events_.Next()) {
    worked = true;
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      TakeRequest(*std::move(event));
      continue;
    }
    // Null for the listening id, whose events say nothing that its connections do not hear, too.
    const auto* const visitor = static_cast<const Visitor*>(event->id->context);
    if (visitor == nullptr) continue;
    absl::Status status = StatusFromLateEvent(event->type, event->status, PeerOf(event->id));
    if (status.ok()) continue;
    Report(
        [&](News& news) { news.losses.push_back({.serial = visitor->serial, .cause = std::move(status)}); });
  }
  return worked;
}

void Doorkeeper::TakeRequest(ConnectionEvent event) {
  IdPtr id(event.id);
  if (room_.load(std::memory_order_relaxed) == 0) {
    static_cast<void>(rdma_reject(id.get(), nullptr, 0));
    return Report([](News& news) { ++news.turned_away; });
  }
  room_.fetch_sub(1, std::memory_order_relaxed);
  while (++last_serial_, visitors_.contains(last_serial_)) {
  }
  auto visitor = std::make_unique<Visitor>(Visitor{.id = std::move(id), .serial = last_serial_});
  visitor->id->context = visitor.get();
  VerbsRequest request = {.serial = last_serial_,
                          .id = *visitor->id,
                          .initiator_depth = event.initiator_depth,
                          .responder_resources = event.responder_resources,
                          .data = std::move(event.data)};
  visitors_.emplace(last_serial_, std::move(visitor));
  Report([&](News& news) { news.requests.push_back(std::move(request)); });
}

void Doorkeeper::AcceptNow(Visitor& visitor, AcceptOrder order) {
  visitor.order = std::move(order);
  absl::Status status = MakeReady(visitor.id.get(), visitor.order);
  for (const AcceptOrder::Bind& bind : visitor.order.binds) {
    if (!status.ok()) break;
    if (const int error = bind.window->PostBind(visitor.order.qp, bind.request_id, IBV_SEND_SIGNALED);
        error != 0) {
      status = NotAccepted(error, "ibv_post_send", visitor.id.get());
    }
  }
  if (!status.ok()) return Lose(visitor, visitor.order.qp, std::move(status));
  if (visitor.order.binds.empty()) AnswerNow(visitor);
}

// The id does not know the queue pair, so this leaves its state alone (rdma_accept(3)).
void Doorkeeper::AnswerNow(Visitor& visitor) {
  if (visitor.has_lost_queue_pair) return;
  AcceptOrder& order = visitor.order;
  order.param.private_data = order.data.data();
  order.param.private_data_len = static_cast<std::uint8_t>(order.data.size());
  order.param.qp_num = order.qp->qp_num;
  if (rdma_accept(visitor.id.get(), &order.param) != 0) {
    return Lose(visitor, order.qp, NotAccepted(errno, "rdma_accept", visitor.id.get()));
  }
  visitor.is_connected = true;
}

void Doorkeeper::BreakNow(Visitor& visitor, ibv_qp* qp) {
  if (visitor.has_lost_queue_pair || SetToError(qp)) return;
  Lose(visitor, qp, absl::InternalError("its queue pair is out of order"));
}

void Doorkeeper::Lose(Visitor& visitor, ibv_qp* qp, absl::Status cause) {
  REMORA_CHECK(ibv_destroy_qp(qp) == 0);
  visitor.has_lost_queue_pair = true;
  Report([&](News& news) {
    news.losses.push_back({.serial = visitor.serial, .cause = std::move(cause), .flushes = false});
  });
}

void Doorkeeper::TellOfEnd(Visitor& visitor) {
  if (!std::exchange(visitor.is_connected, false)) return;
  static_cast<void>(rdma_disconnect(visitor.id.get()));  // also answers a peer's own
}

// None of this waits for the peer, dead or alive: with soft-RoCE it takes some milliseconds.
void Doorkeeper::EndNow(Visitor& visitor, ibv_qp* qp) {
  TellOfEnd(visitor);
  if (qp != nullptr && !visitor.has_lost_queue_pair) REMORA_CHECK(ibv_destroy_qp(qp) == 0);
  visitors_.erase(visitor.serial);
  Report([](News& news) { ++news.ended; });
}

}  // namespace remora::rdma
