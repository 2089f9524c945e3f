// Sockets of tests on 127.0.0.1.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gtest/gtest.h"
#include "rdma/unique_fd.h"

namespace remora {

inline sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A socket that listens at a port of the system's choice.
struct LoopbackListener {
  /// `flags`: such as SOCK_NONBLOCK, beside SOCK_CLOEXEC.
  explicit LoopbackListener(int flags = 0) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)) {
    socklen_t size = sizeof(address);
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(fd.get(), place, size), 0);
    EXPECT_EQ(::getsockname(fd.get(), place, &size), 0);
    EXPECT_EQ(::listen(fd.get(), 16), 0);
  }
  std::uint16_t port() const { return ntohs(address.sin_port); }

  rdma::UniqueFd fd;
  sockaddr_in address = Loopback(0);
};

/// Sends all bytes, or what it can before the peer ends the connection.
inline void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace remora
