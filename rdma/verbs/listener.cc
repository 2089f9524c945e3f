#include "rdma/verbs/listener.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/status.h"
#include "rdma/verbs/verbs.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Requests that the kernel keeps until NextRequest takes them; it rejects those beyond.
constexpr int kConnectBacklog = 128;
constexpr std::size_t kMaxConnections = 512;
constexpr std::size_t kMaxRegions = 8;

}  // namespace

// --- Listen ------------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Listener>> ListenVerbs(const Address& address, const QueueLimits& limits,
                                                      MemoryWindows windows) {
  return VerbsListener::Create(address, limits, windows);
}

SharedBytes SharedBytesOfVerbs() { return {.ahead = ResourcePool::kAhead}; }

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Create(const Address& address,
                                                                     const QueueLimits& limits,
                                                                     MemoryWindows windows) {
  std::unique_ptr<VerbsListener> listener(new VerbsListener(address, limits));
  REMORA_RETURN_IF_ERROR(listener->Start(windows));
  REMORA_RETURN_IF_ERROR(listener->MakeWaitable());
  return listener;
}

absl::Status VerbsListener::Start(MemoryWindows windows) {
  const std::string name = address_.ToString();
  // Opens the device first. So the error distinguishes a host without RDMA from an unknown host name.
  REMORA_ASSIGN_OR_RETURN(events_, EventChannel::Open(name));
  REMORA_ASSIGN_OR_RETURN(const AddressInfo info, ResolveHost(address_, RAI_PASSIVE));
  if (IsWildcard(info->ai_src_addr)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "listen: ", name,
        " stands for every address and so belongs to no RDMA device; name the one address of the device to "
        "listen on"));
  }
  REMORA_ASSIGN_OR_RETURN(id_, CreateId(*events_, name));
  if (rdma_bind_addr(id_.get(), info->ai_src_addr) != 0)
    return StatusFromErrno(errno, "rdma_bind_addr", name);
  // 127.0.0.1 can be bound although no device has it.
  if (id_->verbs == nullptr) return StatusFromErrno(ENODEV, "rdma_bind_addr", name);
  if (rdma_listen(id_.get(), kConnectBacklog) != 0) return StatusFromErrno(errno, "rdma_listen", name);
  address_.port = ntohs(rdma_get_src_port(id_.get()));

  REMORA_ASSIGN_OR_RETURN(device_, DeviceLimits::Query(id_.get()));
  REMORA_RETURN_IF_ERROR(device_.Check(limits_));
  if (windows == MemoryWindows::kOff) device_.memory_windows = false;
  const std::size_t each = std::size_t{limits_.sends} + limits_.receives;
  const std::size_t capacity = std::min(kMaxConnections, device_.completions / each);
  REMORA_ASSIGN_OR_RETURN(completions_,
                          CompletionQueue::Create(id_->verbs, static_cast<std::uint32_t>(capacity * each)));
  pool_ = std::make_unique<ResourcePool>(id_.get(), limits_, *completions_);
  REMORA_ASSIGN_OR_RETURN(cm_thread_, CmThread::Start(*events_, *pool_, capacity));
  return absl::OkStatus();
}

absl::Status VerbsListener::MakeWaitable() {
  wait_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (wait_fd_ < 0) return StatusFromErrno(errno, "epoll_create1", address_.ToString());
  for (const int fd : {cm_thread_->event_fd(), completions_->fd()}) {
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
  if (wait_fd_ >= 0) close(wait_fd_);
}

absl::StatusOr<RemoteRegion> VerbsListener::RegisterRead(SharedMemory& memory) {
  if (regions_.size() == kMaxRegions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("register: a listener has at most ", kMaxRegions, " regions to READ"));
  }
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<VerbsRegistration> region,
      VerbsRegistration::Create(id_.get(), memory.bytes(), VerbsRegistration::Use::kRead));
  regions_.push_back(std::move(region));
  return regions_.back()->remote();
}

// --- Requests, and other events
// ------------------------------------------------------------------------------

