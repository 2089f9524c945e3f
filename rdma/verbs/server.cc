#include "rdma/verbs/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/address.h"
#include "rdma/verbs/listener.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

/// Goes back to the cm_thread, which deregisters it.
class ProvidedRegistration final : public Registration {
 public:
  ProvidedRegistration(OwnedMemory memory, CmThread& cm_thread)
      : Registration(memory.bytes, memory.registration->local_key(), memory.registration->remote()),
        memory_(std::move(memory)),
        cm_thread_(cm_thread) {}
  ~ProvidedRegistration() override { cm_thread_.Deregister(std::move(memory_)); }

 private:
  OwnedMemory memory_;
  CmThread& cm_thread_;
};

}  // namespace

VerbsServer::VerbsServer(VerbsListener& listener, VerbsRequest request)
    : VerbsConnection(&id_, AddressText(rdma_get_peer_addr(&request.id)), request.serial, listener.limits(),
                      listener.device()),
      listener_(listener),
      id_(request.id),
      initiator_depth_(request.initiator_depth),
      responder_resources_(request.responder_resources) {
  SetPeerData(std::move(request.data));
}

VerbsServer::~VerbsServer() {
  listener_.cm_thread().DestroyQueuePair(serial(), id_.qp);
  listener_.Forget(*this);
}

absl::Status VerbsServer::EnsureQueuePair() {
  if (!status().ok()) return status();
  if (id_.qp != nullptr) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const QueuePair queue, listener_.pool().TakeQueuePair());
  id_.qp = queue.qp;
  SetInlineSize(queue.inline_size);
  return absl::OkStatus();
}

// --- Memory ---------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Registration>> VerbsServer::RegisterMessages(std::span<std::byte> bytes) {
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  return VerbsConnection::RegisterMessages(bytes);
}

absl::StatusOr<std::unique_ptr<Registration>> VerbsServer::ProvideMessages(std::size_t size) {
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  REMORA_ASSIGN_OR_RETURN(OwnedMemory memory,
                          listener_.pool().TakeMemory(VerbsRegistration::Use::kMessages, size));
  return std::make_unique<ProvidedRegistration>(std::move(memory), listener_.cm_thread());
}

absl::StatusOr<std::unique_ptr<Registration>> VerbsServer::ProvideWrite(std::string_view /*name*/,
                                                                        std::size_t size) {
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  if (windows_.size() == limits().sends) {
    return absl::ResourceExhaustedError(
        "provide memory: a connection has at most QueueLimits::sends memories to WRITE");
  }
  const auto use = device().memory_windows ? VerbsRegistration::Use::kWindow : VerbsRegistration::Use::kWrite;
  REMORA_ASSIGN_OR_RETURN(OwnedMemory memory, listener_.pool().TakeMemory(use, size));
  if (memory.window != nullptr) windows_.push_back(memory.window);
  return std::make_unique<ProvidedRegistration>(std::move(memory), listener_.cm_thread());
}

// --- The handshake --------------------------------------------------------------------------------------

absl::Status VerbsServer::Accept(std::span<const std::byte> data) {
  if (data.size() > kMaxAcceptData) {
    return absl::InvalidArgumentError(
        absl::StrCat("accept: ", data.size(), " bytes of accept data; the most are ", kMaxAcceptData));
  }
  REMORA_RETURN_IF_ERROR(EnsureQueuePair());
  AcceptCommand command = {.qp = id_.qp,
                           .binds = {},
                           .param = ConnectionParameters(std::min(limits().reads, initiator_depth_),
                                                         std::min(limits().reads, responder_resources_), {}),
                           .data = std::vector(data.begin(), data.end())};
  // The client may WRITE as soon as it is answered, and nothing would keep it behind a bind in
  // flight. So all must be done before.
  for (MemoryWindow* const window : windows_) {
    command.binds.push_back({.window = window, .request_id = NoteBind()});
  }
  is_binding_ = !windows_.empty();
  // RDMA_CM_EVENT_ESTABLISHED may come later than the client's first message, so nothing waits for it.
  SetConnected(command.param.responder_resources);
  listener_.cm_thread().Accept(serial(), std::move(command));
  return absl::OkStatus();
}

void VerbsServer::AnswerIfBound() {
  if (!is_binding_ || !sends_are_done() || !status().ok()) return;
  is_binding_ = false;
  listener_.cm_thread().SendAccept(serial());
}

void VerbsServer::Reject(std::span<const std::byte> data) {
  REMORA_CHECK(data.size() <= kMaxRejectData);
  listener_.cm_thread().Reject(serial(), data);
}

// --- The end --------------------------------------------------------------------------------------------

void VerbsServer::Disconnect() { listener_.cm_thread().Disconnect(serial(), id_.qp); }

void VerbsServer::BreakQueuePair() { listener_.cm_thread().MoveToError(serial(), id_.qp); }

void VerbsServer::TakeDisconnection(Disconnection disconnection) {
  if (!disconnection.flushes) id_.qp = nullptr;
  Break(std::move(disconnection.cause));
}

}  // namespace remora::rdma
