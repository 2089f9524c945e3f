#include "server/event_loop.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/cluster/slot_moves.h"
#include "server/memory/memory_reserve.h"
#include "server/monitoring/log_events.h"
#include "server/request/request_decoder.h"
#include "store/base/clock.h"

namespace remora {
namespace {

// Before sleeping, so that the next request of a client that was answered does not wait for a wake-up: so
// many empty steps, each after so many polls for requests. A poll takes tens of nanoseconds, and a step some
// hundreds, in which nobody polls: less than 0.5 ms in all.
constexpr int kSpinSteps = 100;
constexpr int kPollsPerStep = 64;

// The longest sleep that new clients do not end.
constexpr std::chrono::milliseconds kBriefSleep(1);

// Steps that commit writes, between two runs of the tasks that can wait.
constexpr int kStepsPerTasks = 16;

/// Returns the timeout for poll.
int TimeoutMs(const std::optional<TimePoint>& until, TimePoint now) {
  if (!until) return -1;
  // Rounded up, so as not to wake too early and find nothing.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*until - now);
  return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 3'600'000));
}

absl::Status ShortOfMemoryError() {
  return absl::ResourceExhaustedError(
      "write: the system has no memory left for the server, which takes no writes now; see its log, and try "
      "again");
}

}  // namespace

EventLoop::EventLoop(const Parts& parts, bool has_durable_tier)
    : parts_(parts),
      reporter_(parts.store, parts.log, parts.notices.status, has_durable_tier),
      heartbeat_(parts.notices) {}

bool EventLoop::Step() { return Serve(TakeRequests()); }

bool EventLoop::Serve(bool busy) {
  // First: it may end writes, whose outcomes are then answered.
  if (parts_.replication != nullptr) busy |= parts_.replication->Step();
  if (parts_.signals.TakeSynced()) {
    parts_.writes.AnswerSynced();
    busy = true;
  }
  if (!held_.empty()) busy |= DispatchHeld();
  if (!parts_.rate_limiter.empty()) busy |= DispatchDelayed();
  // Writes first: a locate behind a write of the same client finds it.
  const bool committed = parts_.writes.Commit();
  if (parts_.moves != nullptr) busy |= parts_.moves->Step();
  busy |= parts_.unbatched.AnswerRead();
  busy |= parts_.unbatched.AnswerWaiting();
  if (committed) {
    // An answered client is about to ask again. So the rest is done when none does, or now and
    // then.
    parts_.store.PayMaintenanceDebt();
    if (++steps_since_tasks_ < kStepsPerTasks) return true;
  }
  steps_since_tasks_ = 0;
  busy |= RunPeriodicTasks();
  return committed || parts_.store.RunMaintenance() || busy;
}

bool EventLoop::RunPeriodicTasks() {
  Acceptor& acceptor = parts_.acceptor;
  bool busy = false;
  if (parts_.signals.TakeReload()) {
    if (parts_.on_reload) parts_.on_reload();
    if (!parts_.on_reload || acceptor.has_secrets()) acceptor.ReloadTokens();
  }
  busy |= acceptor.AcceptClients();
  busy |= parts_.reserves.AnswerDue();
  parts_.unbatched.ExpireScans();
  if (acceptor.next_probe()) acceptor.ProbeClients();
  if (parts_.rate_limited_log.next_summary()) parts_.rate_limited_log.FlushSummaries();
  if (!reporter_.ReportLoadProgress()) parts_.signals.Stop();  // for good: see Run
  if (IsShortOfMemory()) {
    const std::string_view news = CheckMemoryReserve(parts_.store.clock().Now());
    if (!news.empty()) {
      parts_.log.Write(IsShortOfMemory() ? LogEvent::kMemoryShort : LogEvent::kMemoryRecovered, news);
    }
    const bool is_shown = parts_.store.Read(Metric::kMemoryRejects) != 0;
    if (is_shown != IsShortOfMemory()) parts_.store.Add(Metric::kMemoryRejects, is_shown ? -1 : 1);
  }
  reporter_.ReportDiskStatus();
  if (heartbeat_.is_on()) heartbeat_.BeatIfDue(parts_.store.clock().Now());
  return busy;
}

// --- Requests come --------------------------------------------------------------------------------------

bool EventLoop::TakeRequests() {
  bool busy = false;
  for (Port& port : parts_.acceptor.ports()) busy |= TakeCompletions(*port.listener);
  return busy;
}

