// Poll of an AsyncClient. Its stages: it sends messages and posts READs, takes completions, calls callbacks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "client/async/engine.h"
#include "client/misuse.h"
#include "client/put/put.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/wire/multi_put.h"

namespace remora {
namespace {

// Reads the clock after this many polls, in case that completions never cease.
constexpr std::uint32_t kPollsPerClock = 64;

// Most rounds of one Poll without an operation that ends. Lookups whose READs complete too late to be trusted
// begin anew in another round, perhaps again and again, so that a Poll always has work. Their deadlines end
// them, and Poll checks deadlines after the rounds.
constexpr int kMostRounds = 64;

/// Names this thread as the one that polls while it exists, also if a callback throws.
class WhilePolling {
 public:
  explicit WhilePolling(std::thread::id* poller) : poller_(*poller) { poller_ = std::this_thread::get_id(); }
  ~WhilePolling() { poller_ = std::thread::id(); }
  WhilePolling(const WhilePolling&) = delete;
  WhilePolling& operator=(const WhilePolling&) = delete;

 private:
  std::thread::id& poller_;
};

constexpr char kNothingEnded[] = "no operation ended in time";

}  // namespace

void AsyncClient::Core::CheckNotInPoll(const char* mistake) const {
  if (poller_ == std::thread::id()) return;
  if (poller_ == std::this_thread::get_id()) EndOnMisuse(mistake);
  EndOnMisuse(
      "an AsyncClient is used by two threads at once, which it is not made for; give each thread a client of "
      "its own, or have them take turns");
}

std::size_t AsyncClient::Core::Poll() {
  CheckNotInPoll("a callback polls its own AsyncClient; return, and the call that is under way goes on");
  if (session_->is_forked()) return 0;
  const WhilePolling polling(&poller_);
  // The bound returns to the caller even if callbacks begin one operation after the other.
  const std::size_t most = operations_.size();
  std::size_t ended = 0;
  // The loop polls at least once, to notice the connection's end.
  bool busy = broken_.ok() ? TakeCompletions() : TryToReconnect();
  int rounds = 0;
  do {
    busy |= SendMessages();
    busy |= PostReads();
    if (broken_.ok() && (reads_in_flight_ > 0 || !channel_.empty())) busy |= TakeCompletions();
    ended += Deliver(most - ended);
    has_more_ = ended == most || ++rounds == kMostRounds;
    if (has_more_) {
      waker_.Signal();  // for the work that is left
      break;
    }
  } while (std::exchange(busy, false));
  if (ended == 0 || ++polls_ % kPollsPerClock == 0) {
    if (EndOverdue()) ended += Deliver(most);
  }
  if (ended > 0) SendMessages();  // operations that the last callbacks have begun
  return ended;
}

// --- What waits -----------------------------------------------------------------------------------------

bool AsyncClient::Core::SendMessages() {
  bool any = DriveLargePut();
  if (lost_writes_.undone_count > 0 && lost_writes_.undone_count == lost_writes_.count) SettleUndone();
  while (OperationList* const list = NextToSend()) {
    AsyncOperation& operation = list->front();
    if (list == &writers_ && operation.lost_id == 0 && operation.is_large_put()) {
      writers_.Pop();
      BeginLargePut(operation);
      any = true;
      continue;
    }
    const absl::StatusOr<std::size_t> sent = SendFirst(*list);
    if (!sent.ok()) {
      Break(sent.status());
      return true;
    }
    if (*sent == 0) break;
    for (std::size_t i = 0; i < *sent; ++i) list->Pop();
    asked_last_ = list == &askers_;
    any = true;
  }
  return any;
}

OperationList* AsyncClient::Core::NextToSend() {
  if (!broken_.ok()) return nullptr;
  bool may_write = !writers_.empty();
  // Messages that were sent earlier keep their place in the order.
  if (may_write && writers_.front().lost_id == 0) {
    may_write = lost_writes_.count == 0 && !large_.is_in_front() &&
                !(writers_.front().is_large_put() && large_.step != LargePut::Step::kNone);
  }
  if (may_write && (askers_.empty() || asked_last_)) return &writers_;
  return askers_.empty() ? nullptr : &askers_;
}

bool AsyncClient::Core::IsToShare(const AsyncOperation& operation, const RequestSpec& asked) const {
  if (!operation.is_listable()) return false;
  // With no message in flight and no other put likely to begin, the put would wait in vain.
  if (channel_.empty() && ended_.empty()) return false;
  return MultiPutEntrySize(asked.key, asked.value) <= kMaxMultiPutBytes / 2;
}

absl::StatusOr<std::size_t> AsyncClient::Core::SendFirst(const OperationList& waiting) {
  RequestChannel::List list(channel_.MostListed());
  for (const AsyncOperation* one = &waiting.front(); one != nullptr && one->is_listable();
       one = one->behind) {
    if (!list.Add(one->key, one->value, one->options, one->index)) break;
  }
  const bool is_list = list.size() > 1;
  REMORA_ASSIGN_OR_RETURN(const bool sent, is_list
                                               ? channel_.SendList(list, RequestChannel::Listing::kWithIds)
                                               : Send(waiting.front()));
  return !sent ? 0 : is_list ? list.size() : 1;
}

absl::StatusOr<bool> AsyncClient::Core::Send(AsyncOperation& operation) {
  if (operation.lost_id != 0) {
    const absl::StatusOr<bool> asked = channel_.Send(
        {.operation = Operation::kQueryCompletion, .about = operation.lost_id}, operation.index);
    if (asked.value_or(false)) ++session_->counters().completion_queries;
    return asked;
  }
  if (operation.kind == AsyncOperation::Kind::kMessage) {
    RequestSpec asked{operation.message,
                      operation.key,
                      operation.key_hash,
                      operation.value_to_put(),
                      operation.options,
                      0,
                      {}};
    if (operation.memory) asked.local_key = MemoryOf(operation)->local_key;
    return channel_.Send(asked, operation.index);
  }
  operation.lookup.Asked();
  return channel_.Send(
      {.operation = Operation::kLocate, .key = operation.key, .key_hash = operation.lookup.key_hash()},
      operation.index);
}

bool AsyncClient::Core::PostReads() {
  bool any = false;
  while (broken_.ok() && !readers_.empty() && reads_in_flight_ < kMostReads) {
    AsyncOperation& operation = readers_.Pop();
    if (operation.lookup.is_look()) {
      operation.lookup.Look(buffers_.record(operation.index));
      Advance(operation);
      any = true;
      continue;
    }
    if (!PrepareRead(operation)) {
      large_readers_.Push(operation);
      continue;
    }
    operation.lookup.Posted();
    any = true;
    if (!operation.lookup.is_chunk() &&
        session_->region().ReadNow(operation.bytes, operation.lookup.offset())) {
      operation.lookup.Take(operation.bytes);
      Advance(operation);
      continue;
    }
    SgeList into;
    if (!operation.bytes.empty()) into.Add(buffers_.SgeOf(operation.bytes));
    into.Add(operation.lookup.direct());
    const absl::Status posted =
        operation.lookup.is_bucket() && session_->region().finds()
            ? PostFind(operation)
            : session_->region().Post(operation.index, into.entries(), operation.lookup.offset());
    operation.read_in_flight = posted.ok();
    if (!posted.ok()) {
      Break(posted);
      return true;
    }
    ++reads_in_flight_;
  }
  return any;
}

/// READs the bucket, and the record to which it leads, if the operation's buffer holds that.
absl::Status AsyncClient::Core::PostFind(AsyncOperation& operation) {
  operation.found = {};
  return session_->region().PostFind(
      operation.index, buffers_.SgeOf(operation.bytes), buffers_.SgeOf(buffers_.record(operation.index)),
      operation.lookup.offset(), operation.lookup.key_hash(), &operation.found);
}

/// Finds a buffer for the operation's READ. Returns false if none is free now.
bool AsyncClient::Core::PrepareRead(AsyncOperation& operation) {
  const std::size_t size = operation.lookup.size();
  if (operation.lookup.is_bucket()) {
    operation.bytes = buffers_.bucket(operation.index);
  } else if (size <= buffers_.record(operation.index).size()) {
    operation.bytes = buffers_.record(operation.index).first(size);
  } else {
    if (!TakeLargeBuffer(operation)) return false;
    operation.bytes = buffers_.large(operation.large_buffer).first(size);
  }
  return true;
}

// --- What came ------------------------------------------------------------------------------------------

bool AsyncClient::Core::TakeCompletions() {
  if (!broken_.ok()) return false;
  const std::size_t count = session_->connection().Poll(completions_);
  for (std::size_t i = 0; i < count && broken_.ok(); ++i) Take(completions_[i]);
  return count > 0;
}

void AsyncClient::Core::Take(const rdma::Completion& completion) {
  if (!completion.ok) return Break(session_->connection().status());
  switch (completion.kind) {
    case rdma::CompletionKind::kRead:
      return TakeRead(operations_[completion.context]);
    case rdma::CompletionKind::kSend:
      if (const std::uint32_t memory = channel_.TakeSend(completion); memory != RequestChannel::kNobody) {
        EndIfMemoryIsFree(operations_[memory]);
      }
      return;
    case rdma::CompletionKind::kReceive:
      return TakeReply(completion);
    case rdma::CompletionKind::kDisconnected:
      return Break(session_->connection().status());
  }
}

void AsyncClient::Core::TakeRead(AsyncOperation& operation) {
  operation.read_in_flight = false;
  if (operation.kind == AsyncOperation::Kind::kMessage) return TakeFence(operation);
  --reads_in_flight_;
  const bool is_chunk = operation.lookup.is_chunk(), is_bucket = operation.lookup.is_bucket();
  // Also for an operation that has ended: all operations use the generations that it read.
  if (!is_chunk || !operation.ended) operation.lookup.Take(operation.bytes);
  if (is_bucket && !operation.ended && operation.found.size > 0) {
    operation.lookup.TakeFound(operation.found.offset,
                               buffers_.record(operation.index).first(operation.found.size));
  }
  // Large values arrive in parallel, and other operations go between their pieces.
  if (is_chunk) ReleaseLargeBuffer(operation);
  if (is_chunk && !operation.ended && operation.lookup.is_large() && !operation.lookup.is_told_again()) {
    Progress(operation);
  }
  if (!operation.ended) return Advance(operation);
  if (operation.id == 0) return Free(operation);
  EndIfMemoryIsFree(operation);
}

void AsyncClient::Core::TakeReply(const rdma::Completion& completion) {
  const absl::StatusOr<RequestChannel::Ended> ended = channel_.TakeReply(completion);
  if (!ended.ok()) return Break(ended.status());
  absl::Status status = ended->ForEach([&](std::uint32_t owner, const ServerReply& answer) {
    const Reply& reply = answer.reply;
    if (ended->is_write && reply.status == ReplyStatus::kOk) {
      lost_writes_.last_done = std::max(lost_writes_.last_done, reply.request_id);
    }
    TakeAnswer(owner, answer, ended->may_learn);
  });
  if (status.ok()) status = session_->channel().PostReceive(completion.context);
  if (!status.ok()) Break(status);
}

void AsyncClient::Core::TakeAnswer(std::uint32_t owner, const ServerReply& answer, bool may_learn) {
  if (owner == RequestChannel::kLargePut) return TakeReplyOfLargePut(answer, may_learn);
  if (owner == RequestChannel::kNobody) return;
  AsyncOperation& operation = operations_[owner];
  if (operation.lost_id != 0) {
    EndAnswer(operation, answer);
  } else if (operation.kind == AsyncOperation::Kind::kMessage) {
    EndMessage(operation, answer, may_learn);
  } else {
    operation.lookup.Take(answer);
    Advance(operation);
  }
}

void AsyncClient::Core::EndMessage(AsyncOperation& operation, const ServerReply& answer, bool may_learn) {
  const Reply& reply = answer.reply;
  operation.result.version = reply.version;
  operation.result.number = reply.result;
  // The reply to a delete or a batch names no location.
  if (may_learn && reply.status == ReplyStatus::kOk && reply.slot != 0) {
    session_->cache().Learn(operation.key_hash, DecodeSlot(reply.slot));
  }
  End(operation, ToStatus(answer));
}

// --- Sleeping -------------------------------------------------------------------------------------------

absl::StatusOr<std::size_t> AsyncClient::Core::Wait(TimePoint deadline) {
  while (in_flight_ > 0) {
    if (session_->is_forked()) return absl::FailedPreconditionError(kUsedAfterFork);
    if (const std::size_t ended = Poll(); ended > 0) return ended;
    if (has_more_) {
      if (session_->clock().Now() >= deadline) return absl::DeadlineExceededError(kNothingEnded);
      continue;
    }
    if (!broken_.ok()) {
      const TimePoint now = session_->clock().Now();
      if (now >= deadline) return absl::DeadlineExceededError(kNothingEnded);
      session_->clock().Sleep(std::max(Duration(1), std::min({deadline, earliest_, reconnect_.next}) - now));
      continue;
    }
    rdma::ClientConnection& connection = session_->connection();
    const auto look = [this] { return TakeCompletions(); };
    if (spinner_.Spin(look, connection.PollingPays(), connection.PollCost())) continue;
    const absl::Status woken = session_->connection().Wait(std::min(deadline, earliest_));
    if (const std::size_t ended = Poll(); ended > 0) return ended;
    if (woken.ok()) continue;
    if (absl::IsCancelled(woken)) return woken;
    if (!absl::IsDeadlineExceeded(woken)) {
      Break(woken);
    } else if (session_->clock().Now() >= deadline) {
      return absl::DeadlineExceededError(kNothingEnded);
    }
  }
  return std::size_t{0};
}

absl::Status AsyncClient::Core::WaitAll(TimePoint deadline) {
  while (in_flight_ > 0) REMORA_RETURN_IF_ERROR(Wait(deadline).status());
  return absl::OkStatus();
}

void AsyncClient::Core::Arm() {
  if (session_->is_forked()) return;
  waker_.Arm();
  if (broken_.ok()) session_->connection().Arm();
}

void AsyncClient::Core::Disarm() {
  if (session_->is_forked()) return;
  if (broken_.ok()) session_->connection().Disarm();
  waker_.Disarm();
}

std::optional<TimePoint> AsyncClient::Core::next_deadline() const {
  if (in_flight_ == 0) return std::nullopt;
  return broken_.ok() || reconnect_.in_progress ? earliest_ : std::min(earliest_, reconnect_.next);
}

}  // namespace remora
