// The client's end, step by step: Dial resolves and prepares, Connect shakes hands, then Poll and Wait.
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/sleep.h"
#include "rdma/verbs/address.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory_window.h"
#include "rdma/verbs/status.h"
#include "rdma/verbs/verbs.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// For the kernel's own search of the host (ARP), where the caller's deadline is later.
constexpr int kResolveTimeoutMs = 2000;
// Asking for events costs a system call, some ten times an empty poll.
constexpr unsigned kIdlePollsPerEventCheck = 256;

/// The next event, which ends a step of the handshake with `peer`.
absl::StatusOr<ConnectionEvent> AwaitEvent(EventChannel& events, absl::string_view peer, const Clock& clock,
                                           TimePoint deadline) {
  for (;;) {
    if (std::optional<ConnectionEvent> event = events.Next()) return *std::move(event);
    std::array<pollfd, 1> fds = {{{events.fd(), POLLIN, 0}}};
    REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(fds, clock, deadline));
    if (!in_time) {
      return absl::DeadlineExceededError(absl::StrCat("connecting to ", peer, ": no answer in time"));
    }
  }
}

/// Returns why `event` is not the expected one.
absl::Status StatusOfStep(const ConnectionEvent& event, absl::string_view peer) {
  const absl::Status status = StatusFromEvent(event.type, event.status, peer);
  return !status.ok() ? status
                      : absl::InternalError(absl::StrCat(peer, ": unexpected ", rdma_event_str(event.type)));
}

/// Like AwaitEvent, for an event of one kind.
absl::Status AwaitStep(EventChannel& events, rdma_cm_event_type step, absl::string_view peer,
                       const Clock& clock, TimePoint deadline) {
  REMORA_ASSIGN_OR_RETURN(const ConnectionEvent event, AwaitEvent(events, peer, clock, deadline));
  return event.type == step ? absl::OkStatus() : StatusOfStep(event, peer);
}

class VerbsClient final : public VerbsConnection<ClientConnection> {
 public:
  VerbsClient(std::unique_ptr<EventChannel> events, IdPtr id, const QueueLimits& limits, DeviceLimits device,
              const Clock& clock)
      : VerbsConnection(id.get(), AddressText(rdma_get_peer_addr(id.get())), 0, limits, std::move(device)),
        clock_(clock),
        events_(std::move(events)),
        id_(std::move(id)) {}
  ~VerbsClient() override;

  absl::Status Prepare();
  absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) override;
  absl::Status OfferWrite(SharedMemory& memory) override;
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override;
  absl::Status PostReadv(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override {
    return PostRead(context, to, region, offset);
  }
  void Disconnect() override;
  std::size_t Poll(std::span<Completion> out) override;
  absl::Status Wait(TimePoint deadline) override;
  void Arm() override { completions_->Arm(); }
  void Disarm() override;
  int wait_fd() const override { return wait_fd_; }

 private:
  absl::Status CreateQueuePair();
  void BreakQueuePair() override;
  absl::Status MakeWaitable();
  absl::Status AwaitAnswer(TimePoint deadline);
  std::size_t Collect(std::span<Completion> out);
  void TakeEvents();

  const Clock& clock_;
  const std::unique_ptr<EventChannel> events_;
  IdPtr id_;
  std::unique_ptr<CompletionQueue> completions_;
  bool offered_ = false;
  bool asked_ = false;
  bool disconnected_ = false;
  // Not OK: the peer has disconnected. Collect breaks the connection behind the completions that
  // came before, because a request that failed says more than the disconnection after it.
  absl::Status end_;
  unsigned idle_polls_ = 0;
  int wait_fd_ = -1;  // an epoll of both channels
  // Completions that Wait or Disarm found; the next Poll returns them.
  std::array<Completion, 8> found_;
  std::size_t found_count_ = 0;
};

// None of this waits for the peer, dead or alive: with soft-RoCE it takes some milliseconds. By
// contrast, rdma_disconnect and rdma_destroy_ep may take seconds on ids without an event channel of
// their own. There they wait for the peer's answer.
VerbsClient::~VerbsClient() {
  Disconnect();
  if (id_->qp != nullptr) rdma_destroy_qp(id_.get());
  id_.reset();
  if (wait_fd_ >= 0) close(wait_fd_);
}

