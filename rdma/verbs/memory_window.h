// Memory registered with an RDMA device, and windows to it.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Owns one ibv_mr. Registering pins the pages: about 20 us for one page, and some 0.7 ms per MiB that was
/// never touched.
class VerbsRegistration final : public Registration {
 public:
  enum class Use {
    kMessages,  // rdma_reg_msgs: for this side alone
    kRead,      // rdma_reg_read: peers may READ
    kWrite,     // rdma_reg_write: all peers that know the key may WRITE
    kWindow,    // ibv_reg_mr: peers may do nothing, but through windows to it
  };

  /// Registers `bytes` with the protection domain of `id`. Errors as Connection::RegisterMessages.
  static absl::StatusOr<std::unique_ptr<VerbsRegistration>> Create(rdma_cm_id* id, std::span<std::byte> bytes,
                                                                   Use use);
  ~VerbsRegistration() override;

 private:
  VerbsRegistration(ibv_mr* mr, std::span<std::byte> bytes, const RemoteRegion& remote)
      : Registration(bytes, mr->lkey, remote), mr_(mr) {}

  friend class MemoryWindow;

  ibv_mr* const mr_;
};

/// Memory that the peer of one connection may WRITE: a memory window of type 2B, bound to that connection's
/// queue pair, to all of a region of its own. (A window to a part of a region would be no bound: soft-RoCE
/// checks the queue pair, and then only that the bytes lie in the region.) Destruction deallocates it: when
/// that has returned, no byte changes by the peer's doing any more.
class MemoryWindow final : public Registration {
 public:
  /// Good for nobody before it is bound, but remote() is final. Errors as Connection::RegisterMessages.
  static absl::StatusOr<std::unique_ptr<MemoryWindow>> Create(rdma_cm_id* id, std::span<std::byte> bytes);
  ~MemoryWindow() override;

  /// Posts the request that binds it to this queue pair, which takes requests already; requests posted behind
  /// it begin when it is done. Once. 0, or an error as ibv_post_send's.
  int PostBind(ibv_qp* qp, std::uint64_t request_id, unsigned flags);

 private:
  MemoryWindow(std::unique_ptr<VerbsRegistration> base, ibv_mw* window, const RemoteRegion& remote)
      : Registration(base->bytes(), base->local_key(), remote), base_(std::move(base)), window_(window) {}

  const std::unique_ptr<VerbsRegistration> base_;
  ibv_mw* const window_;
};

}  // namespace remora::rdma
