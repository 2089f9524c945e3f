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

/// Returns why a step of accepting failed. The loss of the client shows in any of them.
absl::Status NotAccepted(int error, absl::string_view call, rdma_cm_id* id) {
  const std::string peer = PeerOf(id);
  if (error == ENOMEM) return StatusFromErrno(error, call, peer);
  return absl::UnavailableError(absl::StrCat(peer, ": the client gave up, or cannot be accepted (", call,
                                             ": ", std::strerror(error), ")"));
}

/// Does with a queue pair what rdma_accept does with one that it knows, before it answers.
absl::Status MakeReady(rdma_cm_id* id, const AcceptCommand& command) {
  SetRetransmission(id);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id, &attributes, &mask) != 0) {
      return NotAccepted(errno, "rdma_init_qp_attr", id);
    }
    if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = command.param.responder_resources;
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = command.param.initiator_depth;
    if (const int error = ibv_modify_qp(command.qp, &attributes, mask); error != 0) {
      return NotAccepted(error, "ibv_modify_qp", id);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CmThread>> CmThread::Start(EventChannel& events, ResourcePool& pool,
                                                          std::size_t capacity) {
  std::unique_ptr<CmThread> self(new CmThread(events, pool, capacity));
  self->commands_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  self->event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->commands_fd_ < 0 || self->event_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  CmThread* const raw = self.get();
  REMORA_ASSIGN_OR_RETURN(self->thread_, StartThread([raw] { return std::thread([raw] { raw->Run(); }); }));
  return self;
}

CmThread::~CmThread() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    Signal(commands_fd_);
    thread_.join();
  }
  if (commands_fd_ >= 0) close(commands_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

// --- The serving thread's part -----------------------------------------------------------------------------

void CmThread::TakeNotifications() { Drain(event_fd_); }

CmEvents CmThread::TakeEvents() {
  const MutexLock lock(mutex_);
  has_events_.store(false, std::memory_order_relaxed);
  return std::exchange(cm_events_, {});
}

void CmThread::Enqueue(Command command) {
  bool is_first = false;
  {
    const MutexLock lock(mutex_);
    is_first = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (is_first) Signal(commands_fd_);
}

void CmThread::Accept(std::uint32_t serial, AcceptCommand command) {
  Enqueue([this, serial, command = std::move(command)]() mutable {
    AcceptNow(*pending_.at(serial), std::move(command));
  });
}

void CmThread::SendAccept(std::uint32_t serial) {
  Enqueue([this, serial] { SendAcceptNow(*pending_.at(serial)); });
}

void CmThread::Reject(std::uint32_t serial, std::span<const std::byte> data) {
  Enqueue([this, serial, data = std::vector(data.begin(), data.end())] {
    // Fails when the client is gone already.
    static_cast<void>(
        rdma_reject(pending_.at(serial)->id.get(), data.data(), static_cast<std::uint8_t>(data.size())));
  });
}

void CmThread::MoveToError(std::uint32_t serial, ibv_qp* qp) {
  Enqueue([this, serial, qp] { MoveToErrorNow(*pending_.at(serial), qp); });
}

void CmThread::Disconnect(std::uint32_t serial, ibv_qp* qp) {
  Enqueue([this, serial, qp] {
    PendingConnection& pending = *pending_.at(serial);
    SendDisconnect(pending);
    MoveToErrorNow(pending, qp);
  });
}

void CmThread::DestroyQueuePair(std::uint32_t serial, ibv_qp* qp) {
  Enqueue([this, serial, qp] { DestroyNow(*pending_.at(serial), qp); });
}

void CmThread::Deregister(OwnedMemory memory) {
  Enqueue([memory = std::move(memory)] {});  // it goes with the command
}

void CmThread::AwaitCommands() {
  std::promise<void> done;
  Enqueue([&] { done.set_value(); });
  done.get_future().wait();
}

// --- The thread -----------------------------------------------------------------------------------------

void CmThread::Run() {
  YieldToOthers();
  for (;;) {
    bool worked = HandleEvents();
    worked |= RunCommands();
    if (worked) continue;
    {
      const MutexLock lock(mutex_);
      if (stop_ && commands_.empty()) break;
    }
    switch (pool_.MakeOne()) {
      case ResourcePool::Made::kNothing:
        break;
      case ResourcePool::Made::kOne:
        continue;
      case ResourcePool::Made::kLast:
        Report([](CmEvents&) {});
        continue;
    }
    std::array<pollfd, 2> fds = {{{commands_fd_, POLLIN, 0}, {events_.fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) Drain(commands_fd_);
  }
  pending_.clear();  // those that nobody has taken
}

bool CmThread::RunCommands() {
  std::vector<Command> commands;
  {
    const MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) std::exchange(command, nullptr)();
  return !commands.empty();
}

template <typename Change>
void CmThread::Report(Change change) {
  {
    const MutexLock lock(mutex_);
    change(cm_events_);
  }
  // In this order, a woken thread finds the events. A thread that found them before is woken once for
  // nothing.
  has_events_.store(true, std::memory_order_release);
  Signal(event_fd_);
}

bool CmThread::HandleEvents() {
  bool worked = false;
  while (std::optional<ConnectionEvent> event = events_.Next()) {
    worked = true;
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      TakeRequest(*std::move(event));
      continue;
    }
    // Null for the listening id. Its events are ignored, because each connection gets them, too.
    const auto* const pending = static_cast<const PendingConnection*>(event->id->context);
    if (pending == nullptr) continue;
    absl::Status status = StatusFromLateEvent(event->type, event->status, PeerOf(event->id));
    if (status.ok()) continue;
    Report([&](CmEvents& events) {
      events.disconnections.push_back({.serial = pending->serial, .cause = std::move(status)});
    });
  }
  return worked;
}

void CmThread::TakeRequest(ConnectionEvent event) {
  IdPtr id(event.id);
  if (capacity_.load(std::memory_order_relaxed) == 0) {
    static_cast<void>(rdma_reject(id.get(), nullptr, 0));
    return Report([](CmEvents& events) { ++events.turned_away; });
  }
  capacity_.fetch_sub(1, std::memory_order_relaxed);
  while (++last_serial_, pending_.contains(last_serial_)) {
  }
  auto pending =
      std::make_unique<PendingConnection>(PendingConnection{.id = std::move(id), .serial = last_serial_});
  pending->id->context = pending.get();
  VerbsRequest request = {.serial = last_serial_,
                          .id = *pending->id,
                          .initiator_depth = event.initiator_depth,
                          .responder_resources = event.responder_resources,
                          .data = std::move(event.data)};
  pending_.emplace(last_serial_, std::move(pending));
  Report([&](CmEvents& events) { events.requests.push_back(std::move(request)); });
}

void CmThread::AcceptNow(PendingConnection& pending, AcceptCommand command) {
  pending.command = std::move(command);
  absl::Status status = MakeReady(pending.id.get(), pending.command);
  for (const AcceptCommand::Bind& bind : pending.command.binds) {
    if (!status.ok()) break;
    if (const int error = bind.window->PostBind(pending.command.qp, bind.request_id, IBV_SEND_SIGNALED);
        error != 0) {
      status = NotAccepted(error, "ibv_post_send", pending.id.get());
    }
  }
  if (!status.ok()) return DestroyQueuePairOf(pending, pending.command.qp, std::move(status));
  if (pending.command.binds.empty()) SendAcceptNow(pending);
}

// The id does not know the queue pair, so this leaves its state alone (rdma_accept(3)).
void CmThread::SendAcceptNow(PendingConnection& pending) {
  if (pending.has_lost_queue_pair) return;
  AcceptCommand& command = pending.command;
  command.param.private_data = command.data.data();
  command.param.private_data_len = static_cast<std::uint8_t>(command.data.size());
  command.param.qp_num = command.qp->qp_num;
  if (rdma_accept(pending.id.get(), &command.param) != 0) {
    return DestroyQueuePairOf(pending, command.qp, NotAccepted(errno, "rdma_accept", pending.id.get()));
  }
  pending.is_connected = true;
}

void CmThread::MoveToErrorNow(PendingConnection& pending, ibv_qp* qp) {
  if (pending.has_lost_queue_pair || SetToError(qp)) return;
  DestroyQueuePairOf(
      pending, qp,
      absl::InternalError("disconnect: the device cannot move the queue pair to its error state"));
}

void CmThread::DestroyQueuePairOf(PendingConnection& pending, ibv_qp* qp, absl::Status cause) {
  REMORA_CHECK(ibv_destroy_qp(qp) == 0);
  pending.has_lost_queue_pair = true;
  Report([&](CmEvents& events) {
    events.disconnections.push_back({.serial = pending.serial, .cause = std::move(cause), .flushes = false});
  });
}

void CmThread::SendDisconnect(PendingConnection& pending) {
  if (!std::exchange(pending.is_connected, false)) return;
  static_cast<void>(rdma_disconnect(pending.id.get()));  // also answers a peer's own
}

// None of this waits for the peer, dead or alive: with soft-RoCE it takes some milliseconds.
void CmThread::DestroyNow(PendingConnection& pending, ibv_qp* qp) {
  SendDisconnect(pending);
  if (qp != nullptr && !pending.has_lost_queue_pair) REMORA_CHECK(ibv_destroy_qp(qp) == 0);
  pending_.erase(pending.serial);
  Report([](CmEvents& events) { ++events.ended; });
}

}  // namespace remora::rdma