absl::Status VerbsClient::Prepare() {
  REMORA_ASSIGN_OR_RETURN(completions_,
                          CompletionQueue::Create(id()->verbs, limits().sends + limits().receives));
  REMORA_RETURN_IF_ERROR(CreateQueuePair());
  return MakeWaitable();
}

absl::Status VerbsClient::CreateQueuePair() {
  int error = 0;
  for (const std::uint32_t inline_size : kInlineSizes) {
    ibv_qp_init_attr attributes = QueuePairAttributes(*completions_, limits(), inline_size);
    if (rdma_create_qp(id(), id()->pd, &attributes) == 0) {
      SetInlineSize(attributes.cap.max_inline_data);
      return absl::OkStatus();
    }
    error = errno;
  }
  return StatusFromErrno(error, "rdma_create_qp", peer());
}

// The queue pair goes to ERR with it.
void VerbsClient::Disconnect() {
  if (!connected() || id_->qp == nullptr || std::exchange(disconnected_, true)) return;
  static_cast<void>(rdma_disconnect(id_.get()));  // also answers a peer's own
}

void VerbsClient::BreakQueuePair() {
  if (!SetToError(id()->qp)) rdma_destroy_qp(id());
}

absl::StatusOr<std::unique_ptr<Registration>> VerbsClient::RegisterWrite(SharedMemory& memory) {
  return VerbsRegistration::Create(id(), memory.bytes(), VerbsRegistration::Use::kWrite);
}

// All that a peer needs is the registration's name, so there is nothing to be said beforehand.
absl::Status VerbsClient::OfferWrite(SharedMemory& memory) {
  REMORA_RETURN_IF_ERROR(CheckOffer(memory));
  if (offered_ || connected())
    return absl::FailedPreconditionError("offer: OfferWrite comes once, and before Connect");
  offered_ = true;
  return absl::OkStatus();
}

absl::Status VerbsClient::MakeWaitable() {
  wait_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (wait_fd_ < 0) return StatusFromErrno(errno, "epoll_create1", peer());
  for (const int fd : {completions_->fd(), events_->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      return StatusFromErrno(errno, "epoll_ctl", peer());
    }
  }
  return absl::OkStatus();
}

absl::Status VerbsClient::Connect(std::span<const std::byte> request_data, TimePoint deadline) {
  if (request_data.size() > kMaxConnectData) {
    return absl::InvalidArgumentError(absl::StrCat("connect: ", request_data.size(),
                                                   " bytes of request data; the most are ", kMaxConnectData));
  }
  if (asked_) return absl::InvalidArgumentError("connect: Connect was called before; dial again");
  asked_ = true;
  SetRetransmission(id());
  rdma_conn_param param = ConnectionParameters(limits().reads, limits().reads, request_data);
  absl::Status status = rdma_connect(id(), &param) == 0 ? AwaitAnswer(deadline)
                                                        : StatusFromErrno(errno, "rdma_connect", peer());
  if (!status.ok()) Break(status);
  return status;
}

absl::Status VerbsClient::AwaitAnswer(TimePoint deadline) {
  REMORA_ASSIGN_OR_RETURN(ConnectionEvent event, AwaitEvent(*events_, peer(), clock_, deadline));
  SetPeerData(std::move(event.data));
  if (event.type != RDMA_CM_EVENT_ESTABLISHED) return StatusOfStep(event, peer());
  SetConnected(event.initiator_depth);
  return absl::OkStatus();
}

std::size_t VerbsClient::Poll(std::span<Completion> out) {
  if (found_count_ > 0) {
    const std::size_t count = std::min(found_count_, out.size());
    std::copy_n(found_.begin(), count, out.begin());
    std::copy(found_.begin() + static_cast<std::ptrdiff_t>(count),
              found_.begin() + static_cast<std::ptrdiff_t>(found_count_), found_.begin());
    found_count_ -= count;
    return count;
  }
  const std::size_t count = Collect(out);
  if (count == 0 && ++idle_polls_ % kIdlePollsPerEventCheck == 0) TakeEvents();
  return count;
}

