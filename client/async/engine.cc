#include "client/async/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/misuse.h"
#include "client/put/put.h"
#include "client/session/call_guard.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Returns the histogram of an operation's times.
ClientMetric CallOf(const AsyncOperation& operation) {
  if (operation.kind == AsyncOperation::Kind::kValue) return ClientMetric::kGet;
  if (operation.kind == AsyncOperation::Kind::kPresence) return ClientMetric::kExists;
  if (operation.kind != AsyncOperation::Kind::kMessage) return ClientMetric::kOther;
  switch (operation.message) {
    case Operation::kPut:
    case Operation::kFinishLargePut:
      return ClientMetric::kPut;
    case Operation::kDelete:
      return ClientMetric::kDelete;
    case Operation::kTouch:
      return ClientMetric::kTouch;
    case Operation::kIncrement:
      return ClientMetric::kIncrement;
    case Operation::kAppend:
      return ClientMetric::kAppend;
    case Operation::kBatch:
      return ClientMetric::kApply;
    default:
      return ClientMetric::kOther;
  }
}

}  // namespace

// --- The whole ------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<AsyncClient::Core>> AsyncClient::Core::Start(
    std::unique_ptr<rdma::ClientConnection> connection, Dialer dialer, const ClientOptions& options,
    const AsyncOptions& async, const Clock& clock) {
  if (async.depth < 1 || async.depth > kMaxAsyncDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("a depth of ", async.depth, "; allowed are 1 to ", kMaxAsyncDepth));
  }
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Start(std::move(connection), std::move(dialer), options, clock));
  std::unique_ptr<Core> core(new Core(std::move(session)));
  REMORA_RETURN_IF_ERROR(core->Prepare(async.depth));
  return core;
}

absl::Status AsyncClient::Core::Prepare(std::size_t depth) {
  std::unique_ptr<RegisteredBuffer> memory(new RegisteredBuffer(*session_, buffers_.Allocate(depth)));
  REMORA_RETURN_IF_ERROR(buffers_.Register(*session_, std::move(memory)));
  operations_ = std::vector<AsyncOperation>(depth);
  for (std::size_t i = depth; i-- > 0;) {
    operations_[i].index = static_cast<std::uint32_t>(i);
    free_.push_back(static_cast<std::uint32_t>(i));
  }
  REMORA_RETURN_IF_ERROR(waker_.Open());
  return waker_.Watch(session_->connection().wait_fd());
}

void AsyncClient::Core::Stop() {
  if (reconnect_.in_progress)
    EndOnMisuse("an AsyncClient is destroyed between BeginAttempt and EndAttempt; end it first");
  CheckNotInPoll("an AsyncClient is destroyed by one of its callbacks; destroy it behind Poll or Wait");
  broken_ = absl::UnavailableError("the client is being destroyed");
  over_ = true;
  AbortAll(absl::CancelledError("the client was destroyed"));
  EndAllThatWaitForMemory();
  Deliver(operations_.size());
}

// --- Operations begin -----------------------------------------------------------------------------------

absl::StatusOr<AsyncOperation*> AsyncClient::Core::Begin(AsyncOperation::Kind kind, Done&& done,
                                                         const CallOptions& call,
                                                         const RegisteredBytes* memory) {
  if (memory != nullptr) REMORA_RETURN_IF_ERROR(session_->CheckOwn(*memory));
  if (session_->is_forked()) return absl::FailedPreconditionError(kUsedAfterFork);
  if (over_) return broken_;
  if (free_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(operations_.size(), " operations are under way (AsyncOptions::depth): Poll first"));
  }
  AsyncOperation& operation = operations_[free_.back()];
  free_.pop_back();
  operation.id = ++last_serial_ * kMaxAsyncDepth + operation.index;
  operation.kind = kind;
  operation.ended = false;
  operation.lost_id = 0;
  operation.undone = false;
  // The coarse clock may be late by this much. The allowance keeps operations from ending early.
  operation.timeout = call.timeout.value_or(session_->timeout()) + Clock::kCoarseness;
  operation.deadline = session_->Coarse() + operation.timeout;
  operation.done = std::move(done);
  operation.result = {};
  if (memory != nullptr) {
    memory->Hold();
    operation.memory = *memory;
  }
  if (session_->recorder() != nullptr) operation.began = session_->clock().Now();
  earliest_ = std::min(earliest_, operation.deadline);
  ++in_flight_;
  return &operation;
}

AsyncClient::Begun AsyncClient::Core::BeginLookup(AsyncOperation::Kind kind, std::string_view key,
                                                  Done&& done, const CallOptions& call,
                                                  const RegisteredBytes* into) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation, Begin(kind, std::move(done), call, into));
  Assign(key, &operation->key);
  if (broken_.ok()) StartLookup(*operation);  // else the lookup starts with the next connection
  waker_.Signal();
  return operation->id;
}

void AsyncClient::Core::StartLookup(AsyncOperation& operation) {
  operation.lookup.Begin(*session_, generation_read_,
                         {.key = operation.key,
                          .wants_value = operation.kind != AsyncOperation::Kind::kPresence,
                          .target = {.text = nullptr, .memory = MemoryOf(operation)},
                          .begins_fast = true});
  Advance(operation);
}

