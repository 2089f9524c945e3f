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

/// For each operation a bucket and what most records take; for larger records, a few buffers that operations
/// take and give back.
///
/// Thread safety: none. Ownership: the session is destroyed before it, for a device may write here until
/// then.
class OperationBuffers {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Before all else, in this order. `buffer`: of the memory that Allocate has returned.
  std::span<std::byte> Allocate(std::size_t depth);
  absl::Status Register(Session& session, std::unique_ptr<RegisteredBuffer> buffer);

  // REQUIRES: operation < depth.
  std::span<std::byte> bucket(std::size_t operation) const;
  std::span<std::byte> record(std::size_t operation) const;
  std::span<std::byte> large(std::uint32_t number) const;

  /// The number of a large buffer. kNone: there is none right now.
  std::uint32_t TakeLarge();
  void ReturnLarge(std::uint32_t number) { free_large_.push_back(number); }

  /// REQUIRES: `bytes` are of one of these.
  rdma::Sge SgeOf(std::span<std::byte> bytes) const;

 private:
  Session* session_ = nullptr;
  std::size_t depth_ = 0;
  std::vector<std::byte> memory_;
  std::unique_ptr<RegisteredBuffer> buffer_;
  std::vector<std::uint32_t> free_large_;  // the last one is the session's own
};

}  // namespace remora
