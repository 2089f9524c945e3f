#include "client/async/engine.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/get/record_copy.h"
#include "client/get/visit.h"
#include "client/put/put.h"
#include "client/session/call_guard.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {

// --- The whole ------------------------------------------------------------------------------------------

AsyncClient::Core::Core(std::unique_ptr<Session> session)
    : connection_(std::move(session)),
      operations_(connection_),
      reads_(connection_, operations_, buffers_, askers_),
      messages_(connection_, operations_, reads_, buffers_, askers_) {}

absl::StatusOr<std::unique_ptr<AsyncClient::Core>> AsyncClient::Core::Start(
    std::unique_ptr<rdma::ClientConnection> connection, Dialer dialer, const ClientOptions& options,
    const AsyncOptions& async, const Clock& clock) {
  if (async.depth < 1 || async.depth > kMaxAsyncDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("async: a depth of ", async.depth, "; allowed are 1 to ", kMaxAsyncDepth));
  }
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Start(std::move(connection), std::move(dialer), options, clock));
  std::unique_ptr<Core> core(new Core(std::move(session)));
  std::unique_ptr<RegisteredBuffer> memory(
      new RegisteredBuffer(core->session().endpoint(), core->buffers_.Allocate(async.depth)));
  REMORA_RETURN_IF_ERROR(core->buffers_.Register(core->session(), std::move(memory)));
  core->operations_.Resize(async.depth);
  REMORA_RETURN_IF_ERROR(core->connection_.Open());
  return core;
}

void AsyncClient::Core::Stop() {
  if (connection_.is_attempting())
    EndOnMisuse("an AsyncClient is destroyed between BeginReconnect and EndReconnect; end it first");
  guard_.CheckNotInPoll(
      "an AsyncClient is destroyed by one of its callbacks; destroy it behind Poll or Wait");
  connection_.Close(absl::UnavailableError("async: the client is being destroyed"));
  AbortAll(absl::CancelledError("async: the client was destroyed"));
  operations_.EndAllThatWaitForMemory();
  Deliver(operations_.all().size());
}

// --- Operations begin -----------------------------------------------------------------------------------

AsyncClient::Begun AsyncClient::Core::BeginLookup(AsyncOperation::Kind kind, std::string_view key,
                                                  Done&& done, const CallOptions& call,
                                                  const RegisteredBytes* into) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          operations_.Begin(kind, std::move(done), call, into));
  if (into != nullptr) into->Hold();
  Assign(key, &operation->key);
  if (connection_.is_up()) reads_.Start(*operation);  // else the lookup starts with the next connection
  connection_.waker().Signal();
  return operation->id;
}

AsyncClient::Begun AsyncClient::Core::BeginVisit(std::string_view key, Show&& show, Done&& done,
                                                 const CallOptions& call) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          operations_.Begin(AsyncOperation::Kind::kValue, Done(), call, nullptr));
  Assign(key, &operation->key);
  if (ShowInPlace(*operation, show)) {
    operation->done = std::move(done);
    operations_.End(*operation, absl::OkStatus());
    operation->result.value = {};
  } else {
    operation->result = {};
    operations_.Progress(*operation);  // `show` may have taken a while
    operation->done = [show = std::move(show), done = std::move(done)](const AsyncResult& got) mutable {
      if (got.status.ok()) show(got.value);
      if (done) done({.status = got.status, .version = got.version});
    };
    if (connection_.is_up()) reads_.Start(*operation);
  }
  connection_.waker().Signal();
  return operation->id;
}

bool AsyncClient::Core::ShowInPlace(AsyncOperation& operation, Show& show) {
  if (!connection_.is_up()) return false;
  AsyncResult& result = operation.result;
  const auto note = [&](std::string_view value) {
    result.value = value;  // whose size the recorder counts
    show(value);
  };
  return TryVisit(session(), operation.key, note, &result.version) && session().lease().IsCovered();
}

AsyncClient::Begun AsyncClient::Core::BeginMessage(const RequestSpec& asked, Done&& done,
                                                   const CallOptions& call, const RegisteredBytes* from) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          operations_.Begin(AsyncOperation::Kind::kMessage, std::move(done), call, from));
  if (from != nullptr) from->Hold();
  const bool is_put = asked.operation == Operation::kPut || asked.operation == Operation::kFinishLargePut;
  if (is_put) operation->put_bytes = asked.value.size();
  connection_.waker().Signal();
  const absl::Status started = messages_.Start(*operation, asked, !guard_.is_polling());
  if (!started.ok()) Break(started);
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

