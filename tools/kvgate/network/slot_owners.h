// The shards that have the slots, as the topology says, and operations whose slot has another shard.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_reader.h"
#include "store/base/clock.h"
#include "tools/kvgate/keys/helper_thread.h"
#include "tools/kvgate/network/inbox.h"

namespace remora::kvgate {

/// Knows the shard of each key. Where a server answers that a slot is another one's, and that it did nothing
/// (IsMoved of store/base/moved.h), the operations of the slot wait. A helper thread reads the topology anew,
/// the file or what the servers tell, and they go on. The shards stay (client/cluster/topology_reader.h).
///
/// Invariants:
///   M1: operations of a slot begin at a server in the order of their numbers, also when they begin again.
///       For that, those that wait begin once no other one of the slot is in flight.
///   M2: an operation begins again only after an answer that nothing was done.
///   M3: no operation begins again after the timeout, counted from its first such answer.
///
/// Thread safety: none. All calls are those of the inbox's thread.
class SlotOwners {
 public:
  /// One operation of a key, from before its first attempt until its result.
  struct Operation {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;  // in the order in which operations were made
    int moves = 0;             // answers that the slot is another server's
    TimePoint deadline{};      // since the first of them
    bool ends = false;         // it does not begin again
    std::coroutine_handle<> waiting{};
  };
  /// Awaits the turn of an operation. False: it does not begin any more.
  struct Turn {
    SlotOwners& owners;
    Operation& operation;

    bool await_ready() const { return !owners.MustWait(operation); }
    void await_suspend(std::coroutine_handle<> waiting) const { owners.Wait(operation, waiting); }
    bool await_resume() const { return !operation.ends; }
  };

  /// Takes the latest topology of a reader. Operations follow it if it has several shards, and can be read
  /// anew. `reader`, `inbox` and `clock` live longer.
  SlotOwners(TopologyReader& reader, std::chrono::milliseconds timeout, Inbox& inbox, const Clock& clock);
  /// REQUIRES: Stop was called if operations wait.
  ~SlotOwners();
  SlotOwners(const SlotOwners&) = delete;
  SlotOwners& operator=(const SlotOwners&) = delete;

  /// Returns the topology as it is now. Its shards stay.
  const Topology& topology() const { return topology_; }
  /// Returns how often another topology was taken. The addresses of servers may differ then.
  std::uint64_t adopted() const { return adopted_; }
  /// Has the topology read anew, because a server cannot be reached: its shard may have other members. Not
  /// for a file, and not more often than once a second.
  void NoteSilence();
  /// Returns the shard of a key, or of an operation's key, as it is now.
  std::size_t ShardOf(std::string_view key) const { return is_one_ ? 0 : topology_.ShardOf(key); }
  std::size_t ShardOf(const Operation& operation) const {
    return is_one_ ? 0 : topology_.ShardOfSlot(operation.slot);
  }

  Operation Make(std::string_view key);
  Turn TurnOf(Operation& operation) { return {*this, operation}; }
  /// Count the operations that are in flight.
  void Begin(const Operation& operation);
  void End(const Operation& operation);
  /// Takes the result of an operation that has ended. Returns true if its next turn is to be awaited.
  bool TriesAgain(const absl::Status& status, Operation* operation);

  /// Does all work that is due. Returns whether operations went on.
  bool Poll();
  /// Returns when Poll has work that no descriptor announces.
  std::optional<TimePoint> next_deadline() const;
  /// Returns whether the helper thread reads the topology. The inbox then gets work.
  bool is_reading() const { return is_reading_; }
  /// Ends all waits, and waits for the helper thread. Operations that wait do not begin any more. The inbox
  /// must then still be drained.
  void Stop();

 private:
  /// Operations of a slot that wait: for `due`, then for the topology, then for those in flight.
  struct Waits {
    enum class For : std::uint8_t { kPause, kFile, kRead, kTurn };

    For what = For::kPause;
    TimePoint due{};
    bool ends = false;  // the topology has other shards
    std::map<std::uint64_t, Operation*> operations{};
  };

  bool MustWait(const Operation& operation) const;
  void Wait(Operation& operation, std::coroutine_handle<> waiting);
  void BeginRead();
  void Take(const absl::StatusOr<Topology>& fresh);
  /// Replaces the topology. Slots that get another shard wait for operations in flight (M1).
  void Adopt(const Topology& fresh);
  /// Resumes the operations of a slot.
  void Release(std::uint32_t slot, TimePoint now);

  TopologyReader& source_;
  Topology topology_;
  std::uint64_t adopted_ = 0;
  TimePoint next_question_{};  // NoteSilence asks no earlier
  const bool is_one_;          // there is one shard
  const bool follows_;         // else no operation begins again
  const std::chrono::milliseconds timeout_;
  Inbox& inbox_;
  const Clock& clock_;
  std::uint64_t made_ = 0;
  std::vector<std::uint32_t> in_flight_;  // of each slot; empty: follows_ is false
  std::unordered_map<std::uint32_t, Waits> waits_;
  bool is_reading_ = false;
  bool is_stopping_ = false;
  std::unique_ptr<HelperThread> reader_;  // null: nothing was read yet
};

}  // namespace remora::kvgate
