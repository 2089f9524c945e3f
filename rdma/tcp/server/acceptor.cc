#include "rdma/tcp/server/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/stream/outbox.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// A client has so long to send its hello; then the acceptor drops it.
constexpr std::chrono::seconds kHalfOpenPatience(5);
// Most clients that one call of HandleEvents accepts at each address. Connected clients wait for no more than
// these.
constexpr int kMaxAccepted = 8;
// Most steps of TLS handshakes in one call of HandleEvents. Each may take a millisecond.
constexpr int kMaxHandshakes = 4;
// Most recvs of bytes that nobody reads any more.
constexpr int kMaxDrains = 16;

UniqueFd SpareDescriptor() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void SendReplyTo(int socket, TlsStream* tls, TcpAnswer answer) {
  const TcpReply reply{.answer = answer};
  SendBytes(socket, tls, std::as_bytes(std::span(&reply, 1)));
}

/// Returns whether these are the first bytes of a TLS record with a handshake (RFC 8446, 5.1).
bool IsTlsHandshake(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x16} && bytes[1] == std::byte{0x03};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpAcceptor>> TcpAcceptor::Create(std::vector<UniqueFd> listening,
                                                                 TcpEvents& events, const Clock& clock,
                                                                 std::shared_ptr<ServerTls> tls) {
  std::unique_ptr<TcpAcceptor> acceptor(new TcpAcceptor(std::move(listening), events, clock, std::move(tls)));
  acceptor->spare_ = SpareDescriptor();
  acceptor->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!acceptor->epoll_) return TcpStatus(errno, "epoll_create1");
  for (const UniqueFd& socket : acceptor->listening_) {
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
    if (epoll_ctl(acceptor->epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      return TcpStatus(errno, "epoll_ctl");
    }
  }
  return acceptor;
}

void TcpAcceptor::HandleEvents() {
  std::array<epoll_event, 32> events;
  const int most = tls_ == nullptr ? static_cast<int>(events.size()) : kMaxHandshakes;
  const int count = epoll_wait(epoll_.get(), events.data(), most, 0);
  bool has_new_client = false;
  for (int i = 0; i < count; ++i) {
    const void* const whose = events[static_cast<std::size_t>(i)].data.ptr;
    if (whose == nullptr) {
      has_new_client = true;
      continue;
    }
    const auto client =
        std::ranges::find(half_open_, whose, [](const HalfOpen& one) -> const void* { return &one; });
    if (client == half_open_.end()) continue;
    const HelloState heard = ReceiveHello(*client);
    if (heard == HelloState::kDropped) {
      Drop(client);
    } else if (heard == HelloState::kComplete) {
      half_open_.erase(client);
    }
  }
  // Last, because AcceptOne may drop a half-open client: no event that names it is left to handle.
  for (std::size_t i = 0; has_new_client && i < listening_.size(); ++i) {
    int accepted = 0;
    while (accepted < kMaxAccepted && AcceptOne(listening_[i].get())) ++accepted;
  }
  while (!half_open_.empty() && half_open_.front().since + kHalfOpenPatience <= clock_.Now()) {
    HalfOpen& late = half_open_.front();
    if (late.tls != nullptr && !late.tls->is_established()) {
      Reject(late, "TLS: it stopped in the middle of the handshake");
    }
    Drop(half_open_.begin());
  }
}

std::optional<TimePoint> TcpAcceptor::NextDeadline() const {
  if (half_open_.empty()) return std::nullopt;
  return half_open_.front().since + kHalfOpenPatience;
}

