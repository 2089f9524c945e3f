#include "server/main/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{500};
constexpr milliseconds kLongestPause{10'000};
constexpr int kCannotRun = 127;
constexpr std::size_t kLongestLine = 4096;

/// The things that the child needs between vfork and exec, made before.
struct Image {
  const char* program;
  char* const* arguments;
  int input;
  int output;
  int errors;   // negative: those of this process
  int void_fd;  // negative: none
  bool holds_hup;
  pid_t parent;
};

/// The memory is the parent's, and no function of a library but system calls is safe.
[[noreturn]] void BecomeChild(const Image& image) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != image.parent) ::_exit(kCannotRun);  // it has ended before the line above
  // A Ctrl-C of the terminal is for the parent, which ends the child.
  ::setpgid(0, 0);
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  for (int number = 1; number <= SIGRTMAX; ++number) ::sigaction(number, &by_default, nullptr);
  if (::dup2(image.input, STDIN_FILENO) < 0 || ::dup2(image.output, STDOUT_FILENO) < 0 ||
      (image.errors >= 0 && ::dup2(image.errors, STDERR_FILENO) < 0)) {
    ::_exit(kCannotRun);
  }
  // The parent may have closed its own, and then any of these may have the number. A copy of a descriptor to
  // itself would still be closed at exec.
  if (image.void_fd >= 0 && image.input != image.void_fd && ::dup2(image.input, image.void_fd) < 0) {
    ::_exit(kCannotRun);
  }
  if (image.input == image.void_fd) ::fcntl(image.input, F_SETFD, 0);
  sigset_t held;
  ::sigemptyset(&held);
  if (image.holds_hup) ::sigaddset(&held, SIGHUP);
  ::sigprocmask(SIG_SETMASK, &held, nullptr);
  ::execv(image.program, image.arguments);
  ::_exit(kCannotRun);
}

/// Starts the program by vfork. A fork would copy the page tables of all memory, and over verbs it would move
/// pages that the device uses. Signals are blocked until then: the child shares the server's memory, so no
/// handler may run in it.
pid_t Launch(const Image& image) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): see above
  if (pid == 0) BecomeChild(image);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

void CloseAll(std::initializer_list<int> fds) {
  for (const int fd : fds) {
    if (fd >= 0) ::close(fd);
  }
}

int ExitStatusOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string HowItEnded(int exit_status) {
  if (exit_status == kCannotRun) return "it cannot be run";
  if (exit_status > 128) return absl::StrCat("signal ", exit_status - 128, " ended it");
  return absl::StrCat("it ended with exit status ", exit_status);
}

}  // namespace

absl::StatusOr<std::string> ThisProgram() {
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  if (size <= 0)
    return absl::NotFoundError("start: /proc/self/exe does not say where this program is; mount /proc");
  return std::string(self.data(), static_cast<std::size_t>(size));
}

absl::StatusOr<std::unique_ptr<ChildProgram>> ChildProgram::Start(ChildProgramOptions options) {
  const int stop_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options.name, ": no descriptor is left; raise ulimit -n"));
  }
  std::unique_ptr<ChildProgram> child(new ChildProgram(std::move(options), stop_fd));
  REMORA_ASSIGN_OR_RETURN(
      child->thread_, StartThread([raw = child.get()] { return std::thread([raw] { raw->Supervise(); }); }));
  return child;
}

ChildProgram::~ChildProgram() {
  AskToEnd();
  if (thread_.joinable()) thread_.join();
  ::close(stop_fd_);
}

void ChildProgram::AskToEnd() const { ::eventfd_write(stop_fd_, 1); }

void ChildProgram::Send(int signal) {
  const MutexLock lock(mutex_);
  if (pid_ > 0) ::kill(pid_, signal);
}

void ChildProgram::Supervise() {
  for (milliseconds pause = kPause;;) {
    serves_ = false;
    const absl::StatusOr<Child> child = Spawn();
    int status = EX_OSERR;
    if (child.ok()) {
      status = Attend(*child);
    } else {
      last_line_ = StdView(child.status().message());
      options_.log(options_.ended_event, last_line_);
    }
    // Where the system ends all processes of the service at once, the server's own end comes at this time.
    pause = serves_ ? kPause : std::min(2 * pause, kLongestPause);
    if (WaitForStop(was_ready_ ? pause : milliseconds(0))) return;
    if (!was_ready_) {
      options_.log(options_.ended_event,
                   absl::StrCat(options_.name, " does not serve: ", HowItEnded(status)));
      const bool is_known = status > 0 && status <= 128 && status != kCannotRun;
      return options_.on_failure(is_known ? status : EX_SOFTWARE,
                                 last_line_.empty() ? HowItEnded(status) : last_line_);
    }
    options_.log(options_.ended_event,
                 absl::StrCat(options_.name, ": ", HowItEnded(status), "; it is started again"));
  }
}

