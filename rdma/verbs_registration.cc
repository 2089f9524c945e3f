#include "rdma/verbs_registration.h"

#include <rdma/rdma_verbs.h>
#include <sys/resource.h>

#include <cerrno>

#include "rdma/verbs_status.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

ibv_mr* Register(rdma_cm_id* id, std::span<std::byte> bytes, VerbsRegistration::Use use) {
  switch (use) {
    case VerbsRegistration::Use::kMessages:
      return rdma_reg_msgs(id, bytes.data(), bytes.size());
    case VerbsRegistration::Use::kRead:
      return rdma_reg_read(id, bytes.data(), bytes.size());
    case VerbsRegistration::Use::kWrite:
      return rdma_reg_write(id, bytes.data(), bytes.size());
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsRegistration>> VerbsRegistration::Create(rdma_cm_id* id,
                                                                             std::span<std::byte> bytes,
                                                                             Use use) {
  if (bytes.empty()) return absl::InvalidArgumentError("registering 0 bytes with the RDMA device");
  ibv_mr* const mr = Register(id, bytes, use);
  if (mr == nullptr) {
    const int error = errno;
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return StatusFromRegistration(error, bytes.size(), limit.rlim_cur);
  }
  RemoteRegion remote;
  if (use != Use::kMessages) {
    remote = {
        .address = reinterpret_cast<std::uintptr_t>(bytes.data()), .size = bytes.size(), .key = mr->rkey};
  }
  return std::unique_ptr<VerbsRegistration>(new VerbsRegistration(mr, bytes, remote));
}

VerbsRegistration::~VerbsRegistration() {
  // Fails only for memory that something else still uses (a memory window): a bug that would leave it open to
  // peers.
  REMORA_CHECK(rdma_dereg_mr(mr_) == 0);
}

}  // namespace remora::rdma
