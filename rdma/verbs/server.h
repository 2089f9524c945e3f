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

class VerbsServer final : public VerbsConnection<ServerConnection> {
 public:
  VerbsServer(VerbsListener& listener, VerbsRequest request);
  ~VerbsServer() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Registration>> ProvideMessages(std::size_t size) override;
  absl::StatusOr<std::unique_ptr<Registration>> ProvideWrite(std::string_view name,
                                                             std::size_t size) override;
  absl::StatusOr<std::unique_ptr<Registration>> GrantWrite(SharedMemory& memory, std::size_t offset,
                                                           std::size_t size) override {
    return Grant(memory.bytes().subspan(offset, size));
  }
  absl::Status Accept(std::span<const std::byte> data) override;
  void Reject(std::span<const std::byte> data) override;
  void Disconnect() override;
  bool Probe() override {
    PostProbe();
    return true;
  }

  // --- For the listener ---------------------------------------------------------------------------

  bool accepted() const { return connected(); }
  /// Answers the client if all windows are bound; called behind a completion that its owner does
  /// not see.
  void AnswerIfBound();
  void TakeDisconnection(Disconnection disconnection);

 private:
  /// Takes the queue pair. It is called only when the server means to accept, so a rejected client
  /// costs the device nothing.
  absl::Status EnsureQueuePair();
  void BreakQueuePair() override;

  VerbsListener& listener_;
  // The id to post and register with: a copy of the CM thread's, and the queue pair.
  rdma_cm_id id_;
  const std::uint32_t initiator_depth_;      // asked for by the client, seen from this side
  const std::uint32_t responder_resources_;  // likewise
  std::vector<MemoryWindow*> windows_;       // of what was provided, to be bound
  bool is_binding_ = false;
};

}  // namespace remora::rdma
