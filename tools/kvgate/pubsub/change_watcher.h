// Keyspace notifications and invalidations: messages for the changes of a server's keys, by any client.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/watch.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/pubsub/event_flags.h"
#include "tools/kvgate/pubsub/message_hub.h"
#include "tools/kvgate/tracking/tracking_table.h"

namespace remora::kvgate {

/// A thread that watches the server's changes while a client tracks keys, or while the flags ask for events
/// and the hub has a subscriber for them. If the server goes away, it connects again, and continues behind
/// the last change that it has shown. If the server no longer has the changes that follow, it says so on
/// standard error, and continues with the changes from then on. Clients that track then get an invalidation
/// of all keys. If the server shows no changes any more, as it was started without a log, clients that track
/// are disconnected.
///
/// Thread safety: all methods may be called from any thread.
class ChangeWatcher {
 public:
  /// Connects to the server with the clock.
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Client>>(const Clock& clock)>;

  /// `name`: of the server, for errors; empty: there is one alone. `cluster`: of the gate, which has the
  /// events of its keys alone; null: those of all keys. It, `hub` and `tracking` live longer.
  /// ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<ChangeWatcher>> Start(std::string name, Connect connect,
                                                              const RedisCluster* cluster, MessageHub& hub,
                                                              TrackingTable& tracking);
  /// Stops, and waits for the thread.
  ~ChangeWatcher();
  ChangeWatcher(const ChangeWatcher&) = delete;
  ChangeWatcher& operator=(const ChangeWatcher&) = delete;

  EventFlags flags() const;
  void SetFlags(EventFlags flags);
  /// Looks whether there is something to watch now. To be called after a subscription, or a client's
  /// tracking, began or ended.
  void Update();
  /// Waits until all changes from now on are shown, or none is wanted, up to `timeout`. Returns whether they
  /// are shown. If they are lost later, clients that track get an invalidation of all keys, or are
  /// disconnected.
  bool AwaitBegin(std::chrono::milliseconds timeout);
  /// Ends all waiting. Afterwards no message comes.
  void Stop();

 private:
  /// The machine's clock, on which calls of a client end once it is stopped.
  class StoppableClock final : public SteadyClock {
   public:
    void Stop() { is_stopped_ = true; }
    bool IsInterrupted() const override { return is_stopped_; }

   private:
    std::atomic<bool> is_stopped_{false};
  };

  ChangeWatcher(std::string name, Connect connect, const RedisCluster* cluster, MessageHub& hub,
                TrackingTable& tracking)
      : name_(std::move(name)),
        connect_(std::move(connect)),
        cluster_(cluster),
        hub_(hub),
        tracking_(tracking) {}

  /// A time in which changes are wanted. One that ends never goes on: the next one shows no change of before.
  using Period = std::uint64_t;

  void Run();
  /// Shows changes until the period is over.
  void WatchAll(Period period);
  /// Shows the changes behind *token, which it moves. Ends with OK if the period is over.
  absl::Status WatchOverOneConnection(Period period, std::string* token);
  void Show(EventFlags wanted, ChangeKind kind, std::string_view key) const;
  /// Invalidates all keys if the server was started anew, and the watch continues. A power cut may have taken
  /// back a write that a client has read, and that the watch has not shown.
  void NoteIncarnation(std::uint64_t incarnation);
  /// Disconnects the clients that track, as no invalidation would come.
  void DisconnectTracking();
  /// Says a reason for which there are no notifications now, once.
  void Complain(const absl::Status& status);
  void Say(absl::string_view what, const absl::Status& why) const;
  void Pause();
  bool IsWanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Ends the period if nothing is wanted now.
  void EndIfUnwanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the flags. Nullopt: the period is over.
  std::optional<EventFlags> FlagsIn(Period period) const;

  const std::string name_;
  const Connect connect_;
  const RedisCluster* const cluster_;
  MessageHub& hub_;
  TrackingTable& tracking_;
  StoppableClock clock_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  EventFlags flags_ ABSL_GUARDED_BY(mutex_);
  Period period_ ABSL_GUARDED_BY(mutex_) = 1;       // the current one, or the next
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;  // its watch
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string complaint_;          // of the thread alone: the last one, until the watch works
  std::uint64_t incarnation_ = 0;  // of the thread alone: of the server that it has watched
  std::thread thread_;
};

}  // namespace remora::kvgate
