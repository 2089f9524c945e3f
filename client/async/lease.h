// The operations of an AsyncClient whose results do not count yet (Q7 of store/format/memory/lease_line.h).
//
// While a lease lasts, results pass by here. A while before its end, and when there is none, the client takes
// another one: by a look at the lease line where READs are copies, else by a request.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/async/connection.h"
#include "client/async/operation.h"
#include "client/rpc/request_channel.h"
#include "store/base/clock.h"

namespace remora {

/// Operations that have a result and wait for a lease.
///
/// Thread safety: none.
class AsyncLease {
 public:
  explicit AsyncLease(AsyncConnection& connection) : connection_(connection) {}

  /// Returns whether the operation, whose result has come, must wait. Then it is kept until TakeConfirmed.
  /// REQUIRES: it is in no list.
  bool Delays(AsyncOperation& operation);
  /// Returns whether the operation waits here.
  bool HasKept(const AsyncOperation& operation) const { return operation.list == &kept_; }

  /// Takes a lease, or asks for one, if that is due. Returns whether it did something. An error is that of
  /// the connection, or Unavailable: the server does not show that it is still the primary.
  absl::StatusOr<bool> Drive();
  /// Takes the reply to the request.
  absl::Status TakeAnswer(const ServerReply& answer);
  /// Removes and returns an operation whose result counts; null: there is none.
  AsyncOperation* TakeConfirmed();
  /// Removes and returns a message that waits; null: there is none. Its result will never count, because the
  /// connection has ended.
  AsyncOperation* TakeLostMessage();
  /// Asks for nothing more, because the connection has ended.
  void Reset() { is_due_ = false; }
  /// Returns when Drive has work because of the time. TimePoint::max(): it has none.
  TimePoint next() const;

 private:
  AsyncConnection& connection_;
  OperationList kept_;  // by the times at which their results came
  bool is_due_ = false;
};

}  // namespace remora
