#include "rdma/verbs_listener.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs.h"
#include "rdma/verbs_status.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Requests that the kernel keeps until NextRequest takes them; it rejects those beyond.
constexpr int kBacklog = 128;
constexpr std::size_t kMaxConnections = 512;
constexpr std::size_t kMaxRegions = 8;
// Asking for events costs a system call, some ten times an empty poll; so a caller that never sleeps pays it
// only now and then.
constexpr unsigned kCallsPerEventCheck = 64;
// For what a device does by itself, some microseconds; 0.5 ms with soft-RoCE in an emulated machine.
constexpr std::chrono::seconds kDevicePatience{2};
constexpr unsigned kPollsPerTimeCheck = 256;

}  // namespace

// --- Listen ------------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Listener>> ListenVerbs(const Address& address, const QueueLimits& limits,
                                                      const Clock& clock, MemoryWindows windows) {
  return VerbsListener::Create(address, limits, clock, windows);
}

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(const Address& address,
                                                                     const QueueLimits& limits,
                                                                     const Clock& clock,
                                                                     MemoryWindows windows) {
  std::unique_ptr<VerbsListener> listener(new VerbsListener(address, limits, clock));
  REMORA_RETURN_IF_ERROR(listener->Start());
  if (windows == MemoryWindows::kOff) listener->device_.memory_windows = false;
  REMORA_RETURN_IF_ERROR(listener->MakeWaitable());
  return listener;
}

absl::Status VerbsListener::Start() {
  const std::string name = address_.ToString();
  // In this order, so that a host without RDMA is told apart from a name that nobody has.
  REMORA_ASSIGN_OR_RETURN(events_, EventChannel::Open(name));
  REMORA_ASSIGN_OR_RETURN(const AddressInfo info, ResolveHost(address_, RAI_PASSIVE));
  if (IsWildcard(info->ai_src_addr)) {
    return absl::FailedPreconditionError(absl::StrCat(
        name,
        " stands for every address and so belongs to no RDMA device; name the one address of the device to "
        "listen on"));
  }
  REMORA_ASSIGN_OR_RETURN(id_, CreateId(*events_, name));
  if (rdma_bind_addr(id_.get(), info->ai_src_addr) != 0)
    return StatusFromErrno(errno, "rdma_bind_addr", name);
  // 127.0.0.1 can be bound although no device has it.
  if (id_->verbs == nullptr) return StatusFromErrno(ENODEV, "rdma_bind_addr", name);
  if (rdma_listen(id_.get(), kBacklog) != 0) return StatusFromErrno(errno, "rdma_listen", name);
  address_.port = ntohs(rdma_get_src_port(id_.get()));

  REMORA_ASSIGN_OR_RETURN(device_, DeviceLimits::Query(id_.get()));
  REMORA_RETURN_IF_ERROR(device_.Check(limits_));
  const std::size_t each = std::size_t{limits_.sends} + limits_.receives;
  capacity_ = std::min(kMaxConnections, device_.completions / each);
  REMORA_ASSIGN_OR_RETURN(completions_,
                          CompletionQueue::Create(id_->verbs, static_cast<std::uint32_t>(capacity_ * each)));
  return absl::OkStatus();
}

absl::Status VerbsListener::MakeWaitable() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  wait_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (wake_fd_ < 0 || wait_fd_ < 0) return StatusFromErrno(errno, "epoll_create1", address_.ToString());
  for (const int fd : {wake_fd_, events_->fd(), completions_->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      return StatusFromErrno(errno, "epoll_ctl", address_.ToString());
    }
  }
  return absl::OkStatus();
}

VerbsListener::~VerbsListener() {
  requests_.clear();
  REMORA_CHECK(connections_.empty());  // the caller's connections go before the listener
  if (wake_fd_ >= 0) close(wake_fd_);
  if (wait_fd_ >= 0) close(wait_fd_);
}

absl::StatusOr<RemoteRegion> VerbsListener::RegisterRead(SharedMemory& memory) {
  if (regions_.size() == kMaxRegions) {
    return absl::ResourceExhaustedError(absl::StrCat("a listener has ", kMaxRegions, " regions at most"));
  }
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<VerbsRegistration> region,
      VerbsRegistration::Create(id_.get(), memory.bytes(), VerbsRegistration::Use::kRead));
  regions_.push_back(std::move(region));
  return regions_.back()->remote();
}

// --- Requests and other events -----------------------------------------------------------------------------

std::unique_ptr<Connection> VerbsListener::NextRequest() {
  if (requests_.empty()) HandleEventsSometimes();
  while (!requests_.empty()) {
    std::unique_ptr<VerbsServerConnection> request = std::move(requests_.front());
    requests_.pop_front();
    if (request->status().ok()) return request;
    ++dropped_handshakes_;  // the client gave up meanwhile
  }
  return nullptr;
}

