// The lookups of an AsyncClient, which READ the server's memory.
//
//   Start ─▶ readers_ ─▶ READ in flight ─▶ Lookup judges ─▶ readers_ again, or the askers, or ended
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/async/connection.h"
#include "client/async/operation.h"
#include "client/async/operation_buffers.h"
#include "client/async/operation_table.h"
#include "client/get/lookup.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

/// The lookups that wait for a READ, and the READs in flight. It drives the state machine of a blocking GET
/// (client/get/lookup.h). An error of a method is the connection's: it breaks.
///
/// The client may call a callback while the READ of its operation is still in flight. Then the operation's
/// place becomes free when the READ completes: until then the device may write there.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it.
class AsyncReads {
 public:
  /// Most READs in flight at once. With two sends for each credit, they are as many as a connection takes
  /// (QueueLimits).
  static constexpr std::size_t kMaxReadsInFlight = SessionBuffers::kMaxBatch;
  static_assert(kMaxReadsInFlight + 2 * RequestChannel::kMaxInFlight <= rdma::QueueLimits().sends);
  /// A WRITE and the READ behind it count as this many of kMaxReadsInFlight.
  static constexpr std::size_t kFencedWrite = 2;

  /// `askers`: the list to which it adds lookups that have to ask the server.
  AsyncReads(AsyncConnection& connection, OperationTable& operations, OperationBuffers& buffers,
             OperationList& askers)
      : connection_(connection), operations_(operations), buffers_(buffers), askers_(askers) {}

  /// Starts the operation's lookup, over this connection.
  void Start(AsyncOperation& operation);
  /// Moves the operation to the list that the next step of its lookup needs.
  void Advance(AsyncOperation& operation) {
    if (operation.lookup.step() != Lookup::Step::kRead) return EndRead(operation);
    connection_.session().region().Prefetch(operation.lookup.offset(), operation.lookup.size());
    readers_.Push(operation);
  }
  /// Posts the READs of lookups that wait. Returns whether a lookup went on at once. One whose READ is in
  /// flight waits for its completion, so it is no reason for another look behind the next one.
  absl::StatusOr<bool> Post();
  /// Takes the completion of the operation's READ. REQUIRES: the operation is a lookup.
  void Take(AsyncOperation& operation);
  /// Gives up what the operation's lookup has planned, because the operation ends early.
  void Abandon(AsyncOperation& operation);
  bool has_in_flight() const { return in_flight_ > 0; }
  /// Ends an operation whose lookup has a result that counts.
  void EndLookup(AsyncOperation& operation);
  /// Forgets the READs of an earlier connection.
  void Reset();

  /// Frees the operation's place and buffers. REQUIRES: the device accesses none of them.
  void Free(AsyncOperation& operation) {
    if (operation.large_buffer != OperationBuffers::kNone) ReleaseLargeBuffer(operation);
    operations_.Free(operation);
  }

  // For a large put, which WRITEs from a large buffer:

  /// Gives the operation a large buffer; one that it has remains its own. Returns false if none is free now.
  bool TakeLargeBuffer(AsyncOperation& operation);
  void ReleaseLargeBuffer(AsyncOperation& operation);
  /// Returns whether a WRITE and its fence may be posted now.
  bool CanPostFence() const { return in_flight_ + kFencedWrite <= kMaxReadsInFlight; }
  /// Posts a READ whose data is not used: when it completes, so has the WRITE before it.
  absl::Status PostFence(AsyncOperation& operation);
  /// Takes the completion of a fence.
  void TakeFence() { in_flight_ -= kFencedWrite; }

 private:
  absl::Status PostFind(AsyncOperation& operation);
  bool Prepare(AsyncOperation& operation);
  /// Continues an operation whose lookup needs no READ for now.
  void EndRead(AsyncOperation& operation);
  void NoteRead(std::uint64_t key_hash);

  AsyncConnection& connection_;
  OperationTable& operations_;
  OperationBuffers& buffers_;
  OperationList& askers_;
  OperationList readers_;        // wait for a READ
  OperationList large_readers_;  // wait for a READ of a record that is larger than their own buffer
  std::size_t in_flight_ = 0;
  GenerationRead generation_read_;
  absl::Status failed_;  // why a report of reads could not be sent; Post returns it
};

}  // namespace remora
