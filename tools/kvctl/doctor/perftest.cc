#include "tools/kvctl/doctor/perftest.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "store/base/absl_view.h"

namespace remora::doctor {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::seconds kForOneProgram{15};
constexpr std::chrono::milliseconds kBetweenTries{50};
constexpr unsigned kIterations = 1000;
constexpr std::array kPrograms = {std::pair("read", "ib_read_lat"), std::pair("write", "ib_write_lat"),
                                  std::pair("send", "ib_send_lat")};

/// Returns the path of a program; empty: it is not on the PATH.
std::string FindProgram(std::string_view name) {
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", AbslView(name));
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// A TCP port that nothing listens at; 0: there is none.
std::uint16_t FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound = fd >= 0 && ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
  if (fd >= 0) ::close(fd);
  return is_bound ? ntohs(address.sin_port) : 0;
}

/// A process whose output is read here. It ends with this object, and with this process.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    std::array<int, 2> pipe = {-1, -1};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      // Other threads were running: only calls that are safe in a signal handler.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, STDIN_FILENO);
      ::dup2(pipe[1], STDOUT_FILENO);
      ::dup2(pipe[1], STDERR_FILENO);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Child() {
    if (output_ >= 0) ::close(output_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Returns all that it writes, until it ends or the deadline has passed.
  std::string Read(SteadyTime::time_point deadline) {
    std::string text;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyTime::now());
      pollfd readable = {.fd = output_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return text;
      std::array<char, 4096> piece;
      const ssize_t size = ::read(output_, piece.data(), piece.size());
      if (size <= 0) return text;
      text.append(piece.data(), static_cast<std::size_t>(size));
    }
  }
  bool has_ended() const {
    siginfo_t info = {};
    return pid_ <= 0 || (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                         info.si_pid != 0);
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

/// The last line of a program that failed, which says why.
std::string LastLine(absl::string_view output) {
  output = absl::StripAsciiWhitespace(output);
  const absl::string_view line = output.substr(output.rfind('\n') + 1);
  return line.empty() ? "it says nothing" : std::string(line.substr(0, 200));
}

/// Runs a program as server and as client. Returns its fault; empty: *times has the times.
std::string Measure(const std::string& program, const LoopbackFacts& loopback, PerftestTimes* times) {
  const std::uint16_t port = FreePort();
  if (port == 0) return "there is no free TCP port";
  std::vector<std::string> command = {program,
                                      "-F",
                                      absl::StrCat("--ib-dev=", loopback.device),
                                      absl::StrCat("--ib-port=", loopback.port),
                                      absl::StrCat("--size=", kLoopbackBytes),
                                      absl::StrCat("--iters=", kIterations),
                                      absl::StrCat("--port=", port)};
  if (loopback.gid_index) command.push_back(absl::StrCat("--gid-index=", *loopback.gid_index));
  const auto deadline = SteadyTime::now() + kForOneProgram;
  const Child server(command);
  command.emplace_back("127.0.0.1");
  std::string output;
  do {
    output = Child(command).Read(deadline);
    if (ReadPerftest(output, kLoopbackBytes, times)) return "";
    // The server says nothing when it listens, so the client tries until it does.
    std::this_thread::sleep_for(kBetweenTries);
  } while (!server.has_ended() && SteadyTime::now() < deadline);
  return LastLine(output);
}

}  // namespace

bool ReadPerftest(std::string_view output, unsigned bytes, PerftestTimes* times) {
  // #bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%
  constexpr std::size_t kTypical = 4, k99 = 7;
  for (const absl::string_view line : absl::StrSplit(AbslView(output), '\n')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    unsigned size = 0;
    if (columns.size() > k99 && absl::SimpleAtoi(columns[0], &size) && size == bytes &&
        absl::SimpleAtod(columns[kTypical], &times->typical_us) &&
        absl::SimpleAtod(columns[k99], &times->p99_us)) {
      return true;
    }
  }
  return false;
}

PerftestFacts RunPerftest(const LoopbackFacts& loopback) {
  PerftestFacts facts;
  std::vector<std::string> paths;
  for (const auto& [kind, program] : kPrograms) paths.push_back(FindProgram(program));
  facts.is_installed = std::ranges::none_of(paths, &std::string::empty);
  if (!facts.is_installed) return facts;
  for (std::size_t i = 0; i < kPrograms.size(); ++i) {
    PerftestTimes times = {.kind = kPrograms[i].first, .program = kPrograms[i].second, .failure = {}};
    times.failure = Measure(paths[i], loopback, &times);
    facts.times.push_back(std::move(times));
  }
  return facts;
}

void JudgePerftest(const std::optional<PerftestFacts>& facts, const LoopbackFacts& loopback, Checks* checks) {
  const std::string name = absl::StrCat("rdma.", loopback.device, ".perftest");
  if (!facts) {
    Check late = PassedCheck(name, "perftest's programs did not end in time");
    late.verdict = Verdict::kWarning;
    late.remedy = absl::StrCat("run ib_read_lat --ib-dev=", loopback.device, " by hand");
    checks->push_back(late);
    return;
  }
  if (!facts->is_installed) {
    checks->push_back(PassedCheck(name,
                                  "perftest is not installed (apt-get install perftest), so there is nothing "
                                  "to compare the times above with"));
    return;
  }
  for (const PerftestTimes& times : facts->times) {
    const std::string of_kind = absl::StrCat(name, "_", times.kind);
    if (!times.failure.empty()) {
      Check failed = PassedCheck(of_kind, absl::StrCat(times.program, ": ", times.failure));
      failed.verdict = Verdict::kWarning;
      failed.remedy = absl::StrCat("run ", times.program, " --ib-dev=", loopback.device, " by hand");
      checks->push_back(failed);
      continue;
    }
    // Of a WRITE or SEND, perftest takes half of one there and one back.
    const char* const span = times.kind == "read" ? "" : ", one way";
    checks->push_back(PassedCheck(
        of_kind, absl::StrFormat("%s: typical %.2f us, p99 %.2f us, of %d of %d bytes%s", times.program,
                                 times.typical_us, times.p99_us, kIterations, kLoopbackBytes, span)));
    checks->back().value = static_cast<std::uint64_t>(times.typical_us);
  }
}

}  // namespace remora::doctor