std::optional<rdma::Sge> AsyncClient::Core::MemoryOf(const AsyncOperation& operation) const {
  if (!operation.memory) return std::nullopt;
  return session_->SgeOf(*operation.memory);
}

AsyncClient::Begun AsyncClient::Core::BeginMessage(const RequestSpec& asked, Done&& done,
                                                   const CallOptions& call, const RegisteredBytes* from) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          Begin(AsyncOperation::Kind::kMessage, std::move(done), call, from));
  operation->message = asked.operation;
  operation->key_hash = asked.key_hash;
  operation->options = asked.options;
  waker_.Signal();
  OperationList& waiting = IsWrite(asked.operation) ? writers_ : askers_;
  const bool is_held_up = IsWrite(asked.operation) &&
                          (lost_writes_.count > 0 || large_.is_in_front() || operation->is_large_put());
  if (waiting.empty() && broken_.ok() && !is_held_up && !IsToShare(*operation, asked)) {
    RequestSpec now = asked;
    if (from != nullptr) now.local_key = session_->SgeOf(*from).local_key;
    const absl::StatusOr<bool> sent = channel_.Send(now, operation->index);
    if (!sent.ok()) Break(sent.status());
    if (!sent.ok() || *sent) return operation->id;
  }
  Assign(asked.key, &operation->key);
  if (from == nullptr) Assign(asked.value, &operation->value);
  waiting.Push(*operation);
  if (poller_ == std::thread::id() && broken_.ok() && waiting.size() % channel_.MostListed() == 0)
    SendMessages();
  return operation->id;
}

AsyncClient::Begun AsyncClient::Core::BeginWrite(Operation message, std::string_view key,
                                                 std::string_view value, const PutOptions& options,
                                                 Done&& done, const CallOptions& call,
                                                 const RegisteredBytes* from) {
  const std::uint64_t key_hash = HashKey(key);
  Forget(key_hash);  // even if the write fails
  return BeginMessage({message, key, key_hash, value, options, 0, {}}, std::move(done), call, from);
}

AsyncClient::Begun AsyncClient::Core::BeginNothing(Done&& done, const CallOptions& call) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          Begin(AsyncOperation::Kind::kMessage, std::move(done), call, nullptr));
  operation->message = Operation::kBatch;
  End(*operation, absl::OkStatus());
  waker_.Signal();
  return operation->id;
}

// --- Lookups --------------------------------------------------------------------------------------------

void AsyncClient::Core::EndRead(AsyncOperation& operation) {
  if (operation.lookup.step() == Lookup::Step::kAsk) return askers_.Push(operation);
  EndLookup(operation);
}

void AsyncClient::Core::EndLookup(AsyncOperation& operation) {
  const Lookup& lookup = operation.lookup;
  switch (lookup.step()) {
    case Lookup::Step::kMissing:
      return End(operation, absl::NotFoundError("no such key"));
    case Lookup::Step::kFailed:
      return End(operation, lookup.status());
    default:
      break;
  }
  // If the operation asked the server, the server knows of the read.
  if (!lookup.has_asked()) NoteRead(lookup.key_hash());
  operation.result.version = lookup.facts().version;
  operation.result.expiry_ms = lookup.facts().expiry_ms;
  if (operation.kind == AsyncOperation::Kind::kValue) {
    operation.result.value = lookup.value();
  } else if (operation.kind == AsyncOperation::Kind::kTtl && lookup.facts().expiry_ms != 0) {
    operation.result.ttl = session_->server().TimeLeft(lookup.facts().expiry_ms);
  }
  End(operation, absl::OkStatus());
}

void AsyncClient::Core::NoteRead(std::uint64_t key_hash) {
  if (!session_->access_hints().Note(key_hash)) return;
  const TimePoint now = session_->Coarse();
  if (now - reads_reported_ < Session::kReportPause) return;
  reads_reported_ = now;
  // Without a credit, the next request of another operation takes the hashes along.
  const absl::StatusOr<bool> sent =
      channel_.Send({.operation = Operation::kPing, .key_hash = HashKey({})}, RequestChannel::kNobody);
  if (!sent.ok()) Break(sent.status());
}

// --- Operations end -------------------------------------------------------------------------------------

void AsyncClient::Core::End(AsyncOperation& operation, absl::Status status) {
  REMORA_CHECK(!operation.ended);
  operation.ended = true;
  if (operation.lost_id != 0) {
    --lost_writes_.count;
    if (operation.undone) --lost_writes_.undone_count;
    operation.lost_id = 0;
  }
  operation.result.status = std::move(status);
  if (session_->recorder() != nullptr) Record(operation);
  EndIfMemoryIsFree(operation);
}

void AsyncClient::Core::Record(const AsyncOperation& operation) const {
  ClientRecorder& recorder = *session_->recorder();
  recorder.RecordCall(CallOf(operation), session_->clock().Now() - operation.began, operation.result.status);
  // During an attempt to connect, another thread may change the counters (BeginAttempt).
  if (!reconnect_.in_progress) recorder.Publish(session_->counters());
}

