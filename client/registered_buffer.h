// Memory of the caller's that values are read into, and sent from, without a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "rdma/transport.h"

namespace remora {

class RegisteredBytes;
class Session;

/// Memory that a client has made known to its transport (Client::Register, AsyncClient::Register). It stays
/// the caller's, who may use it as any other between the operations that name it; an operation has it from
/// its call until it has ended, and until then nobody else may write what it names, nor read what it reads
/// into. To be destroyed before the memory goes, and not while an operation of an AsyncClient has it. It
/// stays good when the client reconnects; when the client is gone, it is of no use.
///
/// Thread Safety: that of its client.
class RegisteredBuffer {
 public:
  ~RegisteredBuffer();
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }
  /// `size` bytes from `offset` on. REQUIRES: they are inside.
  RegisteredBytes Part(std::size_t offset, std::size_t size) const;

 private:
  friend class AsyncClient;
  friend class Client;
  friend class RegisteredBytes;
  friend class Session;
  RegisteredBuffer(Session& session, std::span<std::byte> bytes) : session_(&session), bytes_(bytes) {}

  Session* session_;  // null: the client is gone
  const std::span<std::byte> bytes_;
  std::unique_ptr<rdma::Registration> registration_;  // with the connection that there is
  mutable std::size_t operations_ = 0;                // that have it, of an AsyncClient
};

/// Bytes of a RegisteredBuffer, which must outlive this: all of them, or a part.
class RegisteredBytes {
 public:
  RegisteredBytes(const RegisteredBuffer& all)  // NOLINT: a buffer is the whole of itself
      : RegisteredBytes(all, all.bytes()) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class AsyncClient;
  friend class RegisteredBuffer;
  friend class Session;
  RegisteredBytes(const RegisteredBuffer& buffer, std::span<std::byte> bytes)
      : buffer_(&buffer), bytes_(bytes) {}
  void Hold() const { ++buffer_->operations_; }
  void Release() const { --buffer_->operations_; }

  const RegisteredBuffer* buffer_;
  std::span<std::byte> bytes_;
};

}  // namespace remora
