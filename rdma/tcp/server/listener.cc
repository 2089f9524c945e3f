#include "rdma/tcp/server/listener.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/tcp.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {

absl::StatusOr<std::unique_ptr<Listener>> ListenTcp(const Address& address, const QueueLimits& limits,
                                                    const Clock& clock, std::uint32_t threads,
                                                    std::shared_ptr<ServerTls> tls) {
  if (limits.sends == 0 || limits.receives == 0) {
    return absl::InvalidArgumentError("limits: sends and receives must be at least 1");
  }
  if (address.tls && tls == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(address.ToString(), ": TLS needs a certificate or tokens"));
  }
  if (!address.tls) tls = nullptr;
  return TcpListener::Make(address, limits, clock, std::max<std::uint32_t>(threads, 1), std::move(tls));
}

Descriptors DescriptorsOfTcp() {
  // kOwn counts the acceptor's spare descriptor and its epoll, one for the events, and two of the NIC thread.
  // The others are listening sockets, clients in their handshake, and rejected clients that still receive the
  // reason.
  constexpr std::size_t kOwn = 5;
  constexpr std::size_t kRejected = 64;
  return {
      .listener = kOwn + kMaxTcpSockets + TcpAcceptor::kMaxHalfOpen + TcpAcceptor::kMaxWaiting + kRejected,
      .connection = 1};
}

absl::StatusOr<std::unique_ptr<Listener>> TcpListener::Make(const Address& address, const QueueLimits& limits,
                                                            const Clock& clock, std::uint32_t threads,
                                                            std::shared_ptr<ServerTls> tls) {
  std::unique_ptr<TcpListener> listener(new TcpListener(address, limits));
  REMORA_ASSIGN_OR_RETURN(listener->tcp_events_, TcpEvents::Create());
  REMORA_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, ListenAtTcp(address));
  listener->address_.port = LocalAddressOf(sockets.front().get()).port();
  for (const UniqueFd& socket : sockets)
    listener->sockets_.push_back(LocalAddressOf(socket.get()).ToString());
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<TcpAcceptor> acceptor,
      TcpAcceptor::Create(std::move(sockets), *listener->tcp_events_, clock, std::move(tls)));
  for (std::uint32_t i = 0; i < threads; ++i) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<NicThread> thread,
                            NicThread::Start(clock, *listener->tcp_events_, std::move(acceptor)));
    listener->threads_.push_back(std::move(thread));
  }
  return listener;
}

TcpListener::~TcpListener() {
  REMORA_CHECK(connection_count_ == 0);  // connections are destroyed before their listener
  threads_.clear();                      // before tcp_events_, to which they report
}

absl::StatusOr<RemoteRegion> TcpListener::RegisterRead(SharedMemory& memory) {
  if (memory.writers() != SharedMemory::Writers::kOwnerOnly) {
    return absl::InvalidArgumentError(
        "register: memory for clients to READ must be made with Writers::kOwnerOnly");
  }
  if (reads_.size() == kTcpMaxReads) {
    return absl::ResourceExhaustedError(
        absl::StrCat("register: a listener has at most ", kTcpMaxReads, " regions to READ"));
  }
  reads_.push_back(memory.bytes());
  return RemoteRegion{.size = memory.bytes().size(), .key = static_cast<std::uint32_t>(reads_.size())};
}

void TcpListener::CountReads(std::function<void(const ServedReads&)> count) {
  for (const std::unique_ptr<NicThread>& thread : threads_) thread->CountReads(count);
}

void TcpListener::ServeBy(std::function<bool()> serve) {
  for (const std::unique_ptr<NicThread>& thread : threads_) thread->ServeBy(serve);
}

std::unique_ptr<ServerConnection> TcpListener::NextRequest() {
  std::optional<TcpRequest> request = tcp_events_->NextRequest();
  if (!request) return nullptr;
  threads_.front()->acceptor()->ReturnCapacity();
  return std::make_unique<TcpServer>(*this, *std::move(request));
}

std::size_t TcpListener::Poll(std::span<Completion> out) {
  std::size_t count = 0;
  while (count < out.size()) {
    const std::shared_ptr<TcpLink> link = tcp_events_->NextLink();
    if (link == nullptr) break;
    const std::size_t taken = link->Take(out.subspan(count));
    for (const Completion& completion : out.subspan(count, taken)) {
      if (!completion.ok) static_cast<TcpServer*>(completion.connection)->NoteFailure();
    }
    count += taken;
  }
  // A NIC thread on this CPU cannot report anything before this thread sleeps.
  if (count > 0) has_nic_here_ = tcp_events_->cpu() == sched_getcpu();
  return count;
}

NicThread& TcpListener::NextThread() {
  next_thread_ = (next_thread_ + 1) % threads_.size();
  return *threads_[next_thread_];
}

}  // namespace remora::rdma