void VerbsListener::HandleEventsSometimes() {
  if (!events_due_ && ++idle_calls_ % kCallsPerEventCheck != 0) return;
  events_due_ = false;
  HandleEvents();
}

void VerbsListener::HandleEvents() {
  while (std::optional<ConnectionEvent> event = events_->Next()) {
    // The caller may be through with Poll or NextRequest already when the other one finds this.
    WakeIfArmed();
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      AddRequest(*std::move(event));
      continue;
    }
    // Null for the listening id, whose events say nothing that its connections do not hear, too.
    auto* const connection = static_cast<VerbsServerConnection*>(event->id->context);
    if (connection == nullptr) continue;
    absl::Status status = StatusFromLateEvent(event->type, event->status, connection->peer());
    if (status.ok()) continue;
    connection->Break(std::move(status));
    NoteIfBroken(*connection);
  }
}

void VerbsListener::WakeIfArmed() {
  if (!armed_ || woken_) return;
  woken_ = true;
  REMORA_CHECK(eventfd_write(wake_fd_, 1) == 0);
}

void VerbsListener::AddRequest(ConnectionEvent event) {
  if (connections_.size() + forgotten_ >= capacity_) {
    const IdPtr id(event.id);
    static_cast<void>(rdma_reject(id.get(), nullptr, 0));
    ++dropped_handshakes_;
    return;
  }
  while (++last_serial_, connections_.contains(last_serial_)) {
  }
  auto connection = std::make_unique<VerbsServerConnection>(*this, std::move(event), last_serial_, limits_,
                                                            device_, *completions_);
  connections_.emplace(last_serial_, connection.get());
  requests_.push_back(std::move(connection));
}

void VerbsListener::NoteIfBroken(VerbsServerConnection& connection) {
  if (connection.status().ok() || std::ranges::find(broken_, &connection) != broken_.end()) return;
  broken_.push_back(&connection);
}

void VerbsListener::Forget(VerbsServerConnection& connection) {
  connections_.erase(connection.serial());
  std::erase(broken_, &connection);
  ++forgotten_;
}

// --- Completions
// -----------------------------------------------------------------------------------------------

std::size_t VerbsListener::Poll(std::span<Completion> out) {
  std::array<ibv_wc, 32> batch;
  std::size_t count = 0;
  bool drained = false;
  while (!drained && count < out.size()) {
    const std::size_t wanted = std::min(batch.size(), out.size() - count);
    const std::size_t taken = TakeCompletions(std::span(batch).first(wanted));
    for (std::size_t i = 0; i < taken; ++i) {
      const auto found = connections_.find(SerialOf(batch[i].wr_id));
      if (found == connections_.end()) continue;  // forgotten
      VerbsServerConnection& connection = *found->second;
      if (connection.Finish(batch[i], out[count]) && connection.accepted()) ++count;
      NoteIfBroken(connection);
    }
    drained = taken < wanted;
  }
  if (drained) forgotten_ = 0;
  for (std::size_t i = 0; drained && i < broken_.size(); ++i) {
    if (!broken_[i]->accepted()) continue;  // its owner learns it from Accept
    while (count < out.size() && broken_[i]->NextAfterBreak(out[count])) ++count;
  }
  if (count == 0) HandleEventsSometimes();
  return count;
}

std::size_t VerbsListener::TakeCompletions(std::span<ibv_wc> out) {
  if (early_.empty()) return completions_->Poll(out);
  const std::size_t count = std::min(early_.size(), out.size());
  std::copy_n(early_.begin(), count, out.begin());
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(count));
  return count == out.size() ? count : count + completions_->Poll(out.subspan(count));
}

absl::Status VerbsListener::AwaitSends(VerbsServerConnection& connection) {
  const TimePoint deadline = clock_.Now() + kDevicePatience;
  for (unsigned polls = 1; !connection.sends_are_done(); ++polls) {
    ibv_wc completion{};
    if (completions_->Poll({&completion, 1}) == 0) {
      CpuPause();
      if (polls % kPollsPerTimeCheck == 0 && clock_.Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("device ", device_.name, " does not do what it is asked to"));
      }
    } else if (SerialOf(completion.wr_id) == connection.serial()) {
      Completion ignored;
      connection.Finish(completion, ignored);
    } else {
      early_.push_back(completion);
      WakeIfArmed();
    }
  }
  return connection.status();
}

void VerbsListener::Arm() {
  armed_ = true;
  events_due_ = true;
  completions_->Arm();
}

