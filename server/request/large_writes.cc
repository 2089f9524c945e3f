#include "server/request/large_writes.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Divisor of the memory that all clients together may reserve at once. Reservations that wait for a
// slow or a dead client must not take the store's space. One reservation may be larger than that
// when there is no other.
constexpr std::size_t kShare = 4;

}  // namespace

LargeWrites::LargeWrites(ServerStore& store, ExportedMemory& memory) : store_(store), memory_(memory) {}

LargeWrites::~LargeWrites() {
  while (!held_.empty()) Remove(held_.begin(), /*used_up=*/false);
}

absl::StatusOr<Grant> LargeWrites::Reserve(ClientSession& session, const Request& request, TimePoint asked) {
  rdma::ServerConnection& connection = session.connection();
  REMORA_CHECK(!held_.contains(&connection));
  const std::size_t size = std::size_t{request.key_size} + request.value_size;
  if (!held_.empty() && bytes_ + size > memory_.region().size() / kShare) {
    return absl::AbortedError("reserve: clients have reserved as much memory as they may; try again");
  }
  REMORA_ASSIGN_OR_RETURN(const Reservation reservation,
                          store_.Reserve(request.key_size, request.value_size));
  Held held{.reservation = reservation,
            .grant = nullptr,
            .until = asked + std::chrono::seconds(kReservationSeconds)};
  // When it cannot be granted, be it for want of memory that may be locked, parts do it too.
  auto grant = memory_.GrantAt(connection, reservation.bytes);
  if (grant.ok()) held.grant = *std::move(grant);
  Grant answer;
  if (held.grant != nullptr) answer.region = held.grant->remote();
  bytes_ += size;
  held_.emplace(&connection, std::move(held));
  return answer;
}

absl::Status LargeWrites::TakePart(ClientSession& session, const Request& request) {
  const auto found = held_.find(&session.connection());
  if (found == held_.end() || found->second.committing || found->second.grant != nullptr) {
    return absl::InvalidArgumentError(
        "large value: nothing is reserved for this part, or not any more; write the value again");
  }
  Held& held = found->second;
  const std::span<const std::byte> part = session.DecodePart(request);
  if (part.empty() || part.size() > held.reservation.bytes.size() - held.filled) {
    Remove(found, /*used_up=*/false);
    return absl::InvalidArgumentError(
        "protocol error: a part outside the staging buffer, or of more than was reserved");
  }
  const std::span<std::byte> to = held.reservation.bytes.subspan(held.filled, part.size());
  std::memcpy(to.data(), part.data(), part.size());
  // Hashes the copy, which no client can change, while the cache has it.
  const std::size_t of_key = held.reservation.key_size - std::min(held.filled, held.reservation.key_size);
  const std::span<const std::byte> of_value = to.subspan(std::min(of_key, to.size()));
  held.hasher.Add(of_value.data(), of_value.size());
  held.filled += part.size();
  return absl::OkStatus();
}

bool LargeWrites::BeginCommit(rdma::Connection& connection, const Request& request) {
  const auto found = held_.find(&connection);
  if (found == held_.end() || found->second.committing) return false;
  Held& held = found->second;
  if (request.key_size != held.reservation.key_size ||
      request.value_size != held.reservation.bytes.size() - held.reservation.key_size) {
    Remove(found, /*used_up=*/false);
    return false;
  }
  held.committing = true;
  held.grant.reset();
  if (held.filled == held.reservation.bytes.size()) held.reservation.value_hash = held.hasher.Hash();
  return true;
}

const Reservation* LargeWrites::Committing(rdma::Connection& connection) const {
  const auto found = held_.find(&connection);
  REMORA_CHECK(found != held_.end() && found->second.committing);
  return &found->second.reservation;
}

void LargeWrites::EndCommit(rdma::Connection& connection) {
  const auto found = held_.find(&connection);
  REMORA_CHECK(found != held_.end() && found->second.committing);
  Remove(found, /*used_up=*/true);
}

absl::Status LargeWrites::Release(rdma::Connection& connection) {
  const auto found = held_.find(&connection);
  if (found == held_.end()) return absl::OkStatus();
  if (found->second.committing) {
    return absl::InvalidArgumentError(
        "protocol error: a reserve while a commit of this connection is not answered");
  }
  Remove(found, /*used_up=*/false);
  return absl::OkStatus();
}

void LargeWrites::Forget(ClientSession& session) {
  const auto found = held_.find(&session.connection());
  if (found != held_.end()) Remove(found, /*used_up=*/false);
}

void LargeWrites::Expire(TimePoint now) {
  for (auto held = held_.begin(); held != held_.end();) {
    const auto next = std::next(held);
    if (!held->second.committing && held->second.until <= now) Remove(held, /*used_up=*/false);
    held = next;
  }
}

std::optional<TimePoint> LargeWrites::next_expiry() const {
  std::optional<TimePoint> next;
  for (const auto& [connection, held] : held_) {
    if (!held.committing) next = next ? std::min(*next, held.until) : held.until;
  }
  return next;
}

void LargeWrites::Remove(Map::iterator held, bool used_up) {
  held->second.grant.reset();  // before anybody else gets the memory
  bytes_ -= held->second.reservation.bytes.size();
  if (!used_up) store_.Release(held->second.reservation);
  held_.erase(held);
}

}  // namespace remora
