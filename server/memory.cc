#include "server/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Gives the index its pages now. Keys go everywhere in it, so it would have them soon; until then, GETs of
// local clients would pay for them, one page fault each. The log fills from its start, and gets its pages as
// it does.
absl::Status Populate(std::span<std::byte> bytes) {
  if (::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  if (errno == EINVAL) return absl::OkStatus();  // a kernel before 5.14: works, and pays later
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for an index of ", bytes.size(), " bytes: ", std::strerror(errno),
                   "; choose a smaller --memory, or raise the memory limit of the group"));
}

}  // namespace

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
  REMORA_RETURN_IF_ERROR(Populate(memory->index_->bytes()));
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
