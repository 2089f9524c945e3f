#include "server/memory.h"

#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::unique_ptr<ExportedMemory>> ExportedMemory::Create(std::size_t memory_size) {
  using rdma::SharedMemory;
  REMORA_ASSIGN_OR_RETURN(const StoreLayout layout, PlanMemory(memory_size));
  std::unique_ptr<ExportedMemory> memory(new ExportedMemory);
  constexpr auto kOwnerOnly = SharedMemory::Writers::kOwnerOnly;
  REMORA_ASSIGN_OR_RETURN(memory->superblock_,
                          SharedMemory::Create("remora-superblock", layout.superblock_size, kOwnerOnly));
  REMORA_ASSIGN_OR_RETURN(memory->index_,
                          SharedMemory::Create("remora-index", layout.index_size, kOwnerOnly));
  REMORA_ASSIGN_OR_RETURN(memory->log_, SharedMemory::Create("remora-log", layout.log_size, kOwnerOnly));
  return memory;
}

absl::StatusOr<ExportedRegions> ExportedMemory::RegisterAt(rdma::Listener& listener) {
  ExportedRegions regions;
  REMORA_ASSIGN_OR_RETURN(regions.superblock, listener.RegisterRead(*superblock_));
  REMORA_ASSIGN_OR_RETURN(regions.index, listener.RegisterRead(*index_));
  REMORA_ASSIGN_OR_RETURN(regions.log, listener.RegisterRead(*log_));
  return regions;
}

}  // namespace remora