bool AsyncClient::Core::IsAtMemory(const AsyncOperation& operation) const {
  return operation.memory && broken_.ok() &&
         (operation.read_in_flight || channel_.IsGathering(operation.index));
}

void AsyncClient::Core::EndIfMemoryIsFree(AsyncOperation& operation) {
  if (operation.id == 0 || !operation.ended || operation.list != nullptr || IsAtMemory(operation)) return;
  ended_.Push(operation);
}

void AsyncClient::Core::EndAllThatWaitForMemory() {
  for (AsyncOperation& operation : operations_) EndIfMemoryIsFree(operation);
}

void AsyncClient::Core::Progress(AsyncOperation& operation) {
  operation.deadline = std::max(operation.deadline, session_->Coarse() + operation.timeout);
}

void AsyncClient::Core::Abort(AsyncOperation& operation, absl::Status status) {
  OperationList::Leave(operation);
  // Without a connection nothing is in flight, and the channel may be another thread's (BeginAttempt).
  if (broken_.ok()) channel_.Abandon(operation.index);
  if (!operation.undone) lost_writes_.last_done = std::max(lost_writes_.last_done, operation.lost_id);
  if (large_.operation == &operation) LeaveLargePut();
  End(operation, std::move(status));
}

void AsyncClient::Core::AbortAll(const absl::Status& status) {
  for (AsyncOperation& operation : operations_) {
    if (operation.id != 0 && !operation.ended) Abort(operation, status);
  }
}

bool AsyncClient::Core::Cancel(OperationId id) {
  const std::size_t index = id % kMaxAsyncDepth;
  if (index >= operations_.size()) return false;
  AsyncOperation& operation = operations_[index];
  if (id == 0 || operation.id != id || operation.ended || session_->is_forked()) return false;
  Abort(operation, absl::CancelledError("the operation was cancelled"));
  waker_.Signal();
  return true;
}

void AsyncClient::Core::Break(const absl::Status& cause) {
  if (!broken_.ok()) return;
  broken_ = absl::UnavailableError(cause.ok() ? "the connection ended" : cause.message());
  session_->Break(broken_).IgnoreError();
  waker_.Unwatch(session_->connection().wait_fd());
  over_ = !session_->reconnects();
  if (over_) {
    AbortAll(broken_);
  } else {
    Lose();
  }
  EndAllThatWaitForMemory();
  waker_.Signal();
}

absl::Status AsyncClient::Core::Overdue() const {
  if (broken_.ok()) return absl::DeadlineExceededError("no answer in time");
  return absl::UnavailableError(
      absl::StrCat(broken_.message(), "; and there is no other connection: ", reconnect_.trouble.message()));
}

bool AsyncClient::Core::EndOverdue() {
  if (session_->clock().Now() < earliest_) return false;
  const TimePoint now = session_->clock().Now();
  earliest_ = TimePoint::max();
  bool ended = false;
  for (AsyncOperation& operation : operations_) {
    if (operation.id == 0 || operation.ended) continue;
    if (operation.deadline <= now) {
      Abort(operation, Overdue());
      ended = true;
    } else {
      earliest_ = std::min(earliest_, operation.deadline);
    }
  }
  return ended;
}

std::size_t AsyncClient::Core::Deliver(std::size_t most) {
  std::size_t count = 0;
  for (; count < most && !ended_.empty(); ++count) {
    AsyncOperation& operation = ended_.Pop();
    operation.id = 0;
    --in_flight_;
    Done done = std::move(operation.done);
    const AsyncResult result = std::move(operation.result);
    if (result.status.ok() && operation.options.version != nullptr) {
      *operation.options.version = result.version;
    }
    operation.options = {};
    if (operation.memory) {
      // The broken connection may still access the memory.
      if (!broken_.ok() && !reconnect_.in_progress) session_->EndConnection();
      operation.memory->Release();
      operation.memory.reset();
    }
    // Frees a value that came in pieces, once the callback has returned, and one that was put in pieces.
    const std::string text = operation.lookup.TakeText();
    if (operation.value.size() > kMaxSmallValueSize) operation.value = {};
    // The place is free before the callback, which may begin another operation. The bytes to which the result
    // points stay nevertheless, because only Poll posts READs.
    if (!operation.read_in_flight) Free(operation);
    if (done) {
      const InUse::Callback callback(session_->in_use());
      done(result);
      done = nullptr;  // its captures may hold a buffer of this client
    }
  }
  return count;
}

bool AsyncClient::Core::TakeLargeBuffer(AsyncOperation& operation) {
  if (operation.large_buffer != OperationBuffers::kNone) return true;
  operation.large_buffer = buffers_.TakeLarge();
  return operation.large_buffer != OperationBuffers::kNone;
}

void AsyncClient::Core::ReleaseLargeBuffer(AsyncOperation& operation) {
  if (operation.large_buffer == OperationBuffers::kNone) return;
  buffers_.ReturnLarge(std::exchange(operation.large_buffer, OperationBuffers::kNone));
  if (!large_readers_.empty()) readers_.Push(large_readers_.Pop());
}

}  // namespace remora
