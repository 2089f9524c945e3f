// The gate of --redis: a kvgate that the server starts beside itself, watches, and ends.
//
//              ready                 ended
//   starting ────────▶ serving ──────────────▶ pausing ──▶ starting, ...
//      │ ended, the first time    stop in any state
//      ▼                                ▼
//    failed                          stopped
//
// The gate does not outlive the server: the system sends it SIGTERM when the thread here ends, however it
// ends (PR_SET_PDEATHSIG). A gate that ends later is started again, as the server has other clients. One that
// does not come to serve the first time has a bad address, or the like, and is reported.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/monitoring/log_events.h"

namespace remora {

/// Returns the path of the kvgate beside this program. NotFound: there is none that may be run.
absl::StatusOr<std::string> FindGate();

/// Returns OK if the address is redis://HOST:PORT or redis:///PATH, and other machines do not reach it, or
/// may (`is_open`). Else InvalidArgument, which says what to do.
absl::Status CheckGateAddress(std::string_view address, bool is_open);

struct RedisGateOptions {
  std::string program;
  std::vector<std::string> arguments;  // without the name of the program
  LogSink log;
  /// The thread of the gate calls one of these, once: the gate serves for the first time; or it never did. It
  /// ended with this exit status, and this line was its last one.
  std::function<void()> on_ready;
  std::function<void(int exit_status, std::string why)> on_failure;
};

/// Runs a kvgate as a child process, by a thread that watches it.
///
/// Thread safety: one thread makes and destroys it.
class RedisGate {
 public:
  /// Descriptors that it takes.
  static constexpr int kDescriptors = 6;

  /// Starts the thread, which starts the gate. ResourceExhausted: there is no thread or descriptor for it.
  static absl::StatusOr<std::unique_ptr<RedisGate>> Start(RedisGateOptions options);
  /// Ends the gate: by SIGTERM, and by SIGKILL if it has not ended after some seconds.
  ~RedisGate();
  RedisGate(const RedisGate&) = delete;
  RedisGate& operator=(const RedisGate&) = delete;

 private:
  struct Child {
    pid_t pid = -1;
    int output = -1;  // its standard output
    int errors = -1;
  };

  RedisGate(RedisGateOptions options, int stop_fd) : options_(std::move(options)), stop_fd_(stop_fd) {}
  void Supervise();
  absl::StatusOr<Child> Spawn() const;
  /// Returns the gate's exit status when it has ended.
  int Attend(const Child& child);
  /// Takes the bytes that the gate has written; false: its end is closed.
  bool TakeOutput(int fd);
  bool TakeErrors(int fd);
  /// Returns true if this is to end.
  bool WaitForStop(std::chrono::milliseconds time) const;

  const RedisGateOptions options_;
  const int stop_fd_;       // readable: this is to end
  bool was_ready_ = false;  // at any time
  bool serves_ = false;     // the present one has come to serve
  std::string errors_;      // the start of a line of the gate
  std::string last_line_;   // of the gate
  std::thread thread_;
};

}  // namespace remora
