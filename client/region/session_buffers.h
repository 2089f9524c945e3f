// The memory of a session that its connection reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "rdma/transport.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"

namespace remora {

/// One piece of memory, divided into buffers. It is allocated once, and registered with each connection anew.
///
/// Thread safety: none.
class SessionBuffers {
 public:
  /// Most READs that one batch may have in flight.
  static constexpr std::size_t kMaxBatch = 32;
  /// Most requests that may be in flight.
  static constexpr std::size_t kMaxInFlight = 16;
  /// Most replies that may arrive before the client takes one out: one for each request, and some to spare.
  static constexpr std::size_t kReplies = kMaxInFlight + 2;
  /// Number of directory entries that one READ brings.
  static constexpr std::size_t kDirectoryEntries = 64;
  /// Leaves of the ordered index that are READ side by side.
  static constexpr std::size_t kLeaves = 2;

  SessionBuffers();

  /// Registers the memory. ResourceExhausted: the process may not lock enough memory.
  absl::Status Register(rdma::ClientConnection& connection);
  /// Ends the registration. REQUIRES: the connection with which it is registered still exists, and has ended.
  void Deregister() { registration_.reset(); }

  /// Returns the buffer for a record, of kMaxSmallExtent bytes.
  std::span<std::byte> record() const { return registration_->bytes().first(kMaxSmallExtent); }
  /// REQUIRES: number < kMaxBatch.
  std::span<std::byte> bucket(std::size_t number) const;
  std::span<std::byte> superblock() const;
  /// Returns the buffer for kDirectoryEntries directory entries.
  std::span<std::byte> directory() const;
  /// Returns the buffer for a leaf, of kLeafBlockSize bytes. REQUIRES: number < kLeaves.
  std::span<std::byte> leaf(std::size_t number) const;
  /// REQUIRES: number < kMaxInFlight.
  std::span<std::byte> request(std::size_t number) const;
  /// REQUIRES: number < kReplies.
  std::span<std::byte> reply(std::size_t number) const;
  /// Returns the buffer for payloads, of kMaxPayloadSize bytes.
  std::span<std::byte> payload() const;

  /// Returns the scatter-gather element of `bytes`. REQUIRES: they are inside one of these buffers.
  rdma::Sge SgeOf(std::span<std::byte> bytes) const {
    return {bytes.data(), static_cast<std::uint32_t>(bytes.size()), registration_->local_key()};
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<rdma::Registration> registration_;  // null: no connection has it
};

}  // namespace remora
