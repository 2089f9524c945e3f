// The socket of a client, with or without TLS.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "rdma/tcp/stream/tls_stream.h"

namespace remora::kvgate {

/// Bytes in both directions of a connected socket, which it owns. Nothing blocks.
///
/// Thread safety: none.
class Channel {
 public:
  /// Takes a non-blocking socket. `tls`: the server's end, or null.
  Channel(int fd, std::unique_ptr<rdma::TlsStream> tls) : fd_(fd), tls_(std::move(tls)) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const { return fd_; }
  bool is_encrypted() const { return tls_ != nullptr; }

  /// Behave as recv(2) and send(2). While the handshake is in progress, they return -1, and errno is EAGAIN.
  ssize_t Receive(std::span<char> to);
  ssize_t Send(std::string_view bytes);
  /// Sends encrypted bytes that the socket has not taken yet. Returns false if the socket failed.
  bool Flush();

  /// Returns whether Receive may return bytes although the socket has none.
  bool has_input() const { return tls_ != nullptr && tls_->has_input(); }
  /// Returns whether Flush has something to send.
  bool has_output() const { return tls_ != nullptr && tls_->has_output(); }

 private:
  /// Returns whether the handshake is over; else errno says why not.
  bool IsReady();

  const int fd_;
  const std::unique_ptr<rdma::TlsStream> tls_;
};

}  // namespace remora::kvgate
