// The server's end of one verbs connection: a client's request, then its connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm_thread.h"
#include "rdma/verbs/connection.h"

namespace remora::rdma {

class VerbsListener;

class VerbsServerConnection final : public VerbsConnection {
 public:
  VerbsServerConnection(VerbsListener& listener, VerbsRequest request);
  ~VerbsServerConnection() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) override;
  absl::StatusOr<std::unique_ptr<Registration>> ProvideMessages(std::size_t size) override;
  absl::StatusOr<std::unique_ptr<Registration>> ProvideWrite(std::string_view name,
                                                             std::size_t size) override;
  absl::Status OfferWrite(SharedMemory& memory) override;
  absl::Status Connect(std::span<const std::byte>, TimePoint) override;
  absl::Status Accept(std::span<const std::byte> data) override;
  void Reject(std::span<const std::byte> data) override;
  void Disconnect() override;
  std::size_t Poll(std::span<Completion>) override { return 0; }
  absl::Status Wait(TimePoint) override;

  // --- For the listener ---------------------------------------------------------------------------

  bool accepted() const { return connected(); }
  /// Behind a completion that its owner does not see: if all windows are bound, the client is answered.
  void AnswerIfBound();
  void TakeLoss(Doorkeeper::Loss loss);

 private:
  /// Takes the queue pair. It is called only when the server means to accept, so a rejected client
  /// costs the device nothing.
  absl::Status EnsureQueuePair();
  void BreakQueuePair() override;

  VerbsListener& listener_;
  // The id to post and register with: a copy of the doorkeeper's, and the queue pair.
  rdma_cm_id id_;
  const std::uint32_t initiator_depth_;      // asked for by the client, seen from this side
  const std::uint32_t responder_resources_;  // likewise
  std::vector<VerbsWindow*> windows_;        // of what was provided, to be bound
  bool is_binding_ = false;
};

}  // namespace remora::rdma
