#include "rdma/verbs/connection.h"

#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/memory_window.h"
#include "rdma/verbs/status.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// How often a packet is sent again (SetRetransmission: 268 ms later): a peer that cannot be reached is given
// up after 2 s. Not 7: soft-RoCE takes that for "for ever".
constexpr std::uint8_t kRetries = 6;
// A peer without a posted receive: 7 stands for "again and again". It may be slow for any reason; one that is
// gone is noticed by its disconnection, or by the retries above.
constexpr std::uint8_t kReceiverNotReadyRetries = 7;
// 255 means "the device's maximum" to librdmacm (RDMA_MAX_INIT_DEPTH).
constexpr std::uint32_t kMaxReadDepth = 254;

// The request id travels through librdmacm's `void* context`.
static_assert(sizeof(void*) == sizeof(std::uint64_t));
void* ContextOf(std::uint64_t request_id) {
  return reinterpret_cast<void*>(request_id);  // NOLINT(performance-no-int-to-ptr): never followed
}

std::uint8_t Depth(std::uint32_t wanted, std::uint32_t device) {
  return static_cast<std::uint8_t>(std::clamp(std::min(wanted, device), std::uint32_t{1}, kMaxReadDepth));
}

CompletionKind KindOf(RequestRing::Kind kind) {
  switch (kind) {
    case RequestRing::Kind::kRead:
      return CompletionKind::kRead;
    case RequestRing::Kind::kReceive:
      return CompletionKind::kReceive;
    default:
      return CompletionKind::kSend;
  }
}

ibv_sge DeviceSge(const Sge& sge) {
  return {.addr = reinterpret_cast<std::uintptr_t>(sge.data), .length = sge.size, .lkey = sge.local_key};
}

}  // namespace

// --- Requests in flight ------------------------------------------------------------------------------

RequestRing::RequestRing(std::uint32_t limit) : limit_(limit), slots_(std::bit_ceil(limit)) {}

void RequestRing::Push(const Request& request) {
  REMORA_CHECK(size_ < limit_);
  At(next_number()) = request;
  ++size_;
}

RequestRing::Request RequestRing::Retire(std::uint32_t number) {
  for (;;) {
    REMORA_CHECK(size_ > 0);  // else the device ended a request that nobody posted
    const std::uint32_t current = oldest_;
    const Request request = At(current);
    oldest_ = (oldest_ + 1) & (kReceiveBit - 1);
    --size_;
    if (current == number) return request;
    REMORA_CHECK(request.kind == Kind::kWrite);  // all others have a completion of their own
  }
}

// --- Set-up --------------------------------------------------------------------------------------------

template <typename End>
VerbsConnection<End>::VerbsConnection(rdma_cm_id* id, std::string peer, std::uint32_t serial,
                                      const QueueLimits& limits, DeviceLimits device)
    : id_(id),
      serial_(serial),
      limits_(limits),
      device_(std::move(device)),
      sends_(limits.sends),
      receives_(limits.receives),
      peer_(std::move(peer)) {}

template <typename End>
absl::StatusOr<std::unique_ptr<Registration>> VerbsConnection<End>::RegisterMessages(
    std::span<std::byte> bytes) {
  return VerbsRegistration::Create(id_, bytes, VerbsRegistration::Use::kMessages);
}

template <typename End>
absl::StatusOr<std::unique_ptr<Registration>> VerbsConnection<End>::Grant(std::span<std::byte> bytes) {
  if (!device_.memory_windows) {
    return VerbsRegistration::Create(id_, bytes, VerbsRegistration::Use::kWrite);
  }
  REMORA_RETURN_IF_ERROR(CheckSendQueue());
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<MemoryWindow> window, MemoryWindow::Create(id_, bytes));
  const unsigned flags = sends_.free_slots() == 1 ? IBV_SEND_SIGNALED : 0;
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  if (const int error = window->PostBind(id_->qp, request_id, flags); error != 0) {
    return StatusFromErrno(error, "ibv_post_send", peer_);
  }
  NoteBind();
  return window;
}

template <typename End>
std::uint64_t VerbsConnection<End>::NoteBind() {
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  sends_.Push({.context = 0, .kind = RequestRing::Kind::kWrite});
  return request_id;
}

template <typename End>
rdma_conn_param VerbsConnection<End>::ConnectionParameters(std::uint32_t initiator_depth,
                                                           std::uint32_t responder_resources,
                                                           std::span<const std::byte> data) const {
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<std::uint8_t>(data.size());
  param.initiator_depth = Depth(initiator_depth, device_.initiator_depth);
  param.responder_resources = Depth(responder_resources, device_.responder_resources);
  param.retry_count = kRetries;
  param.rnr_retry_count = kReceiverNotReadyRetries;
  return param;
}

