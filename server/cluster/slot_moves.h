// Moves of slots between this server and others of its host
// (docs/decisions/0098-moves-of-slots-on-one-host.md; the rules are those of tests/models/moves.pml). And
// between primaries of shards that fail over, whose division is in etcd
// (docs/decisions/0102-slots-of-replicated-shards.md; tests/models/shard_moves.pml).
//
// The commands of a move come in requests of Operation::kMove, as words of text. Their sender, kvctl, drives
// both servers from step to step. It may end at any moment, and each server then knows by itself how to go
// on. MOVE is a random number as 16 hexadecimal digits, SHARD the name of the other server.
//
//   to the source                       to the destination
//   begin MOVE SLOTS SHARD RATE                                    begins to copy
//                                       take MOVE SLOTS SHARD      deletes what it has of the slots
//   state MOVE                          state MOVE                 until "ready", and "prepared"
//   close MOVE                                                     takes no more writes of the slots
//   state MOVE                                                     until "sealed"
//                                       confirm MOVE               has read the copy, and keeps it
//   give MOVE                                                      takes the records out, and swaps
//                                       serve MOVE                 takes the records in, and serves
//   cancel MOVE                         cancel MOVE                before "give": all stays as it was
//
// With replicas, kvctl drives the source alone, which sends the copy over a connection
// (server/cluster/slot_sender.h):
//
//   begin MOVE SLOTS SHARD RATE         take MOVE EPOCH ORDER | header     EPOCH and ORDER: of the source
//   state MOVE     until "ready"        part MOVE AT | bytes               of the copy, from byte AT on
//   close MOVE
//   state MOVE     until "confirmed"    confirm MOVE                       logs the copy
//                                       state MOVE                         until "confirmed EPOCH"
//   give MOVE      until "given"        serve MOVE                         until "own"
//
// To both, for operators: "why MOVE" says why a move was given up there, or "unknown". "failures" says it of
// the last move as a source, and as a destination, a line each.
//
//   M1 A server has one move at a time, as source or as destination.
//   M2 The source gives up by itself if no command comes for a while: but not once it has begun to swap.
//   M3 The source swaps once it has sealed: no write of the slots is pending, and none comes any more.
//   M4 If the swap fails, the source reads the division, and does what that says. Until it can be read, the
//      slots have no server.
//   M5 The destination keeps a copy that it has confirmed, also over a start. It ends when the division says
//      that the slots are its own, or it is told to cancel this move. No "take" ends it, also not one of the
//      same source: such a message may be older than the copy, for kvctl may stop between two steps. The
//      answer is "confirmed" with the number of the copy's move, and its source. The sender asks that source,
//      and cancels the move once that has ended there without a swap. A number comes once, so that is final.
//   M6 The destination looks at the division by itself while it has confirmed, and before each scan begins.
//   M7 The destination removes the file of the copy, on the disk, before it answers the first request.
//
// With replicas, M5 and M7 are these instead:
//   M8  The destination confirms once all members in sync have the copy, in their logs. It tells its epoch.
//   M9  A copy counts in the epoch of the destination alone in which it was confirmed. A later epoch begins
//   with
//       the slots of the division, and shows nothing of other slots.
//   M10 A move that the source has begun later replaces an earlier one of this source, and never the other
//   way
//       round. So nothing is deleted that a swap may still give.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cluster/slot_copy.h"
#include "server/cluster/slot_destination.h"
#include "server/cluster/slot_division.h"
#include "server/cluster/slot_sender.h"
#include "server/cluster/slot_source.h"
#include "server/monitoring/operator_log.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/base/clock.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/server_store.h"
#include "store/slot_transfer.h"

namespace remora {

/// The slots of a server, as it knows them before its store is open.
struct SlotsAtStart {
  ClusterSlots own;                     // those that it serves from the start on
  ClusterSlots division;                // those that the division gives it
  std::unique_ptr<SlotCopy> confirmed;  // a copy that it has confirmed (M5); null: none
};
/// Reads the division, and removes copies that were not confirmed. Errors are those of SlotDivision::Own and
/// ReadSlotCopy, and FailedPrecondition: there are two confirmed copies.
absl::StatusOr<SlotsAtStart> ReadSlotsAtStart(SlotDivision& division);

/// Does the moves of a server.
///
/// Thread safety: none; the server's one thread.
class SlotMoves {
 public:
  /// All arguments outlive it. `has_disk`: of the store.
  SlotMoves(ServerStore& store, SlotDivision& division, const OperatorLog& log, bool has_disk,
            SlotsAtStart start);
  /// Makes one for a server with replicas. Removes copies of an earlier process.
  SlotMoves(ServerStore& store, const OperatorLog& log, MovingMember member);
  SlotMoves(const SlotMoves&) = delete;
  SlotMoves& operator=(const SlotMoves&) = delete;

  /// Answers a request of Operation::kMove.
  /// `may_replicate`: the client may do what another shard does.
  void Take(const PendingRequest& pending, ReplySender& replies, bool may_replicate);
  /// Does a command, and returns the text of its answer: the state, or "ok".
  ///   InvalidArgument: it is no command.
  ///   Unavailable: another move is in progress; or the system fails.
  ///   FailedPrecondition: the move is none of this server, or cannot be.
  absl::StatusOr<std::string> Do(std::string_view command, bool may_replicate = true);

  /// Does a bounded step of the move in progress. Returns false if there was nothing to do.
  bool Step();
  /// Returns when Step has work; nothing: no move is in progress.
  std::optional<TimePoint> next_work() const;
  /// Serves the slots of a confirmed copy, if the division says so by now (M6).
  void LookAtDivision() {
    destination_.LookAtDivision();
    ShowMetric();
  }
  /// Returns OK if the division gives this server the slots that it gave before the store was opened. Then
  /// no server before this one has given any away meanwhile.
  ///   Aborted: it gives others; the server is to start anew.
  absl::Status CheckStart();

 private:
  using Words = std::vector<std::string_view>;
  absl::StatusOr<std::string> DoCommand(std::string_view command, bool may_replicate);
  void ShowMetric();
  absl::StatusOr<std::string> Begin(std::uint64_t move, const Words& words);
  absl::StatusOr<std::string> TakeSlots(std::uint64_t move, const Words& words);
  /// Does a command of another shard, with the bytes behind it.
  absl::StatusOr<std::string> DoOfShard(std::uint64_t move, const Words& words, std::string_view bytes);
  absl::StatusOr<std::string> DoOfSource(std::string_view command);
  std::string Why(std::uint64_t move) const;
  std::string Failures() const;
  absl::StatusOr<std::string> DoOfDestination(std::string_view command);

  ServerStore& store_;
  const std::optional<MovingMember> member_;  // nothing: it has no replicas
  SlotDivision& division_;
  const ClusterSlots division_at_start_;
  const std::unique_ptr<SlotTransfer> giving_;
  const std::unique_ptr<SlotTransfer> taking_;
  SlotSource source_;
  SlotDestination destination_;
  int shown_ = 0;  // moves, as the metric has them
};

}  // namespace remora
