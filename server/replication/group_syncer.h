// The thread of a follower that waits for the disk, so that the server thread does not.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"

namespace remora {

/// Syncs the groups of a follower, several with one fsync.
///
/// Thread safety: one thread calls all members.
class GroupSyncer {
 public:
  /// Waits for the disk, like ServerStore::SyncGroups.
  using SyncFunction = std::function<absl::StatusOr<std::uint64_t>()>;

  /// `on_done` is called in its thread behind each sync. ResourceExhausted: the system starts no thread.
  static absl::StatusOr<std::unique_ptr<GroupSyncer>> Start(SyncFunction sync, std::function<void()> on_done);
  ~GroupSyncer();
  GroupSyncer(const GroupSyncer&) = delete;
  GroupSyncer& operator=(const GroupSyncer&) = delete;

  /// Begins a sync of what was applied before; behind the one that runs, if one does.
  void Begin();
  /// Returns the result of the last sync that has ended; 0 before the first.
  absl::StatusOr<std::uint64_t> synced() const;

 private:
  GroupSyncer(SyncFunction sync, std::function<void()> on_done)
      : sync_(std::move(sync)), on_done_(std::move(on_done)) {}
  void Run();

  const SyncFunction sync_;
  const std::function<void()> on_done_;
  mutable Mutex mutex_;
  std::condition_variable wanted_;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::uint64_t> synced_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace remora