std::unique_ptr<ServerConnection> VerbsListener::NextRequest() {
  if (cm_thread_->has_events()) HandleCmEvents();
  // A client for which no resources are ready waits for them, and no connected client waits with
  // it.
  while (!requests_.empty() && !pool_->IsLow()) {
    std::unique_ptr<VerbsServer> request = std::move(requests_.front());
    requests_.pop_front();
    if (request->status().ok()) return request;
    ++dropped_handshakes_;  // the client closed the connection before it was accepted
  }
  return nullptr;
}

void VerbsListener::HandleCmEvents() {
  CmEvents events = cm_thread_->TakeEvents();
  for (VerbsRequest& request : events.requests) {
    auto connection = std::make_unique<VerbsServer>(*this, std::move(request));
    connections_.emplace(connection->serial(), connection.get());
    requests_.push_back(std::move(connection));
  }
  for (Disconnection& disconnection : events.disconnections) {
    const auto found = connections_.find(disconnection.serial);
    if (found == connections_.end()) continue;  // forgotten
    if (found->second->accepted()) {
      disconnections_.push_back(std::move(disconnection));
    } else {
      found->second->TakeDisconnection(std::move(disconnection));
    }
  }
  ended_ += events.ended;
  dropped_handshakes_ += events.turned_away;
}

void VerbsListener::TakeDisconnections() {
  for (Disconnection& disconnection : std::exchange(disconnections_, {})) {
    const auto found = connections_.find(disconnection.serial);
    if (found == connections_.end()) continue;  // forgotten
    found->second->TakeDisconnection(std::move(disconnection));
    NoteIfBroken(*found->second);
  }
}

void VerbsListener::NoteIfBroken(VerbsServer& connection) {
  if (connection.status().ok() || std::ranges::find(broken_, &connection) != broken_.end()) return;
  broken_.push_back(&connection);
}

void VerbsListener::Forget(VerbsServer& connection) {
  connections_.erase(connection.serial());
  std::erase(broken_, &connection);
}

// --- Completions -------------------------------------------------------------------------------------------

std::size_t VerbsListener::Poll(std::span<Completion> out) {
  std::size_t count = 0;
  bool drained = TakeCompletions(out, count);
  while (drained && (cm_thread_->has_events() || !disconnections_.empty())) {
    HandleCmEvents();
    // The completions that came before an event go first: a request that failed says more than the
    // disconnection after it. Behind the event come those that a queue pair which is gone has left.
    drained = TakeCompletions(out, count);
    if (!drained) break;
    TakeDisconnections();
    drained = TakeCompletions(out, count);
  }
  if (drained && ended_ > 0) cm_thread_->ReturnCapacity(std::exchange(ended_, 0));
  for (std::size_t i = 0; drained && i < broken_.size(); ++i) {
    if (!broken_[i]->accepted()) continue;  // its owner learns it from NextRequest, or Accept
    while (count < out.size() && broken_[i]->NextAfterBreak(out[count])) ++count;
  }
  return count;
}

bool VerbsListener::TakeCompletions(std::span<Completion> out, std::size_t& count) {
  std::array<ibv_wc, 32> batch;
  bool drained = false;
  while (!drained && count < out.size()) {
    const std::size_t wanted = std::min(batch.size(), out.size() - count);
    const std::size_t taken = completions_->Poll(std::span(batch).first(wanted));
    for (std::size_t i = 0; i < taken; ++i) {
      const auto found = connections_.find(SerialOf(batch[i].wr_id));
      if (found == connections_.end()) continue;  // forgotten
      VerbsServer& connection = *found->second;
      if (!connection.Finish(batch[i], out[count])) {
        connection.AnswerIfBound();
      } else if (connection.accepted()) {
        ++count;
      }
      NoteIfBroken(connection);
    }
    drained = taken < wanted;
  }
  return drained;
}

void VerbsListener::Arm() { completions_->Arm(); }

void VerbsListener::Disarm() {
  completions_->TakeNotifications();
  cm_thread_->TakeNotifications();
}

}  // namespace remora::rdma
