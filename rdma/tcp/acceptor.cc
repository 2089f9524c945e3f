#include "rdma/tcp/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// A client has so long to send its hello; then the acceptor drops it.
constexpr std::chrono::seconds kHalfOpenPatience(5);
// Most clients that one call of HandleEvents accepts. Connected clients wait for no more than these.
constexpr int kMostAccepted = 8;

UniqueFd SpareDescriptor() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void SendReplyTo(int socket, TcpAnswer answer) {
  const TcpReply reply{.answer = answer};
  static_cast<void>(send(socket, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpAcceptor>> TcpAcceptor::Create(UniqueFd listening, TcpEvents& events,
                                                                 const Clock& clock) {
  std::unique_ptr<TcpAcceptor> acceptor(new TcpAcceptor(std::move(listening), events, clock));
  acceptor->spare_ = SpareDescriptor();
  acceptor->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!acceptor->epoll_) return TcpStatus(errno, "epoll_create1");
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ctl(acceptor->epoll_.get(), EPOLL_CTL_ADD, acceptor->listening_.get(), &event) != 0) {
    return TcpStatus(errno, "epoll_ctl");
  }
  return acceptor;
}

void TcpAcceptor::HandleEvents() {
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  bool is_somebody_new = false;
  for (int i = 0; i < count; ++i) {
    const void* const whose = events[static_cast<std::size_t>(i)].data.ptr;
    if (whose == nullptr) {
      is_somebody_new = true;
      continue;
    }
    const auto client =
        std::ranges::find(half_open_, whose, [](const HalfOpen& one) -> const void* { return &one; });
    if (client == half_open_.end()) continue;
    const HelloState heard = ReceiveHello(*client);
    if (heard == HelloState::kDropped) {
      Drop(client);
    } else if (heard == HelloState::kSpoke) {
      half_open_.erase(client);
    }
  }
  // Last, because AcceptOne may drop a half-open client: no event that names it is left to handle.
  for (int i = 0; is_somebody_new && i < kMostAccepted; ++i) is_somebody_new = AcceptOne();
  while (!half_open_.empty() && half_open_.front().since + kHalfOpenPatience <= clock_.Now()) {
    Drop(half_open_.begin());
  }
}

std::optional<TimePoint> TcpAcceptor::NextDeadline() const {
  if (half_open_.empty()) return std::nullopt;
  return half_open_.front().since + kHalfOpenPatience;
}

bool TcpAcceptor::AcceptOne() {
  if (tcp_events_.request_count() >= kMaxWaiting) {
    SetListening(false);
    is_full_.exchange(true);  // a store would do, but not under every qemu: rdma/local/wire.h, A4
    // The server thread may have taken all requests between the two loads of the count. It would then not
    // call ReturnCapacity again.
    if (tcp_events_.request_count() < kMaxWaiting) ReturnCapacity();
    return false;
  }
  HalfOpen client{.socket = {}, .peer = {}, .since = clock_.Now(), .heard = 0, .hello = {}};
  client.peer.size = sizeof(client.peer.storage);
  client.socket = UniqueFd(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&client.peer.storage),
                                   &client.peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.socket) {
    if (errno == EMFILE || errno == ENFILE) RejectOne();
    return false;
  }
  if (!SetTcpOptions(client.socket.get(), kServerPatience).ok()) return true;  // the client is gone already
  if (half_open_.size() == kMaxHalfOpen) Drop(half_open_.begin());
  HalfOpen& held = half_open_.emplace_back(std::move(client));
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = &held}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, held.socket.get(), &event) != 0) {
    Drop(std::prev(half_open_.end()));
  }
  return true;
}

// Accepts and rejects a client with the spare descriptor. The process has no other descriptor left, and
// without one the client would stay in the backlog, and the listening socket readable.
void TcpAcceptor::RejectOne() {
  spare_ = UniqueFd();
  {
    const UniqueFd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      SendReplyTo(socket.get(), TcpAnswer::kNoRoom);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      without_descriptor_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  spare_ = SpareDescriptor();
}

TcpAcceptor::HelloState TcpAcceptor::ReceiveHello(HalfOpen& client) {
  const std::span<std::byte> hello = std::as_writable_bytes(std::span(&client.hello, 1));
  const ssize_t got =
      recv(client.socket.get(), hello.data() + client.heard, hello.size() - client.heard, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return HelloState::kWaits;
  if (got <= 0) return HelloState::kDropped;
  client.heard += static_cast<std::size_t>(got);
  // Every version begins with magic and version.
  if (client.heard < offsetof(TcpHello, data_size)) return HelloState::kWaits;
  if (client.hello.magic != kTcpMagic) return HelloState::kDropped;
  if (client.hello.version != kTcpVersion) {
    SendReplyTo(client.socket.get(), TcpAnswer::kWrongVersion);
    return HelloState::kDropped;
  }
  if (client.heard < hello.size()) return HelloState::kWaits;
  if (client.hello.data_size > kMaxConnectData) return HelloState::kDropped;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
  tcp_events_.ReportRequest({.socket = std::move(client.socket), .peer = client.peer, .hello = client.hello});
  return HelloState::kSpoke;
}

void TcpAcceptor::Drop(std::list<HalfOpen>::iterator client) {
  dropped_.fetch_add(1, std::memory_order_relaxed);
  half_open_.erase(client);
}

void TcpAcceptor::ReturnCapacity() {
  if (is_full_.exchange(false)) SetListening(true);
}

bool TcpAcceptor::SetListening(bool on) {
  epoll_event event = {.events = on ? EPOLLIN : 0u, .data = {.ptr = nullptr}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event) == 0;
}

}  // namespace remora::rdma
