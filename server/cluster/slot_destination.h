// The part of the server that takes slots in a move (server/cluster/slot_moves.h).
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/unique_fd.h"
#include "server/cluster/slot_copy.h"
#include "server/cluster/slot_source.h"
#include "store/base/clock.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Takes slots, one move at a time. It has more than 15 fields, because a move has that much state.
///
/// Thread safety: none; the server's one thread.
class SlotDestination {
 public:
  /// A move of which nothing was heard for so long may make way for another one.
  static constexpr std::chrono::seconds kPatience{10};

  enum class State : std::uint8_t {
    kNone = 1,
    kPreparing,  // deletes what it has of the slots
    kPrepared,
    kStaged,     // its log has the copy, and some of its members may lack it
    kConfirmed,  // has the whole copy, and keeps it
    kComing,     // the slots are its own: takes the records in
  };

  /// `confirmed`: a copy that it confirmed before its last start, or null.
  SlotDestination(const SlotMoveParts& parts, std::unique_ptr<SlotCopy> confirmed);
  SlotDestination(const SlotDestination&) = delete;
  SlotDestination& operator=(const SlotDestination&) = delete;

  bool is_idle() const { return state_ == State::kNone; }
  std::uint64_t move() const { return move_; }
  std::uint64_t taken() const { return taken_; }  // the last move whose slots it has
  void Hear(TimePoint now) { heard_ = now; }
  /// Returns whether the move in progress may make way for one of `from`: a confirmed one never does (M5).
  bool MayBeReplaced(const ShardIdentity& from, TimePoint now) const;
  /// Returns the last move, if it was given up here.
  const FailedMove& failed() const { return failed_; }
  bool is_confirmed() const { return state_ == State::kConfirmed; }
  const ShardIdentity& from() const { return from_; }
  std::string Shown() const;

  /// Begins a move, in place of one that makes way. Errors leave it idle.
  absl::Status Begin(std::uint64_t move, const ClusterSlots& slots, const ShardIdentity& from);
  /// Place of a move among those of its source, which has replicas. A greater one says that the source has
  /// ended the moves before.
  struct Order {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
    friend auto operator<=>(const Order&, const Order&) = default;
  };
  /// Begins a move of a source with replicas, as Begin. FailedPrecondition: also, the source has begun a
  /// later one, or a copy of another shard may still come for some of these slots.
  absl::Status BeginInOrder(std::uint64_t move, const ClusterSlots& slots, const ShardIdentity& from,
                            Order order);
  /// Appends bytes to the copy. FailedPrecondition: these do not follow. Unavailable: they cannot be written.
  absl::Status Append(std::uint64_t at, std::string_view bytes);

  /// Reads the copy, which is sealed, and keeps it. FailedPrecondition: it is not this move's, or the memory
  /// has no space for it. DataLoss: it is not whole. Unavailable: the disk fails.
  absl::Status Confirm();
  /// Serves the slots if the division says that they are its own. Returns whether it does.
  bool LookAtDivision();
  /// Drops the copy, unless the division says that the slots are its own.
  ///   Unavailable: the division cannot be read, so nobody knows.
  absl::Status Cancel();

  bool Step(TimePoint now);
  std::optional<TimePoint> next_work() const;

 private:
  absl::Status CheckSpace() const;
  absl::Status ReadCopy();
  /// Logs the copy, so that the members get it. REQUIRES: the server has replicas, as for the next one.
  absl::Status LogCopy();
  /// Confirms once all members have the copy. Returns false if some lack it.
  bool ConfirmIfPublished();
  void TakeIn();
  /// Ends the move. `why` it was given up; empty: the slots have come.
  void Drop(std::string why);

  const SlotMoveParts parts_;
  State state_ = State::kNone;
  std::uint64_t move_ = 0;
  std::uint64_t taken_ = 0;
  FailedMove failed_;
  ClusterSlots slots_;
  ShardIdentity from_;
  std::string path_;  // of the copy, without the suffix
  std::unique_ptr<SlotCopy> copy_;
  // These are used only at a server with replicas.
  rdma::UniqueFd file_;
  std::uint64_t bytes_ = 0;  // of the file
  std::uint64_t group_ =
      0;  // the last one with records of a copy; no earlier one is needed for the next move
  std::map<std::string, Order> orders_;           // the last of each source, in this epoch
  std::map<std::string, ClusterSlots> may_come_;  // by sources: of a copy that was confirmed in this epoch
  TimePoint heard_;
  TimePoint next_;
};

}  // namespace remora
