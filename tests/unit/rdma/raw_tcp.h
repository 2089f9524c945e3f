// A peer over tcp:// whose bytes a test makes up.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/stream/wire.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_client.h"
#include "tests/unit/rdma/transport_service.h"

namespace remora::rdma {

/// A socket that says what the test has it say.
class RawTcp {
 public:
  explicit RawTcp(const Address& address) {
    const auto hosts = ResolveTcp(address, false);
    EXPECT_THAT(hosts, IsOk());
    socket_ = UniqueFd(::socket(hosts->front().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(socket_.get(), hosts->front().get(), hosts->front().size), 0);
    Prepare();
  }
  explicit RawTcp(UniqueFd accepted) : socket_(std::move(accepted)) { Prepare(); }

  void Say(const void* bytes, std::size_t size) {
    static_cast<void>(send(socket_.get(), bytes, size, MSG_NOSIGNAL));
  }
  template <typename T>
  void Say(const T& what) {
    Say(&what, sizeof(what));
  }
  /// Reads `size` bytes, or fewer at the end of the stream.
  std::string Hear(std::size_t size) {
    std::string heard(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t more = recv(socket_.get(), heard.data() + got, size - got, 0);
      if (more <= 0) break;
      got += static_cast<std::size_t>(more);
    }
    heard.resize(got);
    return heard;
  }
  template <typename T>
  bool Hear(T* what) {
    const std::string heard = Hear(sizeof(*what));
    std::memcpy(what, heard.data(), heard.size());
    return heard.size() == sizeof(*what);
  }
  /// Returns whether nothing comes any more, and the peer has hung up.
  bool IsHungUpOn() {
    std::array<std::byte, 4096> any;
    ssize_t got = 0;
    while ((got = recv(socket_.get(), any.data(), any.size(), 0)) > 0) {
    }
    return got == 0 || errno == ECONNRESET;
  }
  /// A right handshake.
  TcpReply Join() {
    const std::byte mode{static_cast<unsigned char>(ServiceMode::kServe)};
    TcpHello hello;
    hello.data_size = 1;
    hello.data[0] = mode;
    Say(hello);
    TcpReply reply{};
    EXPECT_TRUE(Hear(&reply));
    EXPECT_EQ(reply.answer, TcpAnswer::kAccepted);
    std::memcpy(&welcome, reply.data, sizeof(welcome));
    return reply;
  }
  int socket() const { return socket_.get(); }
  void Close() { socket_ = UniqueFd(); }

  Welcome welcome;

 private:
  void Prepare() {
    const timeval timeout = {.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  }

  UniqueFd socket_;
};

}  // namespace remora::rdma
