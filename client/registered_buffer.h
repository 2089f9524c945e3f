// Memory of the caller that a client reads values into, and sends values from, without a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "rdma/transport.h"

namespace remora {

class Endpoint;
class RegisteredBytes;

/// Memory of the caller that a client has registered with its transport (Client::Register,
/// AsyncClient::Register).
///
/// The memory remains the caller's, who may use it freely between the operations that name it. An operation
/// has exclusive use of it from its call until its end. Until then other code must not write the memory that
/// the operation names, nor read the memory that it reads into.
///
/// Destroy the buffer before its memory is freed, and not while an operation of an AsyncClient uses it. It
/// stays valid when the client reconnects. After the client is destroyed it has no use.
///
/// Thread safety: that of its client.
class RegisteredBuffer {
 public:
  ~RegisteredBuffer();
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;
  /// Returns the memory, which is the caller's.
  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns the `size` bytes from `offset` on. REQUIRES: they are inside the buffer.
  RegisteredBytes Part(std::size_t offset, std::size_t size) const;

 private:
  friend class AsyncClient;
  friend class Client;
  friend class Endpoint;
  friend class RegisteredBytes;
  RegisteredBuffer(Endpoint& endpoint, std::span<std::byte> bytes) : endpoint_(&endpoint), bytes_(bytes) {}

  Endpoint* endpoint_;  // null once the client is destroyed
  const std::span<std::byte> bytes_;
  std::unique_ptr<rdma::Registration> registration_;  // with the current connection
  mutable std::size_t operations_ = 0;                // of an AsyncClient, that use this now
};

/// All bytes of a RegisteredBuffer, or a part of them. The buffer must outlive this.
class RegisteredBytes {
 public:
  /// Names all bytes of a buffer.
  RegisteredBytes(const RegisteredBuffer& all)  // NOLINT: a buffer is the whole of itself
      : RegisteredBytes(all, all.bytes()) {}
  /// Returns the bytes that this names.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class AsyncClient;
  friend class Endpoint;
  friend class RegisteredBuffer;
  RegisteredBytes(const RegisteredBuffer& buffer, std::span<std::byte> bytes)
      : buffer_(&buffer), bytes_(bytes) {}
  void Hold() const { ++buffer_->operations_; }
  void Release() const { --buffer_->operations_; }

  const RegisteredBuffer* buffer_;
  std::span<std::byte> bytes_;
};

}  // namespace remora
