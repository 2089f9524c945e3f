#include "rdma/requests.h"

#include "absl/strings/str_cat.h"

namespace remora::rdma {

std::uint64_t TotalSize(std::span<const Sge> sges) {
  std::uint64_t total = 0;
  for (const Sge& sge : sges) total += sge.size;
  return total;
}

absl::Status BadRequest(std::span<const Sge> sges, const RemoteRegion& region, std::uint64_t offset) {
  if (sges.size() > kMaxSges) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", sges.size(), " entries; the most are ", kMaxSges));
  }
  return absl::InvalidArgumentError(absl::StrCat("post: ", TotalSize(sges), " bytes at ", offset,
                                                 " are not inside the region of ", region.size));
}

absl::Status QueueIsFull() {
  return absl::ResourceExhaustedError("post: all requests of QueueLimits::sends are in flight; poll first");
}

}  // namespace remora::rdma
