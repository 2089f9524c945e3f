// The part of the server that gives slots away in a move (server/cluster/slot_moves.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/cluster/slot_copy.h"
#include "server/cluster/slot_division.h"
#include "server/cluster/slot_sender.h"
#include "server/monitoring/operator_log.h"
#include "store/base/clock.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/types/scan_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "store/slot_transfer.h"

namespace remora {

/// The objects that both parts of a server in moves use.
struct SlotMoveParts {
  ServerStore& store;
  SlotTransfer& transfer;
  SlotDivision& division;
  const OperatorLog& log;
  bool has_disk = false;                 // the store's records are on a disk
  const MovingMember* member = nullptr;  // null: the server has no replicas
};

/// A move that did not come to its end, for an operator.
struct FailedMove {
  std::uint64_t move = 0;  // its number; 0: there is none
  std::string what{};      // as "12 slots to shard 1"
  std::string why{};       // the fault, and what to do
  TimePoint at{};
};

/// Gives slots away, one move at a time. It has more than 15 fields, because a move has that much state.
///
/// Thread safety: none; the server's one thread.
class SlotSource {
 public:
  /// The source gives up if no command comes for so long: while it copies, and while the slots are closed.
  static constexpr std::chrono::seconds kCopyPatience{10};
  static constexpr std::chrono::seconds kClosedPatience{3};
  /// Most bytes of a copy. The destination reads it as a whole.
  static constexpr std::uint64_t kMaxCopyBytes = std::uint64_t{1} << 30;

  enum class State : std::uint8_t {
    kNone = 1,
    kCopying,
    kClosing,    // takes no writes of the slots any more
    kSealed,     // the copy has all
    kAsked,      // the swap failed, and the division cannot be read
    kReturning,  // the swap was not done: takes the records back
  };

  explicit SlotSource(const SlotMoveParts& parts) : parts_(parts) {}
  SlotSource(const SlotSource&) = delete;
  SlotSource& operator=(const SlotSource&) = delete;

  bool is_idle() const { return state_ == State::kNone; }
  /// The move in progress, or the last one that the division says was done.
  std::uint64_t move() const { return move_; }
  std::uint64_t given() const { return given_; }
  /// Returns the last move, if it was given up.
  const FailedMove& failed() const { return failed_; }
  /// Notes that a command has come.
  void Hear(TimePoint now) { heard_ = now; }
  /// Returns the state as the answer to "state".
  std::string Shown() const;

  /// Begins a move. `bytes_per_second`: 0 for no limit. Errors leave it idle. REQUIRES: is_idle().
  absl::Status Begin(std::uint64_t move, const ClusterSlots& slots, const ShardIdentity& to,
                     std::uint64_t bytes_per_second);
  /// Takes no more writes of the slots. FailedPrecondition: much is still to be copied.
  absl::Status Close();
  /// Swaps the division. OK: the slots are the destination's.
  ///   Aborted: another server swaps right now; nothing was done, and the caller asks again.
  ///   Others: the slots are this server's, as before; or nobody knows yet, and State tells later.
  absl::Status Give();
  /// Ends the move, if the swap has not begun.
  void GiveUp(const std::string& why);
  /// Drops the keys that are still to be deleted, because slots come to this server.
  void ForgetNoMore() { to_forget_.clear(); }

  bool Step(TimePoint now);
  std::optional<TimePoint> next_work() const;

 private:
  /// Begins to send the copy, if the server has replicas.
  absl::Status BeginToSend(const SlotCopyHeader& header);
  /// Returns whether the destination has nearly all that is copied.
  bool HasSent() const;
  absl::Status CopySome(TimePoint now);
  absl::Status OpenScan();
  /// Counts what was copied since the last call.
  void CountCopied();
  absl::Status CopyChanged(std::size_t most);
  absl::Status SealIfQuiet();
  absl::Status TakeOut();
  /// Reads the division after a swap that failed.
  absl::Status LearnOfSwap();
  void ReturnSome();
  /// `is_kept`: the disk keeps the division.
  void EndGiven(bool is_kept);
  void NoteFailed(const std::string& why);
  void End();
  bool ForgetSome();

  const SlotMoveParts parts_;
  State state_ = State::kNone;
  std::uint64_t move_ = 0;
  std::uint64_t given_ = 0;
  FailedMove failed_;
  std::string swap_fault_;  // of a swap that failed
  ClusterSlots slots_;
  ShardIdentity to_;
  std::string path_;  // of the copy
  std::unique_ptr<SlotCopyWriter> copy_;
  std::unique_ptr<SlotSender> sender_;                // of a server with replicas
  std::vector<std::unique_ptr<SlotSender>> senders_;  // that were stopped, and may not have ended yet
  std::uint64_t order_ = 0;                           // of the last move of a server with replicas
  std::uint64_t counted_entries_ = 0;                 // of the copy
  std::uint64_t counted_bytes_ = 0;
  std::unique_ptr<StoreScan> scan_;
  std::optional<ScanRange> rest_;  // keys that are to be scanned; nothing: none
  std::uint64_t bytes_per_second_ = 0;
  TimePoint begun_;
  TimePoint heard_;                     // the last command
  TimePoint next_;                      // when Step has work
  std::unique_ptr<SlotCopy> returned_;  // kReturning: its own copy
  std::vector<std::string> to_forget_;  // keys that it gave away, and has on the disk
};

}  // namespace remora
