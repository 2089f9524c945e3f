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

/// What one client of such a listener takes, beside the region: its slice, message buffers, and what the
/// transport shares with it.
std::size_t ClientBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits);

/// What such a listener takes: what the transport shares with all its clients, and what it has ready for
/// those to come.
std::size_t ListenerBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits);

/// How all the memory that clients may reach is split. Bytes.
struct MemoryPlan {
  std::size_t region_size = 0;     // StoreOptions::memory_size
  std::uint32_t max_clients = 0;   // ServerOptions::max_clients
  std::size_t client_bytes = 0;    // of each, at most
  std::size_t listener_bytes = 0;  // of all listeners

  std::size_t bytes() const { return region_size + max_clients * client_bytes + listener_bytes; }
};

/// Splits `memory` for a server that listens at `addresses`, with `limits` at each: the plan takes no more.
/// No `max_clients`: as many as an eighth of it holds, but 4 to 512, and above 4 no more than leave the store
/// its least. InvalidArgument: what is left is less than a store's least, or more than its most (says the
/// numbers, and what to do).
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
