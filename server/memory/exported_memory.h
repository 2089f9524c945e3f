// The memory that a server shares with its clients: one store's region, and what each client has to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "store/format/wire/remote_region.h"
#include "store/store.h"

namespace remora {

/// Returns the bytes that one client of a listener of `kind` takes, beside the region: its staging
/// buffer, message buffers, and the memory that the transport shares with it.
std::size_t ClientBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits);

/// Returns the bytes that a listener of `kind` takes: the memory that the transport shares with all
/// its clients, and the memory that it has ready for future ones.
std::size_t ListenerBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits);

/// How all the memory that clients may reach is split. Bytes.
struct MemoryPlan {
  std::size_t region_size = 0;     // StoreOptions::memory_size
  std::uint32_t max_clients = 0;   // ServerOptions::max_clients
  std::size_t client_bytes = 0;    // of each, at most
  std::size_t listener_bytes = 0;  // of all listeners

  std::size_t bytes() const { return region_size + max_clients * client_bytes + listener_bytes; }
};

/// Splits `memory` for a server that listens at `addresses`, with `limits` at each: the plan takes
/// no more. Without `max_clients` it plans as many as an eighth of the memory holds, but 4 to 512.
/// Above 4, it plans no more than leave the store its least.
///
/// - InvalidArgument: the rest is less than a store's least, or more than its most (the error says
///   the numbers, and what to do).
absl::StatusOr<MemoryPlan> PlanMemory(std::size_t memory, std::optional<std::uint32_t> max_clients,
                                      std::span<const rdma::Address> addresses,
                                      const rdma::QueueLimits& limits);

class ExportedMemory {
 public:
  /// InvalidArgument: as RegionSize. ResourceExhausted: the system has not that much.
  static absl::StatusOr<std::unique_ptr<ExportedMemory>> Create(std::size_t memory_size);

  std::span<std::byte> region() const { return memory_->bytes(); }
  /// For the clients of one listener to READ.
  absl::StatusOr<RemoteRegion> RegisterAt(rdma::Listener& listener) {
    return listener.RegisterRead(*memory_);
  }
  /// For one client to WRITE, too (Connection::GrantWrite). REQUIRES: `bytes` are some of region().
  absl::StatusOr<std::unique_ptr<rdma::Registration>> GrantAt(rdma::Connection& connection,
                                                              std::span<std::byte> bytes) {
    return connection.GrantWrite(*memory_, static_cast<std::size_t>(bytes.data() - region().data()),
                                 bytes.size());
  }

 private:
  explicit ExportedMemory(std::unique_ptr<rdma::SharedMemory> memory) : memory_(std::move(memory)) {}

  const std::unique_ptr<rdma::SharedMemory> memory_;
};

}  // namespace remora
