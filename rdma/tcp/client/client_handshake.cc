// TcpClient until it is connected: Dial resolves the host, and Connect tries one address after the other.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/sleep.h"
#include "rdma/tcp/client/client.h"
#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/tcp.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

absl::Status FailureToConnect(int error, absl::string_view what) {
  const absl::Status status = TcpStatus(error, what);
  if (error != ECONNREFUSED) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; see that kvserver runs there"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientConnection>> DialTcp(const Address& address, const QueueLimits& limits,
                                                          const Clock& clock, const ClientTls& tls) {
  if (limits.sends == 0 || limits.receives == 0) {
    return absl::InvalidArgumentError("limits: sends and receives must be at least 1");
  }
  std::shared_ptr<const TlsContext> context;
  if (address.tls) {
    REMORA_ASSIGN_OR_RETURN(context, TlsContext::OfClient(tls));
  }
  REMORA_ASSIGN_OR_RETURN(std::vector<TcpSocketAddress> hosts, ResolveTcp(address, false));
  return std::make_unique<TcpClient>(address, std::move(hosts), limits, clock, std::move(context));
}

absl::Status TcpClient::Connect(std::span<const std::byte> request_data, TimePoint deadline) {
  if (request_data.size() > kMaxConnectData) {
    return absl::InvalidArgumentError(absl::StrCat("connect: ", request_data.size(),
                                                   " bytes of request data; the most are ", kMaxConnectData));
  }
  if (asked_) return absl::FailedPreconditionError("connect: Connect was called before; dial again");
  asked_ = true;
  absl::Status status = Shake(request_data, deadline);
  if (status.ok()) status = MakeWaitable();
  if (status.ok()) status = MakeBlocking(socket_.get());
  if (status.ok()) {
    is_same_host_ =
        LocalAddressOf(socket_.get()).HostToString() == PeerAddressOf(socket_.get()).HostToString();
    reader_.inbox().Load(buffer_);
    is_usable_ = true;
  } else {
    Break(status);
  }
  return status;
}

absl::Status TcpClient::Shake(std::span<const std::byte> request_data, TimePoint deadline) {
  absl::Status status;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    // Each address gets its share of the time that is left, so a silent one leaves time for the others.
    const TimePoint now = clock_.Now();
    const auto left = static_cast<Duration::rep>(hosts_.size() - i);
    const TimePoint until = left == 1 ? deadline : now + (deadline - now) / left;
    status = ShakeWith(hosts_[i], request_data, until);
    const bool may_be_another = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!may_be_another) return status;
  }
  return status;
}

absl::Status TcpClient::ShakeWith(const TcpSocketAddress& host, std::span<const std::byte> request_data,
                                  TimePoint deadline) {
  peer_ = host.ToString();
  REMORA_RETURN_IF_ERROR(ConnectSocket(host, deadline));
  if (tls_context_ != nullptr) REMORA_RETURN_IF_ERROR(ShakeTls(deadline));
  TcpHello hello;
  hello.data_size = static_cast<std::uint32_t>(request_data.size());
  std::ranges::copy(request_data, hello.data);
  // If this fails, the server has hung up already; TakeReply reads its reason, if it sent one.
  SendBytes(socket_.get(), tls_.get(), std::as_bytes(std::span(&hello, 1)));
  return TakeReply(deadline);
}

absl::Status TcpClient::ShakeTls(TimePoint deadline) {
  REMORA_ASSIGN_OR_RETURN(tls_, TlsStream::OfClient(tls_context_, host_));
  for (;;) {
    switch (tls_->Handshake(socket_.get())) {
      case TlsStream::Step::kDone:
        return absl::OkStatus();
      case TlsStream::Step::kFailed:
        return FailureOfTls(tls_->error());
      case TlsStream::Step::kWaits:
        break;
    }
    absl::Status status = AwaitSocket(tls_->has_output() ? POLLOUT : POLLIN, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "connect: the server at ", peer_,
          " took the connection and does not answer the TLS handshake: it is busy, stopped, or no "
          "Remora server with TLS"));
    }
    REMORA_RETURN_IF_ERROR(status);
  }
}

absl::Status TcpClient::FailureOfTls(absl::Status why) const {
  return absl::Status(why.code(), absl::StrCat("the server at ", peer_, ": ", why.message()));
}

