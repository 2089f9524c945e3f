// The split of the memory that clients may reach: the store's region, and the share of each client
// and listener.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/transport.h"

namespace remora {

/// Bytes that a session registers for its client, at most (ClientSession::MaxRegisteredBytes).
struct SessionBytes {
  std::size_t largest = 0;    // one session
  std::size_t all_kinds = 0;  // one session of each kind, together
};

/// Returns the bytes that one client of a listener of `kind` takes, beside the region: its staging
/// buffer, message buffers, and the memory that the transport shares with it.
std::size_t ClientBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits,
                        const SessionBytes& session);

/// Returns the bytes that a listener of `kind` takes: the memory that the transport shares with all
/// its clients, and the memory that it has ready for future ones.
std::size_t ListenerBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits,
                          const SessionBytes& session);

/// Split of all the memory that clients may reach, in bytes.
struct MemoryPlan {
  std::size_t region_size = 0;     // StoreOptions::memory_size
  std::uint32_t max_clients = 0;   // ServerOptions::max_clients
  std::size_t client_bytes = 0;    // of each, at most
  std::size_t listener_bytes = 0;  // of all listeners

  std::size_t bytes() const { return region_size + max_clients * client_bytes + listener_bytes; }
};

/// Splits `memory` for a server that listens at `addresses`, with `limits` at each, and whose sessions
/// register as many bytes as `session` says: the plan takes no more. Without `max_clients` it plans as many
/// as an eighth of the memory holds, but 4 to 512. Above 4, it plans no more than leave the store its least.
///
/// - InvalidArgument: the rest is less than a store's least, or more than its most (the error says
///   the numbers, and what to do).
absl::StatusOr<MemoryPlan> PlanMemory(std::size_t memory, std::optional<std::uint32_t> max_clients,
                                      std::span<const rdma::Address> addresses,
                                      const rdma::QueueLimits& limits, const SessionBytes& session);

}  // namespace remora
