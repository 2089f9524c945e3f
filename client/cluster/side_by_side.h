// Operations of several shards in flight at the same time, for a call that waits for all of them.
#pragma once

#include <cstddef>
#include <span>

#include "absl/functional/function_ref.h"
#include "client/async_client.h"
#include "rdma/adaptive_poll.h"

namespace remora {

/// The operations of one shard.
struct ShardLane {
  AsyncClient* client = nullptr;
  std::size_t shard = 0;  // the caller's number
  std::size_t count = 0;  // of operations
  std::size_t begun = 0;  // of those, the ones that were begun
};

/// Drives the lanes of a call.
///
/// Thread safety: none.
class SideBySide {
 public:
  /// Begins an operation of a lane, whose number counts from 0. The callee keeps the outcome.
  using Begin = absl::FunctionRef<void(const ShardLane& lane, std::size_t number)>;

  /// Begins all operations of the lanes, each lane's in their order, and returns when all have ended. The
  /// clients keep up to AsyncOptions::depth of them in flight. Sleeps while nothing happens. Returns false if
  /// the caller interrupts the call (Clock::IsInterrupted); then some may be in flight. REQUIRES: no other
  /// operations of these clients are in flight, and none makes another connection.
  bool Run(std::span<ShardLane> lanes, Begin begin);

 private:
  static std::size_t PollAll(std::span<const ShardLane> lanes);
  /// Waits until an operation has ended, or a client may have work to do.
  void Wait(std::span<const ShardLane> lanes);

  rdma::AdaptivePoller poller_;
};

}  // namespace remora
