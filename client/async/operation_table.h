// The operations of an AsyncClient, from their start to their callback.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/async/connection.h"
#include "client/async/lease.h"
#include "client/async/operation.h"
#include "client/async_client.h"
#include "client/registered_buffer.h"
#include "client/rpc/request_channel.h"
#include "store/base/clock.h"

namespace remora {

/// A place for each operation, the places that are free, and the operations that have ended.
///
/// When the client calls a callback, registered memory (RegisteredBytes) belongs to the caller again. So an
/// operation may have to end while the device can still access that memory: by a READ, or by a WRITE whose
/// SEND or fence is not complete. Such an operation is in no list until the device has completed its work.
///
/// Thread safety: none.
class OperationTable {
 public:
  explicit OperationTable(AsyncConnection& connection) : connection_(connection), lease_(connection) {}
  /// Makes the places. Call it before all others.
  void Resize(std::size_t depth);

  AsyncLease& lease() { return lease_; }
  const AsyncLease& lease() const { return lease_; }
  AsyncOperation& operator[](std::size_t index) { return operations_[index]; }
  std::span<AsyncOperation> all() { return operations_; }
  /// Returns the operation that has this ID and has not ended; null: there is none.
  AsyncOperation* Find(AsyncClient::OperationId id);
  std::size_t in_flight() const { return in_flight_; }
  std::size_t free_slots() const { return free_.size(); }

  /// Takes a place for an operation, which is in no list yet. `done` is moved only if there is one.
  /// ResourceExhausted: no place is free.
  absl::StatusOr<AsyncOperation*> Begin(AsyncOperation::Kind kind, AsyncClient::Done&& done,
                                        const CallOptions& call, const RegisteredBytes* memory);
  /// Ends the operation: its callback is due, once, as soon as the device no longer accesses the caller's
  /// memory. REQUIRES: nothing asks for the outcome of the operation any more (LostWrites::Drop).
  void End(AsyncOperation& operation, absl::Status status);
  /// Ends a message with its reply, perhaps later: a rejection waits for a lease.
  void EndMessage(AsyncOperation& operation, const ServerReply& answer);
  /// Makes the callback due if the operation has ended and the device no longer accesses the caller's memory.
  void EndIfMemoryIsFree(AsyncOperation& operation);
  /// Makes the callbacks due of all operations that waited for the device. REQUIRES: the connection has
  /// ended.
  void EndAllThatWaitForMemory();
  bool has_ended() const { return !ended_.empty(); }
  /// Removes and returns an operation whose callback is due; it loses its ID. REQUIRES: has_ended.
  AsyncOperation& TakeEnded() {
    AsyncOperation& operation = ended_.Pop();
    operation.id = 0;
    --in_flight_;
    return operation;
  }
  /// Frees the place. REQUIRES: the device accesses none of its buffers.
  void Free(AsyncOperation& operation) { free_.push_back(operation.index); }

  /// Restarts the operation's deadline.
  void Progress(AsyncOperation& operation);
  /// Returns a lower bound of all deadlines.
  TimePoint earliest_deadline() const { return earliest_; }
  /// Returns the latest deadline of an operation that has not ended.
  TimePoint LatestDeadline() const;
  /// Calls `each` for all operations whose deadline has passed. Returns whether there was one.
  template <typename Each>
  bool ForEachOverdue(const Each& each);

 private:
  /// Counts an operation that has ended. REQUIRES: the session has a recorder.
  void Record(const AsyncOperation& operation) const;
  bool IsAtMemory(const AsyncOperation& operation) const;

  AsyncConnection& connection_;
  AsyncLease lease_;
  std::vector<AsyncOperation> operations_;  // never moved
  std::vector<std::uint32_t> free_;
  std::uint64_t last_serial_ = 0;
  std::size_t in_flight_ = 0;
  OperationList ended_;                    // wait for their callback
  TimePoint earliest_ = TimePoint::max();  // lower bound of all deadlines
};

template <typename Each>
bool OperationTable::ForEachOverdue(const Each& each) {
  if (connection_.session().clock().Now() < earliest_) return false;
  const TimePoint now = connection_.session().clock().Now();
  earliest_ = TimePoint::max();
  bool any = false;
  for (AsyncOperation& operation : operations_) {
    if (operation.id == 0 || operation.ended) continue;
    if (operation.deadline <= now) {
      each(operation);
      any = true;
    } else {
      earliest_ = std::min(earliest_, operation.deadline);
    }
  }
  return any;
}

}  // namespace remora
