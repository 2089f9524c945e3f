// A program that the server starts as a child process, watches, and ends: the gate of --redis, or a server of
// --shards.
//
//              ready           ended, or hung and ended
//   starting ────────▶ serving ──────────────▶ pausing ──▶ starting, ...
//      │ ended, the first time    stop in any state
//      ▼                                ▼
//    failed                          stopped
//
// The child does not outlive this process: the system sends it SIGTERM when the thread here ends, however it
// ends (PR_SET_PDEATHSIG). A child that ends later is started again. One that does not come to serve the
// first time has a bad address, or the like, and is reported.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/main/beats.h"
#include "server/monitoring/log_events.h"
#include "store/base/mutex.h"

namespace remora {

/// Returns the path of the program that runs here. NotFound: the system does not say it.
absl::StatusOr<std::string> ThisProgram();

struct ChildProgramOptions {
  std::string name;  // in texts: "the gate of --redis"
  std::string program;
  std::vector<std::string> arguments;  // without the name of the program
  LogSink log;
  LogEvent ready_event = LogEvent::kGateReady;
  LogEvent ended_event = LogEvent::kGateEnded;
  LogEvent hung_event = LogEvent::kShardHung;
  /// Lines that the child writes to standard error are logged as kGateSaid; else they go where those of this
  /// process go.
  bool logs_errors = true;
  /// Longest time in which it comes to serve; negative: it has any time.
  std::chrono::milliseconds start_patience{60'000};
  /// Time without a beat (beats.h) after which a child that serves is ended by SIGKILL; 0: any. The caller
  /// has called AskForBeats.
  std::chrono::milliseconds hang_timeout{0};
  /// Longest time between SIGTERM and SIGKILL.
  std::chrono::milliseconds stop_patience{5'000};
  /// A descriptor of this process that leads nowhere in the child; negative: none.
  int void_fd = -1;
  /// SIGHUP waits until the program hears it. Else it ends a program that does not hear it yet.
  bool holds_hup = false;
  /// The thread of the child calls one of these, once: the child serves for the first time; or it never did.
  /// It ended with this exit status, and this line was its last one.
  std::function<void()> on_ready;
  std::function<void(int exit_status, std::string why)> on_failure;
};

/// Runs a program as a child process, by a thread that watches it. The child says that it is ready by the
/// first byte on its standard output.
///
/// Thread safety: one thread makes and destroys it; any thread may call Send.
class ChildProgram {
 public:
  /// Descriptors that it takes.
  static constexpr int kDescriptors = 6;

  /// Starts the thread, which starts the child. ResourceExhausted: there is no thread or descriptor for it.
  static absl::StatusOr<std::unique_ptr<ChildProgram>> Start(ChildProgramOptions options);
  /// Ends the child: by SIGTERM, and by SIGKILL if it has not ended in time.
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  /// Asks the child to end, and waits for nothing. It is not started again.
  void AskToEnd() const;
  /// Sends the child a signal, if it runs.
  void Send(int signal);

 private:
  struct Child {
    pid_t pid = -1;
    int output = -1;  // its standard output
    int errors = -1;  // its standard error, if the options say so
  };

  ChildProgram(ChildProgramOptions options, int stop_fd)
      : options_(std::move(options)), stop_fd_(stop_fd), beats_(options_.hang_timeout) {}
  void Supervise();
  absl::StatusOr<Child> Spawn();
  /// Returns the child's exit status when it has ended.
  int Attend(const Child& child);
  /// Returns the milliseconds to wait for news of the child; negative: any.
  int Patience(bool is_stopping) const;
  /// Ends the child if it hangs, and says so.
  void EndIfItHangs(pid_t pid);
  /// Takes the bytes that the child has written; false: its end is closed.
  bool TakeOutput(int fd);
  bool TakeErrors(int fd);
  /// Returns true if this is to end.
  bool WaitForStop(std::chrono::milliseconds time) const;

  const ChildProgramOptions options_;
  const int stop_fd_;       // readable: this is to end
  bool was_ready_ = false;  // at any time
  bool serves_ = false;     // the present one has come to serve
  BeatWatch beats_;         // of the present one, once it serves
  bool is_spared_ = false;  // it hangs, and is not ended, which the log says
  std::string errors_;      // the start of a line of the child
  std::string last_line_;   // of the child
  Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = -1;  // of a child that runs, or that nobody has waited for
  std::thread thread_;
};

}  // namespace remora
