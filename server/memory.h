// The memory that a server exports: one store's superblock, index and log.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/memory.h"
#include "rdma/transport.h"
#include "store/format/remote_region.h"
#include "store/store.h"

namespace remora {

/// What clients of one listener must know to READ it.
struct ExportedRegions {
  RemoteRegion superblock;
  RemoteRegion index;
  RemoteRegion log;
};

class ExportedMemory {
 public:
  /// InvalidArgument: as PlanMemory. ResourceExhausted: the system has not that much.
  static absl::StatusOr<std::unique_ptr<ExportedMemory>> Create(std::size_t memory_size);

  StoreMemory ForStore() const { return {superblock_->bytes(), index_->bytes(), log_->bytes()}; }
  absl::StatusOr<ExportedRegions> RegisterAt(rdma::Listener& listener);

 private:
  ExportedMemory() = default;

  std::unique_ptr<rdma::SharedMemory> superblock_;
  std::unique_ptr<rdma::SharedMemory> index_;
  std::unique_ptr<rdma::SharedMemory> log_;
};

}  // namespace remora
