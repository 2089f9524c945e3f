// The memory of the store that a server shares with its clients: its region.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "store/format/wire/remote_region.h"

namespace remora {

class ExportedMemory {
 public:
  /// InvalidArgument: as RegionSize. ResourceExhausted: the system has not that much.
  static absl::StatusOr<std::unique_ptr<ExportedMemory>> Create(std::size_t memory_size);

  std::span<std::byte> region() const { return memory_->bytes(); }
  /// Registers the region for the clients of one listener to READ.
  absl::StatusOr<RemoteRegion> RegisterAt(rdma::Listener& listener) {
    return listener.RegisterRead(*memory_);
  }
  /// Grants one client to WRITE, too (Connection::GrantWrite). REQUIRES: `bytes` are some of
  /// region().
  absl::StatusOr<std::unique_ptr<rdma::Registration>> GrantAt(rdma::ServerConnection& connection,
                                                              std::span<std::byte> bytes) {
    return connection.GrantWrite(*memory_, static_cast<std::size_t>(bytes.data() - region().data()),
                                 bytes.size());
  }

 private:
  explicit ExportedMemory(std::unique_ptr<rdma::SharedMemory> memory) : memory_(std::move(memory)) {}

  const std::unique_ptr<rdma::SharedMemory> memory_;
};

}  // namespace remora
