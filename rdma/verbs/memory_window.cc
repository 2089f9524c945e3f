#include "rdma/verbs/memory_window.h"

#include <rdma/rdma_verbs.h>
#include <sys/resource.h>

#include <cerrno>

#include "rdma/verbs/status.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

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
    case VerbsRegistration::Use::kWindow:
      return ibv_reg_mr(id->pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsRegistration>> VerbsRegistration::Create(rdma_cm_id* id,
                                                                             std::span<std::byte> bytes,
                                                                             Use use) {
  if (bytes.empty()) return absl::InvalidArgumentError("register: 0 bytes; the RDMA device takes 1 at least");
  ibv_mr* const mr = Register(id, bytes, use);
  if (mr == nullptr) {
    const int error = errno;
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return StatusFromRegistration(error, bytes.size(), limit.rlim_cur);
  }
  RemoteRegion remote;
  if (use == Use::kRead || use == Use::kWrite) {
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

absl::StatusOr<std::unique_ptr<MemoryWindow>> MemoryWindow::Create(rdma_cm_id* id,
                                                                   std::span<std::byte> bytes) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<VerbsRegistration> base,
                          VerbsRegistration::Create(id, bytes, VerbsRegistration::Use::kWindow));
  ibv_mw* const window = ibv_alloc_mw(id->pd, IBV_MW_TYPE_2);
  if (window == nullptr) {
    return StatusFromErrno(errno, "ibv_alloc_mw", ibv_get_device_name(id->verbs->device));
  }
  // The upper 24 bits are the window's; the lower 8 are ours to choose, other ones with each bind.
  const RemoteRegion remote = {.address = reinterpret_cast<std::uintptr_t>(bytes.data()),
                               .size = bytes.size(),
                               .key = ibv_inc_rkey(window->rkey)};
  return std::unique_ptr<MemoryWindow>(new MemoryWindow(std::move(base), window, remote));
}

int MemoryWindow::PostBind(ibv_qp* qp, std::uint64_t request_id, unsigned flags) {
  ibv_send_wr request{};
  request.wr_id = request_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = flags;
  request.bind_mw.mw = window_;
  request.bind_mw.rkey = remote().key;
  request.bind_mw.bind_info = {.mr = base_->mr_,
                               .addr = remote().address,
                               .length = remote().size,
                               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* rejected = nullptr;
  return ibv_post_send(qp, &request, &rejected);
}

MemoryWindow::~MemoryWindow() {
  // Before the region, which cannot go while it is bound.
  REMORA_CHECK(ibv_dealloc_mw(window_) == 0);
}

}  // namespace remora::rdma
