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

/// One piece of memory, in parts; allocated once, and registered with each connection anew.
///
/// Thread safety: none.
class SessionBuffers {
 public:
  /// READs that one batch may have in flight.
  static constexpr std::size_t kMaxBatch = 32;
  /// Requests that may be in flight.
  static constexpr std::size_t kMaxInFlight = 16;
  /// Replies that may come before one is taken out: one for each request, and some to spare.
  static constexpr std::size_t kReplies = kMaxInFlight + 2;
  /// Entries of the directory that one READ brings.
  static constexpr std::size_t kDirectoryEntries = 64;

  SessionBuffers();

  /// ResourceExhausted: too little memory that may be locked.
  absl::Status Register(rdma::ClientConnection& connection);
  /// REQUIRES: the connection that it is registered with is there, and has ended.
  void Deregister() { registration_.reset(); }

  /// A record of kMaxSmallExtent bytes.
  std::span<std::byte> record() const { return registration_->bytes().first(kMaxSmallExtent); }
  /// REQUIRES: number < kMaxBatch.
  std::span<std::byte> bucket(std::size_t number) const;
  std::span<std::byte> superblock() const;
  /// kDirectoryEntries of them.
  std::span<std::byte> directory() const;
  /// REQUIRES: number < kMaxInFlight.
  std::span<std::byte> request(std::size_t number) const;
  /// REQUIRES: number < kReplies.
  std::span<std::byte> reply(std::size_t number) const;
  /// kMaxPayloadSize bytes.
  std::span<std::byte> payload() const;

  /// REQUIRES: `bytes` are of one of these.
  rdma::Sge SgeOf(std::span<std::byte> bytes) const {
    return {bytes.data(), static_cast<std::uint32_t>(bytes.size()), registration_->local_key()};
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<rdma::Registration> registration_;  // null: no connection has it
};

}  // namespace remora