/// Poll's work: completions, then what is due to a broken connection.
std::size_t VerbsClient::Collect(std::span<Completion> out) {
  std::array<ibv_wc, 16> batch;
  std::size_t count = 0;
  bool drained = false;
  while (!drained && count < out.size()) {
    const std::size_t wanted = std::min(batch.size(), out.size() - count);
    const std::size_t taken = completions_->Poll(std::span(batch).first(wanted));
    for (std::size_t i = 0; i < taken; ++i) count += Finish(batch[i], out[count]) ? 1 : 0;
    drained = taken < wanted;
  }
  if (drained && !end_.ok()) Break(end_);
  while (count < out.size() && NextAfterBreak(out[count])) ++count;
  return count;
}

void VerbsClient::TakeEvents() {
  while (const std::optional<ConnectionEvent> event = events_->Next()) {
    absl::Status status = StatusFromLateEvent(event->type, event->status, peer());
    if (status.ok()) continue;
    if (event->type == RDMA_CM_EVENT_DISCONNECTED) {
      end_.Update(std::move(status));
    } else {
      // librdmacm moves the queue pair to the error state as it hands out a rejection. So the flushed
      // requests behind this event say nothing.
      BreakByEvent(std::move(status));
    }
  }
}

absl::Status VerbsClient::Wait(TimePoint deadline) {
  if (found_count_ > 0) return absl::OkStatus();
  // A completion before the arming wakes nobody, so this collects once more.
  completions_->Arm();
  found_count_ = Collect(found_);
  if (found_count_ > 0) return absl::OkStatus();
  // An event that came before is still there, and ends this at once.
  std::array<pollfd, 2> fds = {{{completions_->fd(), POLLIN, 0}, {events_->fd(), POLLIN, 0}}};
  REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(fds, clock_, deadline));
  if (!in_time) {
    return absl::DeadlineExceededError(absl::StrCat("wait: nothing came from ", peer(), " in time"));
  }
  if (fds[0].revents != 0) completions_->TakeNotifications();
  if (fds[1].revents != 0) TakeEvents();
  return absl::OkStatus();
}

void VerbsClient::Disarm() {
  completions_->TakeNotifications();
  TakeEvents();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientConnection>> DialVerbs(const Address& address, const QueueLimits& limits,
                                                            const Clock& clock, TimePoint deadline) {
  const std::string name = address.ToString();
  // Opens the device first. So the error distinguishes a host without RDMA from an unknown host name.
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<EventChannel> events, EventChannel::Open(name));
  REMORA_ASSIGN_OR_RETURN(const AddressInfo info, ResolveHost(address, 0));
  IdPtr id;
  REMORA_ASSIGN_OR_RETURN(id, CreateId(*events, name));
  if (rdma_resolve_addr(id.get(), info->ai_src_addr, info->ai_dst_addr, kResolveTimeoutMs) != 0) {
    return StatusFromErrno(errno, "rdma_resolve_addr", name);
  }
  REMORA_RETURN_IF_ERROR(AwaitStep(*events, RDMA_CM_EVENT_ADDR_RESOLVED, name, clock, deadline));
  if (rdma_resolve_route(id.get(), kResolveTimeoutMs) != 0) {
    return StatusFromErrno(errno, "rdma_resolve_route", name);
  }
  REMORA_RETURN_IF_ERROR(AwaitStep(*events, RDMA_CM_EVENT_ROUTE_RESOLVED, name, clock, deadline));
  REMORA_ASSIGN_OR_RETURN(DeviceLimits device, DeviceLimits::Query(id.get()));
  REMORA_RETURN_IF_ERROR(device.Check(limits));
  auto client =
      std::make_unique<VerbsClient>(std::move(events), std::move(id), limits, std::move(device), clock);
  REMORA_RETURN_IF_ERROR(client->Prepare());
  return client;
}

}  // namespace remora::rdma