bool EventLoop::TakeCompletions(rdma::Listener& listener) {
  bool busy = false;
  std::int64_t received = 0;
  bool is_more = true;
  while (is_more && parts_.writes.HasSpaceFor(completions_.size())) {
    const std::size_t count = listener.Poll(completions_);
    if (count == 0) break;
    parts_.replies.ForgetTime();
    std::size_t requests = 0;
    for (const rdma::Completion& completion : std::span(completions_).first(count)) {
      if (completion.connection == nullptr) continue;  // dropped by an earlier completion of this very round
      auto* const session = static_cast<ClientSession*>(completion.connection->owner());
      if (session == nullptr) continue;  // it was not accepted
      if (completion.kind == rdma::CompletionKind::kSend && completion.ok) {
        session->TakeSendCompletion();  // nothing to be done for it
        continue;
      }
      ++requests;
      if (completion.kind == rdma::CompletionKind::kDisconnected) {
        parts_.acceptor.Drop(completion.connection, completion.connection->status());
      } else if (completion.ok) {  // else flushed; kDisconnected follows
        ++received;
        TakeRequest(*session, completion);
      }
    }
    busy |= requests > 0;
    // A request that came alone need not wait for another poll.
    is_more = requests > 1 || count == completions_.size();
  }
  // One by one, each would wait for what was stored before it.
  if (received > 0) parts_.store.Add(Metric::kReceiveCompletions, received);
  return busy;
}

inline void EventLoop::Dispatch(const PendingRequest& pending) {
  ClientSession& session = *pending.session;
  const Request& request = pending.request;
  if (NeedsWriter(request.operation)) {
    if (IsOfReplication(request.operation)) return TakeReplication(pending);
    if (IsWrite(request.operation) && Holds()) return held_.push_back(pending);
    if (const absl::Status may = CheckWriter(session, request.operation); !may.ok()) {
      return parts_.replies.Answer(pending, may);
    }
  }

  switch (request.operation) {
    case Operation::kPut:
    case Operation::kDelete:
    case Operation::kTouch:
    case Operation::kIncrement:
    case Operation::kAppend:
    case Operation::kBatch:
    case Operation::kMultiPut:
    case Operation::kFinishLargePut:
      if (!parts_.writes.Add(pending))
        parts_.unbatched.Add(pending);  // out of bounds: it answers with the error
      return;
    case Operation::kPing:
      if (request.condition == kAsksLease && parts_.replication != nullptr &&
          parts_.replication->has_lease()) {
        return parts_.replication->TakeLeaseRequest(pending);
      }
      [[fallthrough]];
    case Operation::kLocate:
    case Operation::kReserve:
    case Operation::kPart:
    case Operation::kScan:
    case Operation::kScanNext:
    case Operation::kQueryCompletion:
    case Operation::kBackup:
    case Operation::kSettings:
    case Operation::kLeaf:
    case Operation::kTopology:
      if (BeginsScan(request.operation) && parts_.moves != nullptr) parts_.moves->LookAtDivision();  // M6
      parts_.unbatched.Add(pending);
      return;
    case Operation::kMove:
      TakeMove(pending);
      return;
    case Operation::kFollow:
    case Operation::kReplicate:
    case Operation::kPromote:
    case Operation::kSupport:
    case Operation::kCopy:
      return;  // TakeReplication has taken it
  }
  parts_.store.Add(Metric::kRejectedRequests, 1);
  parts_.acceptor.Drop(&session.connection(),
                       absl::InvalidArgumentError("protocol error: unknown operation"));
}

absl::Status EventLoop::CheckWriter(const ClientSession& session, Operation operation) const {
  if (session.is_read_only()) {
    parts_.store.Add(Metric::kRequestsDenied, 1);
    return NeedsWriterError();
  }
  if (IsShortOfMemory()) return ShortOfMemoryError();
  const bool writes =
      operation != Operation::kBackup && operation != Operation::kSettings && operation != Operation::kMove;
  return writes && parts_.replication != nullptr ? parts_.replication->CheckWrite() : absl::OkStatus();
}

bool EventLoop::MayReplicate(const ClientSession& session) const {
  const TokenUse* const use = session.token_use();
  return use == nullptr ? !parts_.acceptor.asks_for_tokens() : use->token.role == Role::kReplication;
}

