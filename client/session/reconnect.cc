// Recovery of a client whose connection breaks. It makes another connection under the same client ID, and
// forgets all knowledge of the server. Then it asks for the outcome of the write whose answer it lost
// (server/connection/client_table.h explains why the answer is right).
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {

absl::Status Session::Reconnect(const absl::Status& cause, TimePoint deadline) {
  if (absl::IsCancelled(cause)) return cause;          // the call must not wait any more
  if (endpoint_.status().ok()) endpoint_.Fail(cause);  // until an attempt succeeds
  for (int attempt = 0; clock_.Now() < deadline; ++attempt) {
    const Attempt made = TryToReconnect(deadline);
    if (made.status.ok()) {
      if (!made.was_forgotten || calls_.unacknowledged_write() == 0) return absl::OkStatus();
      calls_.AbandonWrite();
      return absl::UnknownError(AbslView(kForgotten));
    }
    if (made.is_final) return made.status;
    const Duration pause = Connector::Pause(attempt);
    if (clock_.Now() + pause >= deadline) {
      return absl::UnavailableError(
          absl::StrCat(cause.message(), "; and there is no other connection: ", made.status.message()));
    }
    clock_.Sleep(pause);
    if (clock_.IsInterrupted()) return absl::CancelledError(kInterrupted);
  }
  return cause;
}

Session::Attempt Session::TryToReconnect(TimePoint deadline) {
  if (is_forked()) return {absl::FailedPreconditionError(kUsedAfterFork), true};
  const ClientCounters before = counters();
  for (;;) {
    absl::Status opened = OpenAnother(connector_.NextAttemptEnds(deadline));
    counters() = before;
    if (opened.ok()) opened = BuildMirror();
    switch (connector_.After(opened)) {
      case Connector::Next::kUse:
        ++counters().reconnects;
        return {.status = {}, .is_final = false, .was_forgotten = connector_.TakeForgotten()};
      case Connector::Next::kGiveUp:
        return {std::move(opened), true};
      case Connector::Next::kTryLater:
        return {std::move(opened), false};
      case Connector::Next::kTryAsNew:
        if (clock_.Now() >= deadline) return {std::move(opened), false};
    }
  }
}

absl::Status Session::OpenFirst(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline) {
  if (!connector_.dials()) return Open(std::move(connection), deadline);
  absl::Status opened = Open(std::move(connection), connector_.NextAttemptEnds(deadline));
  while (absl::IsDeadlineExceeded(opened) && clock_.Now() < deadline) {
    connector_.CountUnanswered();
    opened = OpenAnother(connector_.NextAttemptEnds(deadline));
  }
  connector_.ForgetUnanswered();
  return opened;
}

absl::Status Session::Open(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline) {
  const auto bind = [this](std::unique_ptr<rdma::ClientConnection> next) {
    return endpoint_.Bind(std::move(next));
  };
  REMORA_ASSIGN_OR_RETURN(const Connector::Greeting greeting,
                          connector_.Connect(std::move(connection), deadline, bind));
  server_.TakeHello(greeting.reply, greeting.sent);
  region_.Bind(endpoint_.connection());
  return AdoptSuperblock();
}

absl::Status Session::OpenAnother(TimePoint deadline) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::ClientConnection> connection, connector_.Dial(deadline));
  // The connection may still access the buffer, so it ends before the client reuses the buffer.
  endpoint_.End();
  ForgetServer();
  absl::Status reason = endpoint_.TakeReason();
  absl::Status opened = Open(std::move(connection), deadline);
  if (opened.ok()) opened = endpoint_.RegisterBuffers();
  if (!opened.ok()) endpoint_.Fail(std::move(reason));
  return opened;
}

void Session::WaitForDevice() {
  if (is_forked()) return;  // the connection belongs to the parent
  calls_.AwaitGathered();
  if (endpoint_.is_broken()) endpoint_.End();
}

void Session::ForgetServer() {
  server_.Forget();
  lease_.Forget();
  region_.Forget();
  cache_.Forget();
  leaves_.Clear();
  channel_.Clear();
}

}  // namespace remora