absl::StatusOr<ChildProgram::Child> ChildProgram::Spawn() {
  std::array<int, 2> output{-1, -1};
  std::array<int, 2> errors{-1, -1};
  const int input = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  Child child;
  int error = 0;
  if (input < 0 || ::pipe2(output.data(), O_CLOEXEC) != 0 ||
      (options_.logs_errors && ::pipe2(errors.data(), O_CLOEXEC) != 0)) {
    error = errno;
  } else {
    std::vector<char*> arguments{const_cast<char*>(options_.program.c_str())};
    for (const std::string& argument : options_.arguments) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    const MutexLock lock(mutex_);
    child.pid = Launch({options_.program.c_str(), arguments.data(), input, output[1], errors[1],
                        options_.void_fd, options_.holds_hup, ::getpid()});
    if (child.pid < 0) error = errno;
    pid_ = child.pid;
  }
  CloseAll({input, output[1], errors[1]});
  child.output = output[0];
  child.errors = errors[0];
  if (error == 0) return child;
  CloseAll({output[0], errors[0]});
  return absl::ResourceExhaustedError(
      absl::StrCat(options_.name, " cannot be started: ", std::strerror(error)));
}

int ChildProgram::Attend(const Child& child) {
  std::array<pollfd, 3> watched{pollfd{child.output, POLLIN, 0}, pollfd{child.errors, POLLIN, 0},
                                pollfd{stop_fd_, POLLIN, 0}};
  bool is_stopping = false;
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const bool watches_beats = serves_ && !is_stopping && beats_.is_on();
    const int ready = ::poll(watched.data(), watched.size(), Patience(is_stopping));
    if (ready == 0 && !watches_beats) {
      if (!is_stopping) last_line_ = "it does not come to serve";
      ::kill(child.pid, SIGKILL);
      continue;
    }
    if (ready < 0) continue;  // a signal
    if (watched[0].revents != 0 && !TakeOutput(child.output)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !TakeErrors(child.errors)) watched[1].fd = -1;
    if (watches_beats) EndIfItHangs(child.pid);
    if (watched[2].revents == 0) continue;
    is_stopping = true;
    watched[2].fd = -1;
    ::kill(child.pid, SIGTERM);
  }
  CloseAll({child.output, child.errors});
  siginfo_t ended;
  while (::waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
    continue;
  const MutexLock lock(mutex_);  // a process that is waited for gives its number away
  pid_ = -1;
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
  return ExitStatusOf(status);
}

int ChildProgram::Patience(bool is_stopping) const {
  if (is_stopping) return static_cast<int>(options_.stop_patience.count());
  if (!serves_) return static_cast<int>(options_.start_patience.count());
  return beats_.is_on() ? static_cast<int>(beats_.UntilLook(std::chrono::steady_clock::now()).count()) : -1;
}

void ChildProgram::EndIfItHangs(pid_t pid) {
  if (beats_.has_beaten()) is_spared_ = false;
  if (!beats_.Hangs(std::chrono::steady_clock::now())) return;
  const std::string text = absl::StrCat(options_.name, " hangs: it has done nothing for ",
                                        static_cast<double>(options_.hang_timeout.count()) / 1000, " s");
  const std::optional<std::string_view> reason = ReasonToSpare(pid);
  if (!reason) {
    options_.log(options_.hung_event, absl::StrCat(text, "; it is ended"));
    ::kill(pid, SIGKILL);
  } else if (!std::exchange(is_spared_, true)) {
    options_.log(options_.hung_event, absl::StrCat(text, "; it is left alone: ", AbslView(*reason)));
  }
}

bool ChildProgram::TakeOutput(int fd) {
  std::array<char, 64> bytes;
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  if (got < 0) return errno == EINTR;
  if (got == 0) return false;
  if (std::exchange(serves_, true)) {
    beats_.TakeBeat();
    return true;
  }
  beats_.Begin(std::chrono::steady_clock::now());
  is_spared_ = false;
  options_.log(options_.ready_event, absl::StrCat(options_.name, " serves"));
  if (!std::exchange(was_ready_, true)) options_.on_ready();
  return true;
}

bool ChildProgram::TakeErrors(int fd) {
  std::array<char, 1024> bytes;
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  if (got < 0) return errno == EINTR;
  errors_.append(bytes.data(), static_cast<std::size_t>(got));
  // The text before the end is a line, too.
  if (got == 0 && !errors_.empty()) errors_.push_back('\n');
  for (;;) {
    std::size_t end = errors_.find('\n');
    if (end == std::string::npos && errors_.size() < kLongestLine) break;
    end = std::min(end, kLongestLine);
    last_line_ = errors_.substr(0, end);
    options_.log(LogEvent::kGateSaid, last_line_);
    errors_.erase(0, errors_[end] == '\n' ? end + 1 : end);
  }
  return got > 0;
}

bool ChildProgram::WaitForStop(milliseconds time) const {
  pollfd stop{stop_fd_, POLLIN, 0};
  return ::poll(&stop, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace remora