void EventLoop::TakeMove(const PendingRequest& pending) {
  if (parts_.moves != nullptr) {
    return parts_.moves->Take(pending, parts_.replies, MayReplicate(*pending.session));
  }
  parts_.replies.Answer(pending, absl::FailedPreconditionError(
                                     "move: this server is none of kvserver --shards, and its slots do not "
                                     "move; see its --slots"));
}

void EventLoop::TakeReplication(const PendingRequest& pending) {
  if (!MayReplicate(*pending.session)) {
    parts_.store.Add(Metric::kRequestsDenied, 1);
    return parts_.replies.Answer(
        pending, absl::UnauthenticatedError("replication: this needs a token with the role replication "
                                            "(kvctl create_token --role=replication)"));
  }
  if (parts_.replication != nullptr) return parts_.replication->Take(pending);
  parts_.replies.Answer(pending, absl::FailedPreconditionError(
                                     "replication: this server does not follow a primary; start it with "
                                     "--follow"));
}

void EventLoop::TakeRequest(ClientSession& session, const rdma::Completion& completion) {
  parts_.replies.CountRequest();
  PendingRequest pending{.session = &session, .request = {}, .client = session.client()};
  const Request& request = pending.request;
  if (const absl::Status taken = session.TakeRequest(completion, &pending.request); !taken.ok()) {
    parts_.store.Add(Metric::kRejectedRequests, 1);
    return parts_.acceptor.Drop(completion.connection, taken);
  }
  ClientEntry* const client = pending.client;
  if (client != nullptr && !client->TakeRequestIds(request.request_id, IdsOf(request))) {
    parts_.store.Add(Metric::kRejectedRequests, 1);
    return parts_.acceptor.Drop(completion.connection,
                                absl::InvalidArgumentError("protocol error: request IDs must increase"));
  }
  // Sizes are the client's words: it can have sent no more than that.
  session.activity()->Count(
      std::min<std::uint64_t>(std::uint64_t{request.key_size} + request.value_size, kMaxPayloadSize));
  if (request.read_count > 0) RecordReads(session, request);
  if (RateLimiter::Limits(session) && parts_.rate_limiter.Delays(pending)) return;
  Dispatch(pending);
}

// Behind writes that wait, others wait, too, so that those of a client stay in their order.
bool EventLoop::Holds() const {
  if (parts_.replication == nullptr || dispatches_held_) return false;
  return parts_.replication->holds_writes() || !held_.empty();
}

bool EventLoop::DispatchHeld() {
  if (parts_.replication->holds_writes()) return false;
  // One by one: Dispatch may drop a connection, and its requests with it.
  dispatches_held_ = true;
  while (!held_.empty()) {
    const PendingRequest pending = held_.front();
    held_.pop_front();
    if (pending.session != nullptr) Dispatch(pending);
  }
  dispatches_held_ = false;
  return true;
}

bool EventLoop::DispatchDelayed() {
  // Dispatch may drop a connection, and its requests with it: so first whose turn it is, then what comes of
  // it.
  const std::span<const PendingRequest> due = parts_.rate_limiter.TakeDue(WriteBatcher::kMaxRequests / 2);
  for (const PendingRequest& pending : due) {
    if (pending.session != nullptr) Dispatch(pending);
  }
  return !due.empty();
}

void EventLoop::RecordReads(const ClientSession& session, const Request& request) {
  ClientSession::Reads reads;
  const std::size_t count = session.TakeReads(request, &reads);
  for (std::size_t i = 0; i < count; ++i) parts_.store.NoteRead(reads[i]);
  parts_.store.Add(Metric::kReadsReported, static_cast<std::int64_t>(count));
}

// --- Nothing to do --------------------------------------------------------------------------------------

// Polling pays for a while after an answer, as the client may come again. It does not pay for a
// client that waits for an answer, which the disk may delay.
absl::Status EventLoop::Run() {
  int idle_steps = 0;
  while (!parts_.signals.stopped()) {
    bool came = TakeRequests();
    const bool pays = PollingPays();  // changes only when a request comes
    for (int polls = 0; !came && pays && ShouldSpin() && polls < kPollsPerStep; ++polls)
      came = TakeRequests();
    if (Serve(came)) {
      idle_steps = 0;
      continue;
    }
    const bool expects = parts_.replies.expected_requests() > 0;
    if (expects && pays && ++idle_steps < kSpinSteps) {
      if (parts_.yields) std::this_thread::yield();
      continue;
    }
    idle_steps = 0;
    parts_.replies.ExpectNone();
    const bool woken = expects && !pays && SleepBriefly();
    if (!woken) Sleep();
  }
  parts_.rate_limited_log.FlushAllSummaries();
  return parts_.store.load_status();
}

