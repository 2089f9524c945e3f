// The work of the server thread, in steps:
//
//   Step:  take requests of all connections
//          commit their writes as one group (store.h): copy, verify, make durable, publish, reply
//          answer pings, locate records, reserve space for large values, go on with scans, reply
//          (threads of --read_threads read records that are only on disk: locate_service.h)
//          behind the replies: the store's maintenance, as much as the writes have caused
//          every 16 steps, and in idle steps: other maintenance, new clients, clients that have gone
//
// One thread does all of it, the server thread. While that sleeps, a thread of a transport may do a step
// (server/loop_handover.h). GETs are not among the work: clients READ the memory.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "rdma/transport.h"
#include "server/connection/acceptor.h"
#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/loop_handover.h"
#include "server/monitoring/operator_log.h"
#include "server/monitoring/rate_limited_log.h"
#include "server/monitoring/service_notices.h"
#include "server/monitoring/status_reporter.h"
#include "server/replication/replication_service.h"
#include "server/request/pending_request.h"
#include "server/request/rate_limiter.h"
#include "server/request/reply_sender.h"
#include "server/request/reserve_queue.h"
#include "server/request/unbatched_requests.h"
#include "server/request/write_batcher.h"
#include "server/wake_signals.h"
#include "store/server_store.h"

namespace remora {

class SlotMoves;

/// Distributes the requests of all sessions to the parts of the server, step by step.
///
/// Thread safety: none. One thread at a time uses it: the server thread, or one to which LoopHandover gives
/// it.
class EventLoop final : public SessionObserver, public LoopHandover::Loop {
 public:
  /// The parts of the server among which it shares out the work. All outlive it.
  struct Parts {
    ServerStore& store;
    WakeSignals& signals;
    Acceptor& acceptor;
    RateLimiter& rate_limiter;
    WriteBatcher& writes;
    UnbatchedRequests& unbatched;
    ReserveQueue& reserves;
    ReplySender& replies;
    LoopHandover& handover;
    ReplicationService* replication;  // null: there is none
    SlotMoves* moves;                 // null: the slots do not move
    RateLimitedLog& rate_limited_log;
    const OperatorLog& log;
    const std::function<void()>& on_reload;
    const ServiceNotices& notices;  // while the constructor runs
    bool yields;                    // ServerOptions::yields_between_polls
  };

  EventLoop(const Parts& parts, bool has_durable_tier);

  /// Does the work of Server::Step.
  bool Step();
  /// Does the work of Server::Run.
  absl::Status Run();

  void Forget(ClientSession& session) override;
  void ServeForSleeper(rdma::Listener& listener) override;

 private:
  /// Does the work of Step behind TakeRequests. `busy`: the result of that.
  bool Serve(bool busy);
  /// Does maintenance, and accepts and drops clients. Returns false if there was nothing to do.
  bool RunPeriodicTasks();
  /// Takes requests to the parts that answer them. Returns false if there were none.
  bool TakeRequests();
  bool TakeCompletions(rdma::Listener& listener);
  void TakeRequest(ClientSession& session, const rdma::Completion& completion);
  /// Takes a request to the part that answers it.
  [[gnu::always_inline]] void Dispatch(const PendingRequest& pending);
  /// Returns whether a client may replicate.
  bool MayReplicate(const ClientSession& session) const;
  /// Take a request of a move of slots, and one of replication.
  void TakeMove(const PendingRequest& pending);
  void TakeReplication(const PendingRequest& pending);
  /// Returns why a request that changes data is not taken now. OK: it is.
  absl::Status CheckWriter(const ClientSession& session, Operation operation) const;
  /// Returns whether a write waits.
  bool Holds() const;
  /// Dispatches the writes that waited for a member to take over, if they do not any more. Returns false if
  /// there were none.
  bool DispatchHeld();
  /// Dispatches the requests whose turn has come. Returns false if there were none.
  bool DispatchDelayed();
  void RecordReads(const ClientSession& session, const Request& request);
  /// Returns whether to poll before other work, because an answered client will soon send its next request,
  /// and no fsync has ended.
  bool ShouldSpin() const;
  /// Returns false if a client that was answered shares this thread's CPU. Such a client can send its next
  /// request only while this thread sleeps.
  bool PollingPays() const;
  /// Sleeps for a moment in a cheaper way, if the transport has one: behind an answer, the next request
  /// mostly comes soon. Returns false if nothing came.
  bool SleepBriefly();
  void Sleep();
  /// Returns when there is work again. Nothing: with the next request.
  std::optional<TimePoint> NextWork() const;

  const Parts parts_;
  StatusReporter reporter_;
  Heartbeat heartbeat_;
  std::array<rdma::Completion, 64> completions_;
  std::vector<pollfd> fds_;          // Sleep
  std::deque<PendingRequest> held_;  // writes, while ReplicationService::holds_writes
  bool dispatches_held_ = false;
  int steps_since_tasks_ = 0;              // RunPeriodicTasks
  std::optional<TimePoint> sleeps_until_;  // Sleep; nothing: until a request comes
};

}  // namespace remora