template <typename End>
void VerbsConnection<End>::SetConnected(std::uint32_t reads) {
  connected_ = true;
  absl::StrAppend(&peer_, " (", device_.name, ", ", reads, " READs at once)");
}

// --- Data path -------------------------------------------------------------------------------------------

// librdmacm's inline functions take a pointer to non-const entries. Empty ones are left out: some devices
// take size 0 for 2^31.
template <typename End>
struct VerbsConnection<End>::SgeList {
  std::array<ibv_sge, kMaxSges> entries;
  int count = 0;
};

template <typename End>
absl::Status VerbsConnection<End>::CheckOneSided(std::span<const Sge> sges, const RemoteRegion& region,
                                                 std::uint64_t offset, SgeList& list) const {
  if (sges.size() > kMaxSges) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", sges.size(), " scatter/gather entries; the most are ", kMaxSges));
  }
  std::uint64_t size = 0;  // cannot overflow: kMaxSges 32-bit numbers
  for (const Sge& sge : sges) {
    size += sge.size;
    if (sge.size > 0) list.entries[static_cast<std::size_t>(list.count++)] = DeviceSge(sge);
  }
  if (!region.Contains(offset, size)) {
    return absl::InvalidArgumentError(absl::StrCat("post: ", size, " bytes at offset ", offset,
                                                   " are not inside a region of ", region.size));
  }
  if (size > device_.request_size) {
    return absl::InvalidArgumentError(absl::StrCat("post: ", size,
                                                   " bytes in one request; the most that device ",
                                                   device_.name, " takes is ", device_.request_size));
  }
  return CheckSendQueue();
}

template <typename End>
absl::Status VerbsConnection<End>::CheckSendQueue() const {
  if (!failure_.ok()) return failure_;
  if (!connected_)
    return absl::InvalidArgumentError("post: the connection is not established yet; connect first");
  if (sends_.free_slots() == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("post: ", limits_.sends, " requests (QueueLimits::sends) are in flight; poll first"));
  }
  return absl::OkStatus();
}

template <typename End>
absl::Status VerbsConnection<End>::PostFailed(absl::string_view call) const {
  const int error = errno;
  if (error == EINVAL)
    return absl::InvalidArgumentError(absl::StrCat(call, ": the device rejected the request"));
  return StatusFromErrno(error, call, peer_);
}

template <typename End>
absl::Status VerbsConnection<End>::PostRead(std::uint64_t context, std::span<const Sge> to,
                                            const RemoteRegion& region, std::uint64_t offset) {
  SgeList list;
  REMORA_RETURN_IF_ERROR(CheckOneSided(to, region, offset, list));
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  if (rdma_post_readv(id_, ContextOf(request_id), list.entries.data(), list.count, IBV_SEND_SIGNALED,
                      region.address + offset, region.key) != 0) {
    return PostFailed("rdma_post_readv");
  }
  sends_.Push({.context = context, .kind = RequestRing::Kind::kRead});
  return absl::OkStatus();
}

template <typename End>
absl::Status VerbsConnection<End>::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                              std::uint64_t offset) {
  SgeList list;
  REMORA_RETURN_IF_ERROR(CheckOneSided(from, region, offset, list));
  const int flags = sends_.free_slots() == 1 ? IBV_SEND_SIGNALED : 0;
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  if (rdma_post_writev(id_, ContextOf(request_id), list.entries.data(), list.count, flags,
                       region.address + offset, region.key) != 0) {
    return PostFailed("rdma_post_writev");
  }
  sends_.Push({.context = 0, .kind = RequestRing::Kind::kWrite});
  return absl::OkStatus();
}

template <typename End>
absl::Status VerbsConnection<End>::PostSend(std::uint64_t context, const Sge& from) {
  if (from.size > kMaxMessageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("send: a message of ", from.size, " bytes; the longest is ", kMaxMessageSize));
  }
  REMORA_RETURN_IF_ERROR(CheckSendQueue());
  ibv_sge sge = DeviceSge(from);
  const int flags = IBV_SEND_SIGNALED | (from.size <= inline_size_ ? IBV_SEND_INLINE : 0);
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  if (rdma_post_sendv(id_, ContextOf(request_id), &sge, from.size > 0 ? 1 : 0, flags) != 0) {
    return PostFailed("rdma_post_sendv");
  }
  sends_.Push({.context = context, .kind = RequestRing::Kind::kSend});
  return absl::OkStatus();
}