bool EventLoop::ShouldSpin() const {
  return parts_.replies.expected_requests() > 0 && !parts_.signals.has_synced();
}

bool EventLoop::PollingPays() const {
  return std::ranges::all_of(parts_.acceptor.ports(),
                             [](const Port& port) { return port.listener->PollingPays(); });
}

bool EventLoop::SleepBriefly() {
  if (parts_.acceptor.ports().size() != 1) return false;  // the clients of others could not end the sleep
  rdma::Listener& listener = *parts_.acceptor.ports().front().listener;
  if (!listener.ArmBriefly()) return false;
  const std::uint32_t news = parts_.signals.news();
  bool came = Step();  // as in Sleep
  if (!came) {
    Duration longest = kBriefSleep;
    if (const std::optional<TimePoint> next = NextWork())
      longest = std::min(longest, *next - parts_.store.clock().Now());
    came = longest > Duration::zero() && parts_.signals.SleepBriefly(listener, news, longest);
    if (came) parts_.store.Add(Metric::kWakeups, 1);
  }
  listener.Disarm();
  return came;
}

void EventLoop::Sleep() {
  for (Port& port : parts_.acceptor.ports()) port.listener->Arm();
  // Events before the arming are not signalled.
  if (!Step()) {
    fds_.clear();
    for (const Port& port : parts_.acceptor.ports()) fds_.push_back({port.listener->wait_fd(), POLLIN, 0});
    sleeps_until_ = NextWork();
    const int timeout_ms = TimeoutMs(sleeps_until_, parts_.store.clock().Now());
    parts_.handover.Give(*this);
    const bool woken = parts_.signals.Sleep(fds_, timeout_ms);
    parts_.handover.TakeBack();
    if (woken) parts_.store.Add(Metric::kWakeups, 1);
  }
  for (Port& port : parts_.acceptor.ports()) port.listener->Disarm();
}

void EventLoop::ServeForSleeper(rdma::Listener& listener) {
  parts_.store.Add(Metric::kTcpServed, 1);
  listener.Disarm();
  Serve(TakeCompletions(listener));
  listener.Arm();
  // As in Sleep, events before the arming are not signalled. The requests above may have left work, too.
  const bool is_busy = Serve(TakeCompletions(listener));
  parts_.replies.ExpectNone();
  const std::optional<TimePoint> next = NextWork();
  const bool sleeps_too_long = next && (!sleeps_until_ || *next < *sleeps_until_);
  if (is_busy || sleeps_too_long) parts_.signals.Wake();
}

std::optional<TimePoint> EventLoop::NextWork() const {
  // Postponed requests need another try, even if the store has no work.
  const bool has_postponed = !parts_.reserves.empty() || !parts_.writes.empty() ||
                             !parts_.unbatched.empty() ||
                             (parts_.replication != nullptr && parts_.replication->has_work());
  if (has_postponed) return parts_.store.clock().Now() + std::chrono::milliseconds(1);
  std::optional<TimePoint> next = parts_.store.next_maintenance();
  for (const auto& expiry :
       {parts_.reserves.next_expiry(), parts_.unbatched.next_expiry(), parts_.acceptor.next_probe(),
        parts_.rate_limited_log.next_summary(), parts_.rate_limiter.next_turn(), heartbeat_.next_beat()}) {
    if (expiry) next = next ? std::min(*next, *expiry) : *expiry;
  }
  if (parts_.replication != nullptr) {
    if (const std::optional<TimePoint> due = parts_.replication->next_work()) {
      next = next ? std::min(*next, *due) : *due;
    }
  }
  if (parts_.moves != nullptr) {
    if (const std::optional<TimePoint> due = parts_.moves->next_work()) {
      next = next ? std::min(*next, *due) : *due;
    }
  }
  if (reporter_.awaits_load()) {  // the end of a load wakes nobody
    const TimePoint look = parts_.store.clock().Now() + std::chrono::milliseconds(20);
    next = next ? std::min(*next, look) : look;
  }
  return next;
}

void EventLoop::Forget(ClientSession& session) {
  for (rdma::Completion& completion : completions_) {
    if (completion.connection == &session.connection()) completion.connection = nullptr;
  }
  for (PendingRequest& one : held_) one.Forget(session);
}

}  // namespace remora
