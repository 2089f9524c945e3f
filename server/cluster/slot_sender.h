// The connection by which the primary of a shard sends a copy of slots to that of another shard
// (server/cluster/slot_moves.h has its commands). A thread of its own reads the copy while it is written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/unique_fd.h"
#include "server/cluster/kept_division.h"
#include "server/replication/follower_connection.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora {

/// A server with replicas, in moves (docs/decisions/0102-slots-of-replicated-shards.md).
struct MovingMember {
  struct State {
    std::uint64_t epoch = 0;      // in which it serves as a primary; 0: it does not
    std::uint64_t published = 0;  // the last group that all members in sync have
  };
  KeptDivision& division;
  FollowerAddress credentials;  // with which it connects to other shards; without an address
  std::function<State()> state;
};

/// Sends one copy. The class has more than 15 fields, because two threads tell each other of it.
///
/// Thread safety: one thread makes, uses and destroys it.
class SlotSender {
 public:
  struct Copy {
    std::string move;         // its number, as text
    std::string path;         // of the file
    std::string header;       // its first bytes
    std::uint64_t epoch = 0;  // of the sender's shard
    std::uint64_t order = 0;  // greater than that of each earlier move of this epoch
  };
  /// `to`: with the identity of the destination, and without an address. `addresses`: of its members.
  ///
  /// - InvalidArgument: these are no addresses. Unavailable: the file cannot be read. ResourceExhausted: the
  ///   system starts no thread.
  static absl::StatusOr<std::unique_ptr<SlotSender>> Start(FollowerAddress to, const std::string& addresses,
                                                           Copy copy);
  /// Ends the thread, which may take as long as a connection attempt.
  ~SlotSender();
  SlotSender(const SlotSender&) = delete;
  SlotSender& operator=(const SlotSender&) = delete;

  /// Tells the thread that the file has all of its bytes.
  void Seal() { is_sealed_.store(true, std::memory_order_release); }
  /// Tells the thread to end, without waiting for it. `cancels`: the destination is to drop the copy.
  void Stop(bool cancels);
  /// Returns whether the thread has ended, so that the destructor does not wait.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }

  /// Returns the bytes that the destination has.
  std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  /// Returns whether the destination has deleted what it had of the slots.
  bool is_prepared() const { return is_prepared_.load(std::memory_order_relaxed); }
  /// Returns the epoch in which the destination has confirmed; 0: it has not.
  std::uint64_t confirmed() const { return confirmed_.load(std::memory_order_acquire); }
  /// Returns why the copy cannot go on. OK: it can.
  absl::Status status() const;

 private:
  SlotSender(FollowerAddress to, Copy copy, rdma::UniqueFd file)
      : to_(std::move(to)), copy_(std::move(copy)), file_(std::move(file)) {}
  void Run(const std::vector<rdma::Address>& addresses);
  absl::Status Send(const std::vector<rdma::Address>& addresses);
  /// Finds the primary, which takes the move.
  absl::Status Connect(const std::vector<rdma::Address>& addresses);
  absl::Status SendFile();
  /// Waits until the state of the move there begins with this word, and returns what follows it.
  absl::StatusOr<std::string> Await(std::string_view state);
  /// Sends a command, and returns the text of its answer. FailedPrecondition: it is rejected.
  absl::StatusOr<std::string> Call(std::string_view command, std::string_view bytes = {});
  bool is_stopped() const { return is_stopped_.load(std::memory_order_acquire); }

  const FollowerAddress to_;
  const Copy copy_;
  const rdma::UniqueFd file_;
  const SteadyClock clock_;
  std::atomic<bool> is_sealed_ = false;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> cancels_ = false;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_prepared_ = false;
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint64_t> confirmed_ = 0;
  mutable Mutex mutex_;
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);

  // Only the thread uses these.
  std::unique_ptr<FollowerConnection> connection_;
  std::string address_;  // of it
  std::uint64_t last_request_ = 0;
  std::thread thread_;
};

}  // namespace remora
