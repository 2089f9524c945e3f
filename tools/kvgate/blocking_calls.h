// Calls of a blocking client, for coroutines: they run in a helper thread.
#pragma once

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "tools/kvgate/helper_thread.h"
#include "tools/kvgate/inbox.h"

namespace remora::kvgate {

/// A blocking client that connects at its first call. co_await Run(...) resumes in the thread of the inbox.
///
/// Thread safety: Run belongs to the thread of the inbox.
class BlockingCalls {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Client>>()>;

  /// Starts the helper thread. `inbox` lives longer.
  static absl::StatusOr<std::unique_ptr<BlockingCalls>> Start(Connect connect, Inbox& inbox) {
    auto helper = HelperThread::Start();
    if (!helper.ok()) return helper.status();
    return std::unique_ptr<BlockingCalls>(new BlockingCalls(std::move(connect), inbox, *std::move(helper)));
  }

  /// Has calls that have not begun end with Cancelled, waits for the one that runs, and ends the thread. The
  /// coroutines resume when the inbox is drained. No call may begin afterwards.
  void Stop() {
    stopping_ = true;
    helper_.reset();
  }

  /// Awaits call(client), which returns an absl::StatusOr<T>. Its status may also be one of Client::Connect.
  template <typename T>
  auto Run(std::function<absl::StatusOr<T>(Client&)> call) {
    return Awaiter<T>{*this, std::move(call), absl::UnknownError("not called")};
  }

 private:
  template <typename T>
  struct Awaiter {
    BlockingCalls& calls;
    std::function<absl::StatusOr<T>(Client&)> call;
    absl::StatusOr<T> result;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
      calls.helper_->Post([this, waiting] {
        absl::StatusOr<Client*> client = absl::CancelledError("the gate is stopping");
        if (!calls.stopping_) client = calls.Connected();
        result = client.ok() ? call(**client) : absl::StatusOr<T>(client.status());
        calls.inbox_.Post([waiting] { waiting.resume(); });
      });
    }
    absl::StatusOr<T> await_resume() { return std::move(result); }
  };

  BlockingCalls(Connect connect, Inbox& inbox, std::unique_ptr<HelperThread> helper)
      : connect_(std::move(connect)), inbox_(inbox), helper_(std::move(helper)) {}

  absl::StatusOr<Client*> Connected() {
    if (client_ == nullptr) {
      auto connected = connect_();
      if (!connected.ok()) return connected.status();
      client_ = *std::move(connected);
    }
    return client_.get();
  }

  const Connect connect_;
  Inbox& inbox_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Client> client_;
  std::unique_ptr<HelperThread> helper_;  // last: its thread uses the others
};

}  // namespace remora::kvgate
