// The messages of an AsyncClient: those that wait, and the replies to those in flight.
//
//   Start ─▶ askers_, writers_ ─▶ message in flight (channel) ─▶ reply ─▶ ended, or a READ
//     └────▶ writers_ ─▶ AsyncLargePut, one at a time ─▶ reply ─▶ ended
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/async/connection.h"
#include "client/async/large_put.h"
#include "client/async/lost_writes.h"
#include "client/async/operation.h"
#include "client/async/operation_table.h"
#include "client/async/reads.h"
#include "client/rpc/request_channel.h"
#include "rdma/transport.h"

namespace remora {

/// Sends messages in the order in which their operations began. Writes keep their order, also among large
/// puts, multi-puts, and writes whose replies were lost (LostWrites). An error of a method is the
/// connection's: it breaks.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it.
class AsyncMessages {
 public:
  /// `askers`: operations that wait to send a message that changes nothing.
  AsyncMessages(AsyncConnection& connection, OperationTable& operations, AsyncReads& reads,
                OperationBuffers& buffers, OperationList& askers)
      : connection_(connection),
        operations_(operations),
        reads_(reads),
        buffers_(buffers),
        askers_(askers),
        large_(connection, operations, reads, buffers) {}

  /// Starts an operation's message. Sends it now if none waits in front of it. `may_send`: if the message has
  /// to wait, it may send others.
  absl::Status Start(AsyncOperation& operation, const RequestSpec& asked, bool may_send);
  /// Sends messages that wait, and drives the large put. Returns whether it did something.
  absl::StatusOr<bool> Send();
  absl::Status TakeReply(const rdma::Completion& completion);
  /// Takes the completion of the fence of a large put.
  void TakeFence(AsyncOperation& operation) { large_.TakeFence(operation); }

  /// Forgets an operation that ends early.
  void Abandon(AsyncOperation& operation);
  /// Takes the messages back whose replies the connection lost: they are sent again, or asked about.
  void Lose();

 private:
  /// Sends the first operation of a list; if it is a put, with the later ones that share its message. Returns
  /// how many it sent; 0: the channel takes none now.
  absl::StatusOr<std::size_t> SendFirst(const OperationList& waiting);
  absl::StatusOr<bool> SendOne(AsyncOperation& operation);
  /// Returns whether the put waits for Poll, so that others which begin until then can share its message.
  bool IsToShare(const AsyncOperation& operation, const RequestSpec& asked) const;
  /// Returns the list whose first operation may be sent next; null: none.
  OperationList* NextToSend();
  absl::Status TakeAnswer(std::uint32_t owner, const ServerReply& answer);
  void EndAnswer(AsyncOperation& operation, const ServerReply& answer);
  void SettleUndone();

  AsyncConnection& connection_;
  OperationTable& operations_;
  AsyncReads& reads_;
  OperationBuffers& buffers_;
  OperationList& askers_;
  OperationList writers_;    // wait to send a write
  bool asked_last_ = false;  // askers_ and writers_ take turns
  AsyncLargePut large_;
  LostWrites lost_;
};

}  // namespace remora
