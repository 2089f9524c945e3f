// The division in etcd, as a member of a shard has it. Its keeper reads and swaps it. The server thread gives
// slots away, and takes them (server/cluster/slot_moves.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cluster/division_swap.h"
#include "server/cluster/slot_division.h"
#include "store/base/mutex.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// A mailbox. The server thread asks for one swap at a time, and sees what became of it in Own.
///
/// Thread safety: the server thread calls the functions of SlotDivision and Expect, the keeper the others.
class KeptDivision final : public SlotDivision {
 public:
  /// `data_dir`: of the member. Copies are files there.
  KeptDivision(const ShardIdentity& self, std::string data_dir)
      : self_(self), data_dir_(std::move(data_dir)) {}

  // --- The server thread

  const ShardIdentity& self() const override { return self_; }
  absl::StatusOr<ShardIdentity> Find(std::string_view shard) override;
  /// Unavailable: the keeper has not read it in this epoch, or a swap is in progress.
  absl::StatusOr<ClusterSlots> Own() override;
  absl::Status Prepare(const ClusterSlots& slots, const ShardIdentity& to) override;
  /// Asks the keeper to swap. Returns Unavailable; Own tells what became of it.
  absl::Status Swap() override;
  void GiveUp() override;
  std::string CopyPrefix(const ShardIdentity& to) const override;
  /// Says in which epoch the destination of the next swap has confirmed, and the number of the move.
  void SetConfirmed(std::uint64_t move, std::uint64_t epoch);
  /// Says which slots may come, as their copy is confirmed (K23 of server/cluster/keeper.h); nothing: none.
  /// Also has the keeper look at etcd more often.
  void Expect(std::optional<ClusterSlots> slots);
  /// Returns why the last swap was not done.
  std::string swap_fault() const;
  /// Returns the addresses of a shard's members, as the keeper has read them; empty: it has not.
  std::string AddressesOf(std::string_view shard) const;

  // --- The keeper

  /// Sets what is known in this epoch: the slots of this shard, and the addresses of all shards.
  void Show(const ClusterSlots& own, std::map<std::string, std::string> addresses);
  /// Returns the swap that the server thread asks for.
  std::optional<WantedSwap> wanted() const;
  /// Says that the swap has ended, with these slots. `fault`: why it was not done; empty: it was.
  void EndSwap(const ClusterSlots& own, std::string fault);
  /// Returns the slots that may come.
  ClusterSlots expected() const;
  /// Has `wake` called when a move begins to wait for etcd; null: nobody is called any more.
  void set_wake(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
  }
  /// Returns whether a move waits for etcd.
  bool hurries() const { return hurries_.load(std::memory_order_relaxed); }

 private:
  void NoteHurry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    hurries_ = wanted_.has_value() || expected_.has_value();
    if (hurries_ && wake_) wake_();
  }

  const ShardIdentity self_;
  const std::string data_dir_;
  std::atomic<bool> hurries_ = false;
  mutable Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::optional<ClusterSlots> own_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> addresses_ ABSL_GUARDED_BY(mutex_);  // by names of shards
  WantedSwap prepared_ ABSL_GUARDED_BY(mutex_);
  std::string swap_fault_ ABSL_GUARDED_BY(mutex_);
  std::optional<WantedSwap> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<ClusterSlots> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
