// Calls of a blocking client, for coroutines: they run in a helper thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/cluster_client.h"
#include "store/base/clock.h"
#include "tools/kvgate/keys/helper_thread.h"
#include "tools/kvgate/network/inbox.h"

namespace remora::kvgate {

/// A blocking client of all servers that connects at its first call. The first connection waits for a server
/// that is not there, as a later one does. A coroutine that awaits Run resumes in the thread of the inbox.
///
/// Thread safety: Run belongs to the thread of the inbox.
class BlockingCalls {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<ClusterClient>>()>;

  /// Starts the helper thread. `inbox` and `clock` live longer. `timeout`: a call waits so long for the first
  /// connection.
  static absl::StatusOr<std::unique_ptr<BlockingCalls>> Start(Connect connect,
                                                              std::chrono::milliseconds timeout, Inbox& inbox,
                                                              const Clock& clock) {
    auto helper = HelperThread::Start();
    if (!helper.ok()) return helper.status();
    return std::unique_ptr<BlockingCalls>(
        new BlockingCalls(std::move(connect), timeout, inbox, clock, *std::move(helper)));
  }

  /// Has calls that have not begun end with Cancelled, waits for the one that runs, and ends the thread. The
  /// coroutines resume when the inbox is drained. No call may begin afterwards.
  void Stop() {
    stopping_ = true;
    helper_.reset();
  }

  /// Awaits call(client), which returns an absl::StatusOr<T>. Its status may also be one of
  /// ClusterClient::Connect.
  template <typename T>
  auto Run(std::function<absl::StatusOr<T>(ClusterClient&)> call) {
    return Awaiter<T>{*this, std::move(call), absl::UnknownError("store call: it has not run yet; await it")};
  }

 private:
  template <typename T>
  struct Awaiter {
    BlockingCalls& calls;
    std::function<absl::StatusOr<T>(ClusterClient&)> call;
    absl::StatusOr<T> result;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
      // Calls that wait one behind the other for the same server do not add up their times.
      calls.helper_->Post([this, waiting, deadline = calls.clock_.Now() + calls.timeout_] {
        absl::StatusOr<ClusterClient*> client =
            absl::CancelledError("store call: the gate is stopping; connect again later");
        if (!calls.stopping_) client = calls.Connected(deadline);
        result = client.ok() ? call(**client) : absl::StatusOr<T>(client.status());
        calls.inbox_.Post([waiting] { waiting.resume(); });
      });
    }
    absl::StatusOr<T> await_resume() { return std::move(result); }
  };

  // Between attempts. The longest is also what Stop waits for.
  static constexpr std::chrono::milliseconds kFirstPause{4};
  static constexpr std::chrono::milliseconds kLongestPause{128};

  BlockingCalls(Connect connect, std::chrono::milliseconds timeout, Inbox& inbox, const Clock& clock,
                std::unique_ptr<HelperThread> helper)
      : connect_(std::move(connect)),
        timeout_(timeout),
        inbox_(inbox),
        clock_(clock),
        helper_(std::move(helper)) {}

  absl::StatusOr<ClusterClient*> Connected(TimePoint deadline) {
    for (auto pause = kFirstPause; client_ == nullptr; pause = std::min(2 * pause, kLongestPause)) {
      auto connected = connect_();
      if (connected.ok()) {
        client_ = *std::move(connected);
      } else if (!MayPass(connected.status()) || stopping_ || clock_.Now() + pause >= deadline) {
        return connected.status();
      } else {
        clock_.Sleep(pause);
      }
    }
    return client_.get();
  }

  /// The server is not there, is stopping, or has no place for the client.
  static bool MayPass(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
           absl::IsFailedPrecondition(status);
  }

  const Connect connect_;
  const std::chrono::milliseconds timeout_;
  Inbox& inbox_;
  const Clock& clock_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<ClusterClient> client_;
  std::unique_ptr<HelperThread> helper_;  // last: its thread uses the others
};

}  // namespace remora::kvgate
