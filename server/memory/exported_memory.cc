#include "server/memory/exported_memory.h"

#include "store/base/status_macros.h"
#include "store/options.h"

namespace remora {

absl::StatusOr<std::unique_ptr<ExportedMemory>> ExportedMemory::Create(std::size_t memory_size) {
  REMORA_ASSIGN_OR_RETURN(const std::size_t size, RegionSize(memory_size));
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<rdma::SharedMemory> memory,
      rdma::SharedMemory::Create("remora-memory", size, rdma::SharedMemory::Writers::kOwnerOnly));
  return std::unique_ptr<ExportedMemory>(new ExportedMemory(std::move(memory)));
}

}  // namespace remora