AsyncClient::Begun AsyncClient::Core::BeginEmpty(Done&& done, const CallOptions& call) {
  REMORA_ASSIGN_OR_RETURN(AsyncOperation* const operation,
                          operations_.Begin(AsyncOperation::Kind::kMessage, std::move(done), call, nullptr));
  operation->message = Operation::kBatch;
  operations_.End(*operation, absl::OkStatus());
  connection_.waker().Signal();
  return operation->id;
}

// --- Operations end -------------------------------------------------------------------------------------

void AsyncClient::Core::Abort(AsyncOperation& operation, absl::Status status) {
  OperationList::Leave(operation);
  messages_.Abandon(operation);
  reads_.Abandon(operation);
  operations_.End(operation, std::move(status));
}

void AsyncClient::Core::AbortAll(const absl::Status& status) {
  for (AsyncOperation& operation : operations_.all()) {
    if (operation.id != 0 && !operation.ended) Abort(operation, status);
  }
}

bool AsyncClient::Core::Cancel(OperationId id) {
  AsyncOperation* const operation = operations_.Find(id);
  if (operation == nullptr || session().is_forked()) return false;
  Abort(*operation, absl::CancelledError("async: the operation was cancelled"));
  connection_.waker().Signal();
  return true;
}

std::size_t AsyncClient::Core::Deliver(std::size_t most) {
  std::size_t count = 0;
  for (; count < most && operations_.has_ended(); ++count) {
    AsyncOperation& operation = operations_.TakeEnded();
    Done done = std::move(operation.done);
    const AsyncResult result = std::move(operation.result);
    if (result.status.ok() && operation.options.version != nullptr) {
      *operation.options.version = result.version;
    }
    operation.options = {};
    if (operation.memory) {
      connection_.EndAccess();
      operation.memory->Release();
      operation.memory.reset();
    }
    // Frees a value that came in pieces, once the callback has returned, and one that was put in pieces.
    const std::string text = operation.lookup.TakeText();
    if (operation.value.size() > kMaxSmallValueSize) operation.value = {};
    // The place is free before the callback, which may begin another operation. The bytes to which the result
    // points stay nevertheless, because only Poll posts READs.
    if (!operation.read_in_flight) reads_.Free(operation);
    if (done) {
      const InUse::Callback callback(session().in_use());
      done(result);
      done = nullptr;  // its captures may hold a buffer of this client
    }
  }
  return count;
}

// --- The connection ends, and another one begins --------------------------------------------------------

void AsyncClient::Core::Break(const absl::Status& cause) {
  if (!connection_.is_up()) return;
  connection_.Break(cause);
  operations_.lease().Reset();
  if (connection_.is_over()) {
    AbortAll(connection_.status());
  } else {
    messages_.Lose();
    while (AsyncOperation* const message = operations_.lease().TakeLostMessage()) {
      operations_.End(*message, LeaseError("it rejected this write"));
    }
  }
  operations_.EndAllThatWaitForMemory();
  connection_.waker().Signal();
}

bool AsyncClient::Core::EndConfirmed() {
  bool any = false;
  while (AsyncOperation* const operation = operations_.lease().TakeConfirmed()) {
    any = true;
    if (operation->kind == AsyncOperation::Kind::kMessage) {
      operations_.End(*operation, std::move(operation->result.status));
    } else {
      reads_.EndLookup(*operation);
    }
  }
  return any;
}

void AsyncClient::Core::TakeAttempt() {
  switch (connection_.TakeAttempt()) {
    case AsyncConnection::Outcome::kConnected:
      return Resume(connection_.last_attempt().was_forgotten);
    case AsyncConnection::Outcome::kRejected:
      return AbortAll(connection_.last_attempt().status);
    case AsyncConnection::Outcome::kLater:
      return;
  }
}

void AsyncClient::Core::Resume(bool was_forgotten) {
  reads_.Reset();
  for (AsyncOperation& operation : operations_.all()) {
    // The device that might have written to the memory is closed.
    const bool was_read = std::exchange(operation.read_in_flight, false);
    if (operation.id == 0) {
      if (was_read) reads_.Free(operation);
      continue;
    }
    if (operation.ended) continue;
    if (operation.lost_id != 0 && was_forgotten && !operation.undone) {
      Abort(operation, absl::UnknownError(AbslView(kForgotten)));
    } else if (operation.kind != AsyncOperation::Kind::kMessage) {
      OperationList::Leave(operation);
      reads_.Start(operation);
    }
  }
  if (const absl::Status watched = connection_.Watch(); !watched.ok()) return Break(watched);
  connection_.waker().Signal();
}

}  // namespace remora