bool TcpAcceptor::AcceptOne(int listening) {
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
  client.socket = UniqueFd(accept4(listening, reinterpret_cast<sockaddr*>(&client.peer.storage),
                                   &client.peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.socket) {
    if (errno == EMFILE || errno == ENFILE) RejectOne(listening);
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
void TcpAcceptor::RejectOne(int listening) {
  spare_ = UniqueFd();
  {
    const UniqueFd socket(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      SendReplyTo(socket.get(), nullptr, TcpAnswer::kNoSpace);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      without_descriptor_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  spare_ = SpareDescriptor();
}

TcpAcceptor::HelloState TcpAcceptor::ReceiveHello(HalfOpen& client) {
  if (tls_ != nullptr) {
    if (const HelloState state = ShakeTls(client); state != HelloState::kComplete) return state;
  }
  TlsStream* const tls = client.tls.get();
  const std::span<std::byte> hello = std::as_writable_bytes(std::span(&client.hello, 1));
  const iovec rest = {hello.data() + client.heard, hello.size() - client.heard};
  const ssize_t got = tls == nullptr ? recv(client.socket.get(), rest.iov_base, rest.iov_len, MSG_DONTWAIT)
                                     : tls->Receive(client.socket.get(), std::span(&rest, 1), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return HelloState::kWaits;
  if (got < 0 && tls != nullptr && !tls->error().ok()) return Reject(client, tls->error().message());
  if (got <= 0) return HelloState::kDropped;
  client.heard += static_cast<std::size_t>(got);
  if (tls_ == nullptr && IsTlsHandshake(hello.first(client.heard))) {
    SendReplyTo(client.socket.get(), nullptr, TcpAnswer::kHasNoTls);
    return Reject(client, "it begins with a TLS handshake, and this address serves without TLS");
  }
  // Every version begins with magic and version.
  if (client.heard < offsetof(TcpHello, data_size)) return HelloState::kWaits;
  if (client.hello.magic != kTcpMagic)
    return Reject(client, "its first bytes are no hello of a Remora client");
  if (client.hello.version != kTcpVersion) {
    SendReplyTo(client.socket.get(), tls, TcpAnswer::kWrongVersion);
    return Reject(client, absl::StrCat("its version of the TCP protocol is ", client.hello.version,
                                       ", and this server's is ", kTcpVersion));
  }
  if (client.heard < hello.size()) return HelloState::kWaits;
  if (client.hello.data_size > kMaxConnectData) {
    return Reject(client, absl::StrCat("its hello announces ", client.hello.data_size,
                                       " bytes of data, and at most ", kMaxConnectData, " are allowed"));
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
  tcp_events_.ReportRequest({.socket = std::move(client.socket),
                             .peer = client.peer,
                             .hello = client.hello,
                             .tls = std::move(client.tls)});
  return HelloState::kComplete;
}

TcpAcceptor::HelloState TcpAcceptor::ShakeTls(HalfOpen& client) {
  const int socket = client.socket.get();
  if (client.tls == nullptr) {
    std::byte first{};
    const ssize_t got = recv(socket, &first, 1, MSG_DONTWAIT | MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return HelloState::kWaits;
    if (got <= 0) return HelloState::kDropped;
    // TLS records do not begin so.
    if (first == static_cast<std::byte>(kTcpMagic & 0xff)) {
      SendReplyTo(socket, nullptr, TcpAnswer::kNeedsTls);
      return Reject(client, "it came without TLS, and this address serves with TLS alone");
    }
    absl::StatusOr<std::unique_ptr<TlsStream>> made = TlsStream::OfServer(tls_->context());
    if (!made.ok()) return Reject(client, made.status().message());
    client.tls = *std::move(made);
  }
  if (client.tls->is_established()) return HelloState::kComplete;
  const TlsStream::Step step = client.tls->Handshake(socket);
  if (step == TlsStream::Step::kFailed) return Reject(client, client.tls->error().message());
  if (client.tls->has_output() != client.wants_to_send) {
    client.wants_to_send = client.tls->has_output();
    epoll_event event = {.events = client.wants_to_send ? EPOLLOUT : EPOLLIN, .data = {.ptr = &client}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event) != 0) return HelloState::kDropped;
  }
  return step == TlsStream::Step::kDone ? HelloState::kComplete : HelloState::kWaits;
}

TcpAcceptor::HelloState TcpAcceptor::Reject(HalfOpen& client, absl::string_view why) {
  tcp_events_.ReportRejection(absl::StrCat("client ", client.peer.ToString(), ": rejected: ", why));
  // If the socket were closed with bytes unread, the client could lose the reason.
  std::array<std::byte, 4096> ignored;
  for (int i = 0; i < kMaxDrains; ++i) {
    if (recv(client.socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) break;
  }
  return HelloState::kDropped;
}

void TcpAcceptor::Drop(std::list<HalfOpen>::iterator client) {
  dropped_.fetch_add(1, std::memory_order_relaxed);
  // A forked process may hold the socket, too, and its events would go on.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client->socket.get(), nullptr);
  half_open_.erase(client);
}

void TcpAcceptor::ReturnCapacity() {
  if (is_full_.exchange(false)) SetListening(true);
}

bool TcpAcceptor::SetListening(bool on) {
  epoll_event event = {.events = on ? EPOLLIN : 0u, .data = {.ptr = nullptr}};
  bool all = true;
  for (const UniqueFd& socket : listening_) {
    all = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event) == 0 && all;
  }
  return all;
}

}  // namespace remora::rdma
