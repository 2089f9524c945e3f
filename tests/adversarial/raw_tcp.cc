#include "tests/adversarial/raw_tcp.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "store/format/memory/record.h"

namespace remora {
namespace {

/// The events of the socket that came in time; 0: none.
short AwaitSocket(int socket, short events, std::chrono::milliseconds patience) {
  pollfd wait{.fd = socket, .events = events, .revents = 0};
  return poll(&wait, 1, static_cast<int>(patience.count())) == 1 ? wait.revents : short{0};
}

}  // namespace

std::unique_ptr<RawPeer> MakeRawTcp(const rdma::Address& where, bool takes_replies) {
  return std::make_unique<RawTcp>(where, takes_replies);
}

RawTcp::RawTcp(const rdma::Address& where, bool takes_replies) : takes_replies_(takes_replies) {
  const auto hosts = rdma::ResolveTcp(where, false);
  if (!hosts.ok()) return;
  rdma::UniqueFd fd(::socket(hosts->front().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), hosts->front().get(), hosts->front().size) == 0) socket_ = std::move(fd);
}

bool RawTcp::Say(const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(socket_.get(), at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (errno != EAGAIN || (AwaitSocket(socket_.get(), POLLOUT, kPatience) & POLLOUT) == 0) {
      return false;
    }
  }
  return true;
}

bool RawTcp::SayAtOnce(const void* bytes, std::size_t size) {
  return send(socket_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

bool RawTcp::Hear(void* bytes, std::size_t size, std::chrono::milliseconds patience) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    if (AwaitSocket(socket_.get(), POLLIN, patience) == 0) return false;
    const ssize_t got = recv(socket_.get(), at, size, MSG_DONTWAIT);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

RawPeer::Answer RawTcp::Join(std::span<const std::byte> hello) {
  rdma::TcpHello packet;
  packet.data_size = static_cast<std::uint32_t>(hello.size());
  std::ranges::copy(hello, packet.data);
  Say(&packet, sizeof(packet));
  rdma::TcpReply reply;
  if (!Hear(&reply, sizeof(reply), kPatience)) return Answer::kHungUpOn;
  said_.assign(reply.data, reply.data + std::min<std::size_t>(reply.data_size, sizeof(reply.data)));
  return reply.answer == rdma::TcpAnswer::kAccepted ? Answer::kAccepted : Answer::kRejected;
}

bool RawTcp::SayFrame(const rdma::FrameHeader& header, std::string_view payload) {
  std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
  frame.append(payload);
  return Say(frame.data(), frame.size());
}

void RawTcp::Write(std::uint64_t offset, std::string_view bytes) {
  const RemoteRegion& staging = hello().staging;
  SayFrame({.kind = rdma::FrameKind::kWrite,
            .size = static_cast<std::uint32_t>(bytes.size()),
            .key = staging.key,
            .offset = staging.address + offset},
           bytes);
}

bool RawTcp::Send(std::span<const std::byte> message) {
  return SayFrame({.kind = rdma::FrameKind::kMessage, .size = static_cast<std::uint32_t>(message.size())},
                  {reinterpret_cast<const char*>(message.data()), message.size()});
}

std::optional<std::string> RawTcp::Receive(std::chrono::milliseconds patience) {
  if (!takes_replies_) return std::nullopt;
  for (;;) {
    rdma::FrameHeader header;
    if (!Hear(&header, sizeof(header), patience) || header.kind == rdma::FrameKind::kEnd) return std::nullopt;
    std::string payload(header.size, '\0');
    if (!Hear(payload.data(), payload.size(), patience)) return std::nullopt;
    if (header.kind == rdma::FrameKind::kMessage) return payload;  // WRITEs go nowhere
  }
}

bool RawTcp::AwaitEnd(std::chrono::milliseconds patience) {
  char any[4096];
  while (AwaitSocket(socket_.get(), POLLIN, patience) != 0) {
    if (recv(socket_.get(), any, sizeof(any), MSG_DONTWAIT) <= 0) return true;
  }
  return false;
}

}  // namespace remora
