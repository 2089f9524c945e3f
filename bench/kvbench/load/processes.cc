// Phases run by several processes. The first one forks the others, which do the work, and is the one whom all
// meet: each sends it a frame, and gets one when all have.
//
//   worker: kReady or kError | then, for each phase:      kMeet         kMeet         kResult (or kError)
//   first:                     kLoad, kWarmUp or kRun            kMeet         kMeet
//
// A frame is a type, the size of what follows, and that.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/load/interruption.h"
#include "bench/kvbench/load/runner.h"
#include "bench/kvbench/report/report.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

enum class FrameType : std::uint32_t { kReady = 1, kError = 2, kMeet = 3, kResult = 4, kPhase = 5 };

struct Frame {
  FrameType type;
  std::string payload;
};

struct FrameHead {
  FrameType type;
  std::uint32_t size;
};

/// One end of a pair of sockets. Moves whole frames, or says that the other end is gone.
class Channel {
 public:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~Channel() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  bool Send(FrameType type, const std::string& payload = {}) const {
    const FrameHead head{type, static_cast<std::uint32_t>(payload.size())};
    return SendAll(&head, sizeof(head)) && SendAll(payload.data(), payload.size());
  }

  std::optional<Frame> Receive() const {
    FrameHead head;
    if (!ReceiveAll(&head, sizeof(head))) return std::nullopt;
    Frame frame{head.type, std::string(head.size, '\0')};
    if (!ReceiveAll(frame.payload.data(), frame.payload.size())) return std::nullopt;
    return frame;
  }