template <typename End>
absl::Status VerbsConnection<End>::PostRecv(std::uint64_t context, const Sge& into) {
  if (!failure_.ok()) return failure_;
  if (receives_.free_slots() == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "receive: ", limits_.receives, " buffers (QueueLimits::receives) are posted already; poll first"));
  }
  ibv_sge sge = DeviceSge(into);
  const std::uint64_t request_id = MakeRequestId(serial_, receives_.next_number() | kReceiveBit);
  if (rdma_post_recvv(id_, ContextOf(request_id), &sge, into.size > 0 ? 1 : 0) != 0) {
    return PostFailed("rdma_post_recvv");
  }
  receives_.Push({.context = context, .kind = RequestRing::Kind::kReceive});
  return absl::OkStatus();
}

// Posts a WRITE of 0 bytes, for which the peer's device checks neither address nor key (InfiniBand
// specification, C9-88). If it cannot be posted now, the next call may post it.
template <typename End>
void VerbsConnection<End>::PostProbe() {
  if (!sends_.empty() || !CheckSendQueue().ok()) return;
  const std::uint64_t request_id = MakeRequestId(serial_, sends_.next_number());
  if (rdma_post_writev(id_, ContextOf(request_id), nullptr, 0, IBV_SEND_SIGNALED, 0, 0) == 0) {
    sends_.Push({.context = 0, .kind = RequestRing::Kind::kWrite});
  }
}

// --- Completions, failure, end -----------------------------------------------------------------------------

template <typename End>
bool VerbsConnection<End>::Finish(const ibv_wc& completion, Completion& out) {
  const bool is_receive = (completion.wr_id & kReceiveBit) != 0;
  bool ok = completion.status == IBV_WC_SUCCESS;
  if (ok && is_receive && completion.opcode != IBV_WC_RECV) {
    // A WRITE with immediate data ends a receive, too, and puts nothing into its buffer: byte_len is what was
    // WRITTEN elsewhere.
    ok = false;
    Break(absl::InvalidArgumentError(
        "receive: the peer sent a WRITE with immediate data, where messages are SENDs"));
  } else if (!ok) {
    const bool flushed = completion.status == IBV_WC_WR_FLUSH_ERR;
    if (failure_.ok()) {
      Break(StatusFromCompletion(completion.status, completion.vendor_err));
      is_replaceable_ = flushed;
    } else if (is_replaceable_ && !flushed) {
      // The two queues of a pair fail side by side: a flushed receive may overtake the request that failed.
      failure_ = StatusFromCompletion(completion.status, completion.vendor_err);
      is_replaceable_ = false;
    }
  }
  const auto number = static_cast<std::uint32_t>(completion.wr_id) & (kReceiveBit - 1);
  const RequestRing::Request request = (is_receive ? receives_ : sends_).Retire(number);
  if (request.kind == RequestRing::Kind::kWrite) return false;
  out = {.connection = this,
         .context = request.context,
         .byte_count = is_receive && ok ? completion.byte_len : 0,
         .kind = KindOf(request.kind),
         .ok = ok};
  return true;
}

template <typename End>
void VerbsConnection<End>::Break(absl::Status cause) {
  if (!failure_.ok()) return;
  failure_ = std::move(cause);
  if (id_->qp != nullptr) BreakQueuePair();  // else a server's that has not begun to accept
}

template <typename End>
void VerbsConnection<End>::BreakByEvent(absl::Status cause) {
  if (!failure_.ok()) return;
  Break(std::move(cause));
  is_replaceable_ = true;
}

template <typename End>
bool VerbsConnection<End>::NextAfterBreak(Completion& out) {
  if (failure_.ok() || disconnect_reported_) return false;
  if (id_->qp == nullptr) {
    // Nobody else flushes what was posted.
    for (RequestRing* const ring : {&sends_, &receives_}) {
      while (!ring->empty()) {
        const RequestRing::Request request = ring->RetireOldest();
        if (request.kind == RequestRing::Kind::kWrite) continue;
        out = {.connection = this, .context = request.context, .kind = KindOf(request.kind), .ok = false};
        return true;
      }
    }
  }
  if (!sends_.empty() || !receives_.empty()) return false;
  disconnect_reported_ = true;
  out = {.connection = this, .kind = CompletionKind::kDisconnected, .ok = false};
  return true;
}

template class VerbsConnection<ClientConnection>;
template class VerbsConnection<ServerConnection>;

}  // namespace remora::rdma
