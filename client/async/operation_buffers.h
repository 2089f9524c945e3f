// Registered memory of the operations of an AsyncClient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/registered_buffer.h"
#include "client/session/session.h"
#include "rdma/transport.h"

namespace remora {

/// Buffers of the operations. Each operation has space for a bucket and for a record of most sizes. For
/// larger records there are a few buffers, which operations take and return.
///
/// Thread safety: none. Ownership: the session is destroyed first, because a device may write to these
/// buffers until then.
class OperationBuffers {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Prepare the buffers. Call these two before all others, in this order. `buffer` registers the memory that
  /// Allocate returned.
  std::span<std::byte> Allocate(std::size_t depth);
  absl::Status Register(Session& session, std::unique_ptr<RegisteredBuffer> buffer);

  // REQUIRES: operation < depth.
  std::span<std::byte> bucket(std::size_t operation) const;
  std::span<std::byte> record(std::size_t operation) const;
  std::span<std::byte> large(std::uint32_t number) const;

  /// Takes a large buffer and returns its number; kNone: no one is free now.
  std::uint32_t TakeLarge();
  void ReturnLarge(std::uint32_t number) { free_large_.push_back(number); }

  /// Returns the scatter-gather element of `bytes`. REQUIRES: they are inside one of these buffers.
  rdma::Sge SgeOf(std::span<std::byte> bytes) const;

 private:
  Session* session_ = nullptr;
  std::size_t depth_ = 0;
  std::vector<std::byte> memory_;
  std::unique_ptr<RegisteredBuffer> buffer_;
  std::vector<std::uint32_t> free_large_;  // the session owns the last one
};

}  // namespace remora