  /// Returns true if there is something to receive, or the other end is gone.
  bool IsReady(std::chrono::milliseconds timeout) const {
    pollfd entry{descriptor_, POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
  }

 private:
  bool SendAll(const void* data, std::size_t size) const {
    for (std::size_t done = 0; done < size;) {
      const ssize_t sent =
          send(descriptor_, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return false;
      if (sent > 0) done += static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool ReceiveAll(void* data, std::size_t size) const {
    for (std::size_t done = 0; done < size;) {
      const ssize_t received = recv(descriptor_, static_cast<char*>(data) + done, size - done, 0);
      if (received == 0 || (received < 0 && errno != EINTR)) return false;
      if (received > 0) done += static_cast<std::size_t>(received);
    }
    return true;
  }

  int descriptor_;
};

// --- A worker process ---------------------------------------------------------------------------------

void SendError(const Channel& channel, const absl::Status& status) {
  const std::string code = std::to_string(static_cast<int>(status.code()));
  channel.Send(FrameType::kError, absl::StrCat(code, " ", status.message()));
}

void RunWorker(const Channel& channel, const BenchOptions& options, const Clock& clock, Shared& shared,
               std::uint32_t first_worker) {
  const auto meet = [&channel] {
    if (!channel.Send(FrameType::kMeet)) return false;
    const std::optional<Frame> frame = channel.Receive();
    return frame && frame->type == FrameType::kMeet;
  };
  const absl::StatusOr<std::unique_ptr<Runner>> runner =
      OpenThreads(options, clock, shared, first_worker, meet);
  if (!runner.ok()) return SendError(channel, runner.status());
  LeaveSignalsToParent(shared.stop());
  channel.Send(FrameType::kReady);
  while (const std::optional<Frame> frame = channel.Receive()) {
    const auto phase = static_cast<PhaseKind>(frame->payload.at(0));
    const absl::StatusOr<PhaseResult> result = (*runner)->Run(phase, {});
    if (!result.ok()) return SendError(channel, result.status());
    if (!channel.Send(FrameType::kResult, ToJson(*result))) return;
  }
}

// --- The first process --------------------------------------------------------------------------------

absl::Status StatusOf(const std::string& payload) {
  const std::size_t space = std::min(payload.find(' '), payload.size());
  const auto code = static_cast<absl::StatusCode>(std::atoi(payload.substr(0, space).c_str()));
  return absl::Status(code, payload.substr(std::min(space + 1, payload.size())));
}

class ProcessesRunner final : public Runner {
 public:
  ProcessesRunner(const BenchOptions& options, const Clock& clock, Shared& shared)
      : options_(options), clock_(clock), shared_(shared) {}

  ~ProcessesRunner() override {
    // Those that wait for a phase end when their channel does; one that is in the middle of something, after
    // another has died, would not see it.
    if (failed_) {
      for (const Worker& worker : workers_) kill(worker.pid, SIGKILL);
    }
    std::vector<pid_t> pids;
    for (const Worker& worker : workers_) pids.push_back(worker.pid);
    workers_.clear();
    for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  }

  absl::Status Start() {
    for (std::uint32_t i = 0; i < options_.processes; ++i) REMORA_RETURN_IF_ERROR(Fork(i));
    for (const Worker& worker : workers_) {
      const std::optional<Frame> frame = worker.channel.Receive();
      if (!frame || frame->type != FrameType::kReady) return FailedInstead(worker, frame);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PhaseResult> Run(PhaseKind phase, const ProgressSink& progress) override {
    const std::string payload(1, static_cast<char>(phase));
    for (const Worker& worker : workers_) worker.channel.Send(FrameType::kPhase, payload);
    REMORA_RETURN_IF_ERROR(Meet({}));
    const TimePoint started = clock_.Now();
    REMORA_RETURN_IF_ERROR(Meet([&] {
      if (!progress) return;
      const double seconds = std::chrono::duration<double>(clock_.Now() - started).count();
      progress(kPhaseNames[static_cast<std::size_t>(phase)], shared_.done(),
               TotalOperations(phase, options_.workload), seconds);
    }));
    std::optional<PhaseResult> sum;
    for (const Worker& worker : workers_) {
      const std::optional<Frame> frame = worker.channel.Receive();
      if (!frame || frame->type != FrameType::kResult) return FailedInstead(worker, frame);
      absl::StatusOr<PhaseResult> result = ParsePhase(frame->payload);
      if (!result.ok()) return Failed(result.status());
      if (sum) {
        sum->Merge(*result);
      } else {
        sum = *std::move(result);
      }
    }
    return *std::move(sum);
  }

 private:
  struct Worker {
    pid_t pid;
    Channel channel;
  };

  absl::Status Fork(std::uint32_t number) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return Failed(absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno))));
    }
    Channel ours(ends[0]);
    Channel theirs(ends[1]);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
      return Failed(absl::UnavailableError(absl::StrCat("cannot fork: ", std::strerror(errno))));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // The other ends are the first process's alone: a channel ends when it closes them.
      workers_.clear();
      { const Channel closed = std::move(ours); }
      if (getppid() == parent) {
        RunWorker(theirs, options_, clock_, shared_, number * options_.workload.threads);
      }
      // Not exit, which would run the handlers of the first process.
      _exit(0);
    }
    workers_.push_back({pid, std::move(ours)});
    return absl::OkStatus();
  }

  // All have come, and go on. Once a second while waiting, `each_second`.
  absl::Status Meet(const std::function<void()>& each_second) {
    for (const Worker& worker : workers_) {
      while (!worker.channel.IsReady(std::chrono::seconds(1))) {
        if (each_second) each_second();
      }
      const std::optional<Frame> frame = worker.channel.Receive();
      if (!frame || frame->type != FrameType::kMeet) return FailedInstead(worker, frame);
    }
    for (const Worker& worker : workers_) worker.channel.Send(FrameType::kMeet);
    return absl::OkStatus();
  }

  /// `frame`: came in place of another one, or the process is gone.
  absl::Status FailedInstead(const Worker& worker, const std::optional<Frame>& frame) {
    if (frame && frame->type == FrameType::kError) return Failed(StatusOf(frame->payload));
    return Failed(absl::UnavailableError(absl::StrCat("kvbench: its process ", worker.pid, " has died")));
  }

  absl::Status Failed(absl::Status status) {
    failed_ = true;
    return status;
  }

  const BenchOptions& options_;
  const Clock& clock_;
  Shared& shared_;
  std::vector<Worker> workers_;
  bool failed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> OpenProcesses(const BenchOptions& options, const Clock& clock,
                                                      Shared& shared) {
  auto runner = std::make_unique<ProcessesRunner>(options, clock, shared);
  REMORA_RETURN_IF_ERROR(runner->Start());
  return runner;
}

}  // namespace remora::bench
