#include "server/memory/memory_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/options.h"

namespace remora {
namespace {

// Of the memory, what is kept for clients when nobody says how many.
constexpr std::size_t kClientShare = 8;
constexpr std::size_t kMinClients = 4;
constexpr std::size_t kMaxClients = 512;

}  // namespace

std::size_t ClientBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits,
                        const SessionBytes& session) {
  return session.largest + rdma::SharedBytesOf(kind, limits).connection;
}

std::size_t ListenerBytes(rdma::TransportKind kind, const rdma::QueueLimits& limits,
                          const SessionBytes& session) {
  const rdma::SharedBytes shared = rdma::SharedBytesOf(kind, limits);
  return shared.listener + shared.ahead * session.all_kinds;
}

absl::StatusOr<MemoryPlan> PlanMemory(std::size_t memory, std::optional<std::uint32_t> max_clients,
                                      std::span<const rdma::Address> addresses,
                                      const rdma::QueueLimits& limits, const SessionBytes& session) {
  MemoryPlan plan;
  for (const rdma::Address& address : addresses) {
    plan.client_bytes = std::max(plan.client_bytes, ClientBytes(address.kind, limits, session));
    plan.listener_bytes += ListenerBytes(address.kind, limits, session);
  }
  const std::size_t client = std::max<std::size_t>(plan.client_bytes, 1);
  const std::size_t least = plan.listener_bytes + kMinMemorySize;
  const std::size_t spare = memory - std::min(memory, least);
  const std::size_t by_default =
      std::clamp(std::min(memory / kClientShare, spare) / client, kMinClients, kMaxClients);
  plan.max_clients = max_clients.value_or(static_cast<std::uint32_t>(by_default));
  const std::size_t needed = least + plan.max_clients * plan.client_bytes;
  if (memory < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("a memory of ", memory, " bytes is too little for a store, which takes ", kMinMemorySize,
                     " at least, and ", plan.max_clients, " clients, each of which takes ", plan.client_bytes,
                     ": give it ", needed, " bytes or more (--memory)",
                     plan.max_clients > 1 ? ", or fewer clients (--max_clients)" : ""));
  }
  REMORA_ASSIGN_OR_RETURN(plan.region_size, RegionSize(memory - (needed - kMinMemorySize)));
  return plan;
}

}  // namespace remora
