// TLS over a socket: encrypts what leaves, and decrypts what comes.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/stream/tls_context.h"

struct ssl_st;  // SSL

namespace remora::rdma {

/// One TLS connection. OpenSSL never touches the socket: it reads records from one buffer, and writes records
/// to another. So bytes are encrypted once, whatever the socket takes, and a send leaves as one system call
/// with all its records. (OpenSSL's own socket functions would also raise SIGPIPE.)
///
/// Send and Receive are like sendmsg and recvmsg. Two states have no counterpart there: records that the
/// socket has not taken yet (has_output), and bytes that have arrived and were not asked for (has_input).
///
/// Thread safety: none.
class TlsStream {
 public:
  enum class Step : std::uint8_t {
    kDone = 1,
    kWaits,   // for bytes of the peer; or, with has_output, for the socket to take bytes
    kFailed,  // see error(); the peer gets an alert if the socket takes it
  };

  /// Makes the server's end of a connection.
  static absl::StatusOr<std::unique_ptr<TlsStream>> OfServer(std::shared_ptr<const TlsContext> context);
  /// Makes the client's end. `host`: the name or IP address for which the server's certificate must be
  /// valid.
  static absl::StatusOr<std::unique_ptr<TlsStream>> OfClient(std::shared_ptr<const TlsContext> context,
                                                             const std::string& host);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Goes on with the handshake. Never blocks.
  Step Handshake(int socket);
  bool is_established() const { return is_established_; }

  /// Encrypts bytes of `from`, in order, and sends them. Never blocks. Returns the number of bytes that it
  /// has encrypted, which is less than all if has_output(); else -1 with errno, EAGAIN if the socket takes
  /// nothing. The caller may change the bytes afterwards. REQUIRES: the handshake is done.
  ssize_t Send(int socket, std::span<const iovec> from);
  /// Receives with one recv(2) at most, with these flags. Returns the number of bytes stored into `to`, 0
  /// at the end of the stream, or -1 with errno: EAGAIN, EINTR, EPROTO (see error()) or another one of recv.
  /// REQUIRES: the handshake is done.
  ssize_t Receive(int socket, std::span<const iovec> to, int flags);
  /// Sends records that wait. Returns the errno of a failure; 0, even if the socket does not take all.
  int Flush(int socket);

  bool has_output() const { return sent_ < output_.size(); }
  /// Returns whether Receive may return without bytes from the socket: with bytes, or with a failure.
  bool has_input() const;
  /// Returns why the TLS connection failed; OK while it has not.
  const absl::Status& error() const { return error_; }

 private:
  friend struct TlsBuffers;

  explicit TlsStream(std::shared_ptr<const TlsContext> context);
  absl::Status Begin();
  /// Receives records into input_. REQUIRES: it is empty. Returns as recv(2).
  ssize_t FillInput(int socket, int flags);
  /// Decrypts up to `size` bytes. Returns their number; 0 at the end of the stream; -1 with errno.
  ssize_t Decrypt(void* to, std::size_t size);
  bool Encrypt(const std::byte* from, std::size_t size);
  Step Fail(absl::Status why);
  absl::Status HandshakeError() const;
  absl::Status ServersHandshakeError() const;

  const std::shared_ptr<const TlsContext> context_;
  ssl_st* ssl_ = nullptr;
  bool is_established_ = false;
  bool is_at_end_ = false;  // the peer has closed its side
  std::string host_;        // a client's: of the server
  absl::Status error_;
  std::vector<std::byte> input_;  // records for OpenSSL, from begin_ to end_
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::byte> output_;  // records of OpenSSL, of which the socket has taken sent_ bytes
  std::size_t sent_ = 0;
  std::uint64_t first_bytes_ = 0;  // of the peer, while fewer than 8 had come
  std::size_t first_count_ = 0;
};

}  // namespace remora::rdma