absl::Status TcpClient::ConnectSocket(const TcpSocketAddress& host, TimePoint deadline) {
  const std::string what = absl::StrCat("connecting to ", name_, " at ", peer_);
  socket_ = UniqueFd(socket(host.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return TcpStatus(errno, what);
  REMORA_RETURN_IF_ERROR(SetTcpOptions(socket_.get(), kClientPatience));
  if (connect(socket_.get(), host.get(), host.size) != 0) {
    if (errno != EINPROGRESS) return FailureToConnect(errno, what);
    REMORA_RETURN_IF_ERROR(AwaitSocket(POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return FailureToConnect(error, what);
  }
  // If nothing listens on a port of this host, the system may choose that port for the client's own end: the
  // socket is then connected to itself.
  if (LocalAddressOf(socket_.get()).ToString() == PeerAddressOf(socket_.get()).ToString()) {
    return FailureToConnect(ECONNREFUSED, what);
  }
  return absl::OkStatus();
}

absl::Status TcpClient::AwaitSocket(short events, TimePoint deadline) const {
  for (;;) {
    pollfd fd = {socket_.get(), events, 0};
    REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(std::span(&fd, 1), clock_, deadline));
    if (fd.revents != 0) return absl::OkStatus();
    if (!in_time) {
      return absl::DeadlineExceededError(absl::StrCat("connect: the server at ", peer_, " does not answer"));
    }
  }
}

absl::Status TcpClient::TakeReply(TimePoint deadline) {
  const std::string server = absl::StrCat("the server at ", peer_);
  TcpReply reply;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&reply, 1));
  for (std::size_t heard = 0; heard < bytes.size();) {
    const iovec rest = {bytes.data() + heard, bytes.size() - heard};
    const ssize_t got = tls_ == nullptr ? recv(socket_.get(), rest.iov_base, rest.iov_len, MSG_DONTWAIT)
                                        : tls_->Receive(socket_.get(), std::span(&rest, 1), MSG_DONTWAIT);
    if (got < 0 && tls_ != nullptr && !tls_->error().ok()) return FailureOfTls(tls_->error());
    if (got > 0) {
      heard += static_cast<std::size_t>(got);
    } else if (got == 0 || errno == ECONNRESET) {  // a reset: the server closed before it read the hello
      return absl::UnavailableError(
          absl::StrCat(server, " hung up: it is no Remora server, or has no time for another client"));
    } else if (errno != EAGAIN && errno != EINTR) {
      return TcpStatus(errno, server);
    } else {
      absl::Status status = AwaitSocket(POLLIN, deadline);
      if (absl::IsDeadlineExceeded(status)) {
        return absl::DeadlineExceededError(absl::StrCat(
            server, " took the connection and does not answer: it is busy, stopped, or no Remora server"));
      }
      REMORA_RETURN_IF_ERROR(status);
    }
    // Every version begins with magic and version.
    if (heard >= sizeof(reply.magic) && reply.magic != kTcpMagic) {
      return absl::UnavailableError(
          absl::StrCat("connect: ", server, " is no Remora server; check the address"));
    }
    if (heard >= offsetof(TcpReply, answer) && reply.version != kTcpVersion) break;
  }
  if (reply.version != kTcpVersion || reply.answer == TcpAnswer::kWrongVersion) {
    return absl::UnavailableError(absl::StrCat(server, " speaks version ", reply.version,
                                               " of tcp://, and this client ", kTcpVersion,
                                               ": use one release on both sides"));
  }
  if (reply.data_size > kMaxAcceptData) {
    return absl::InternalError(absl::StrCat("connect: the answer of ", server, " has ", reply.data_size,
                                            " bytes of data; the most are ", kMaxAcceptData));
  }
  peer_data_.assign(reply.data, reply.data + reply.data_size);
  switch (reply.answer) {
    case TcpAnswer::kAccepted:
      return absl::OkStatus();
    case TcpAnswer::kRejected:
      return absl::FailedPreconditionError("connect: the server rejected the connection");
    case TcpAnswer::kNoSpace:
      return absl::UnavailableError(absl::StrCat(
          server, " has no descriptor left for another client: try again, or raise its limit (ulimit -n)"));
    case TcpAnswer::kNeedsTls:
      return absl::InvalidArgumentError(
          absl::StrCat(server, " serves with TLS alone: connect to its tls:// address"));
    case TcpAnswer::kHasNoTls:  // answers a TLS handshake, which this client has not begun
    case TcpAnswer::kWrongVersion:
      break;
  }
  return absl::InternalError(absl::StrCat("connect: the answer of ", server,
                                          " has an unknown kind; use a client of the server's release"));
}

absl::Status TcpClient::MakeWaitable() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return TcpStatus(errno, "epoll_create1");
  interest_ = EPOLLIN;
  epoll_event event = {.events = interest_, .data = {.ptr = nullptr}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event) != 0) {
    return TcpStatus(errno, "epoll_ctl");
  }
  return absl::OkStatus();
}

}  // namespace remora::rdma