void VerbsListener::Disarm() {
  armed_ = false;
  events_due_ = true;
  completions_->TakeNotifications();
  if (!woken_) return;
  woken_ = false;
  eventfd_t ignored;
  REMORA_CHECK(eventfd_read(wake_fd_, &ignored) == 0);
}

// --- One client
// ----------------------------------------------------------------------------------------------

VerbsServerConnection::VerbsServerConnection(VerbsListener& listener, ConnectionEvent request,
                                             std::uint32_t serial, const QueueLimits& limits,
                                             const DeviceLimits& device, CompletionQueue& completions)
    : VerbsConnection(IdPtr(request.id), serial, limits, device),
      listener_(listener),
      completions_(completions),
      initiator_depth_(request.initiator_depth),
      responder_resources_(request.responder_resources) {
  id()->context = this;
  SetPeerData(std::move(request.data));
}

VerbsServerConnection::~VerbsServerConnection() {
  Close();
  listener_.Forget(*this);
}

absl::Status VerbsServerConnection::EnsureQueuePair() {
  if (!status().ok()) return status();
  return id()->qp != nullptr ? absl::OkStatus() : CreateQueuePair(completions_);
}

// What rdma_accept does with a queue pair before it answers, from the same attributes: those of the client's
// request.
absl::Status VerbsServerConnection::EnsureRequests() {
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  if (takes_requests_) return absl::OkStatus();
  SetRetransmission();
  const rdma_conn_param param = Parameters({});
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id(), &attributes, &mask) != 0) {
      return StatusFromErrno(errno, "rdma_init_qp_attr", peer());
    }
    if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = param.responder_resources;
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = param.initiator_depth;
    if (const int error = ibv_modify_qp(id()->qp, &attributes, mask); error != 0) {
      return StatusFromErrno(error, "ibv_modify_qp", peer());
    }
  }
  takes_requests_ = true;
  return absl::OkStatus();
}

rdma_conn_param VerbsServerConnection::Parameters(std::span<const std::byte> data) const {
  return ConnectionParameters(std::min(limits().reads, initiator_depth_),
                              std::min(limits().reads, responder_resources_), data);
}

absl::StatusOr<std::unique_ptr<Registration>> VerbsServerConnection::RegisterMessages(
    std::span<std::byte> bytes) {
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  return VerbsConnection::RegisterMessages(bytes);
}

absl::StatusOr<std::unique_ptr<Registration>> VerbsServerConnection::RegisterWrite(SharedMemory& memory) {
  if (!device().memory_windows) {
    REMORA_RETURN_IF_ERROR(EnsureQueuePair());
    return VerbsConnection::RegisterWrite(memory);
  }
  REMORA_RETURN_IF_ERROR(EnsureRequests());
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Registration> window,
                          BindWindow(memory.bytes(), /*signalled=*/true));
  // The client may WRITE as soon as it is accepted, and nothing would keep it behind a bind under way.
  REMORA_RETURN_IF_ERROR(listener_.AwaitSends(*this));
  return window;
}

absl::Status VerbsServerConnection::Connect(std::span<const std::byte>, TimePoint) {
  return absl::InvalidArgumentError("Connect is the client's part");
}

absl::Status VerbsServerConnection::Wait(TimePoint) {
  return absl::InvalidArgumentError("a server waits for its listener's wait_fd()");
}

absl::Status VerbsServerConnection::Accept(std::span<const std::byte> data) {
  if (data.size() > kMaxAcceptData) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.size(), " bytes of accept data; the most is ", kMaxAcceptData));
  }
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  rdma_conn_param param = Parameters(data);
  // One that takes requests already is none of rdma_accept's business, but for its number (rdma_accept(3)).
  ibv_qp* const queue_pair = id()->qp;
  if (takes_requests_) {
    param.qp_num = queue_pair->qp_num;
    id()->qp = nullptr;
  } else {
    SetRetransmission();
  }
  const int result = rdma_accept(id(), &param);
  const int error = errno;
  id()->qp = queue_pair;
  if (result != 0) {
    if (error == ENOMEM) return StatusFromErrno(error, "rdma_accept", peer());
    return absl::UnavailableError(absl::StrCat(
        peer(), ": the client gave up, or cannot be accepted (rdma_accept: ", std::strerror(error), ")"));
  }
  // RDMA_CM_EVENT_ESTABLISHED may come later than the client's first message, so nothing waits for it.
  SetConnected(param.responder_resources);
  return absl::OkStatus();
}

void VerbsServerConnection::Reject(std::span<const std::byte> data) {
  REMORA_CHECK(data.size() <= kMaxRejectData);
  // Fails when the client is gone already.
  static_cast<void>(rdma_reject(id(), data.data(), static_cast<std::uint8_t>(data.size())));
}

}  // namespace remora::rdma
