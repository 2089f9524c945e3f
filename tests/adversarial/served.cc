#include "tests/adversarial/served.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"

namespace remora {
namespace {

// Of who waits for what is to come soon, however busy the machine: in a guest, a minute may be a few seconds.
constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(5);

}  // namespace

// --- A server -------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Served>> Served::Start(rdma::TransportKind kind,
                                                      std::vector<std::string> flags,
                                                      std::optional<rdma::Address> where) {
  std::unique_ptr<Served> self(new Served);
  self->where_ = where ? *where : FreshAddress(kind, self->folder());
  constexpr int kReadyFd = 3;
  const char* const program = std::getenv("REMORA_KVSERVER");  // another one than was built beside the tests
  std::vector<std::string> arguments = {program != nullptr ? program : REMORA_KVSERVER,
                                        "--listen=" + self->address(), "--insecure_open", "--quiet",
                                        absl::StrCat("--ready_fd=", kReadyFd)};
  const auto starts_with = [&](std::string_view name) {
    return std::ranges::any_of(flags, [&](const std::string& flag) { return flag.starts_with(name); });
  };
  if (!starts_with("--data_dir=")) arguments.emplace_back("--durability=memory");
  if (!starts_with("--memory=")) arguments.emplace_back("--memory=32M");
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::array<int, 2> ready{};
  REMORA_CHECK(pipe2(ready.data(), O_CLOEXEC) == 0);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  // The child only calls what may be called where other threads were at work.
  self->pid_ = fork();
  REMORA_CHECK(self->pid_ >= 0);
  if (self->pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    if (ready[1] == kReadyFd) {
      fcntl(kReadyFd, F_SETFD, 0);
    } else {
      dup2(ready[1], kReadyFd);
    }
    execv(argv.front(), argv.data());
    _exit(127);
  }
  close(ready[1]);
  close(nothing);
  // It says that it is ready, or ends.
  char byte = 0;
  const bool serves = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (!serves) return absl::InternalError("kvserver is not ready");
  return self;
}

Served::~Served() {
  if (pid_ < 0) return;
  asker_.reset();
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Served::IsAlive() const {
  siginfo_t info{};
  REMORA_CHECK(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
  return info.si_pid == 0;
}

int Served::Stop() {
  asker_.reset();
  int status = 0;
  kill(pid_, SIGTERM);
  REMORA_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::uint64_t Served::Count(const std::string& counter) {
  if (asker_ == nullptr) {
    auto asker = Client::Connect(address(), {.connect_timeout = kPatience, .timeout = kPatience}, clock_);
    REMORA_CHECK(asker.ok());
    asker_ = *std::move(asker);
  }
  // Behind what was sent before, of which each step of the server takes all.
  REMORA_CHECK(asker_->Ping().ok());
  const auto stats = asker_->Stats();
  REMORA_CHECK(stats.ok());
  for (const auto& [name, value] : *stats) {
    if (name == counter) return value;
  }
  REMORA_CHECK(false);
  return 0;
}

template <typename IsSo>
bool Served::Await(const std::string& counter, IsSo is_so) {
  const TimePoint deadline = clock_.Now() + kPatience;
  while (!is_so(Count(counter))) {
    if (clock_.Now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool Served::AwaitCount(const std::string& counter, std::uint64_t at_least) {
  return Await(counter, [&](std::uint64_t count) { return count >= at_least; });
}

bool Served::AwaitNoMore(const std::string& counter, std::uint64_t at_most) {
  return Await(counter, [&](std::uint64_t count) { return count <= at_most; });
}

// --- A witness ------------------------------------------------------------------------------------------

Witness::Witness(const std::string& address, const Clock& clock, const std::string& name,
                 std::chrono::microseconds pause)
    : thread_([this, address, &clock, name, pause] { Run(address, clock, name, pause); }) {
  while (operations() == 0 && !has_ended()) std::this_thread::yield();
}

Witness::~Witness() {
  if (thread_.joinable()) Stop(0);
}

Witness::Report Witness::Stop(std::uint64_t at_least) {
  at_least_ = at_least;
  stop_ = true;
  thread_.join();
  return std::move(report_);
}

void Witness::Run(const std::string& address, const Clock& clock, const std::string& name,
                  std::chrono::microseconds pause) {
  constexpr std::uint64_t kKeys = 16;
  const auto fault = [&](const std::string& what) {
    if (report_.faults++ == 0) report_.first_fault = absl::StrCat(done_.load(), " operations on: ", what);
  };
  // Faults that the witness is to see must not be healed behind its back.
  const auto client = Client::Connect(
      address, {.connect_timeout = kPatience, .timeout = kPatience, .reconnect = false}, clock);
  if (!client.ok()) fault(client.status().ToString());
  std::array<std::string, kKeys> values;
  // An earlier one may have been here.
  std::int64_t sum = client.ok() ? (*client)->Increment(name + " sum", 0).value_or(0) : 0;
  std::string got;
  report_.get_ns.reserve(1 << 20);
  report_.put_ns.reserve(1 << 20);
  for (std::uint64_t i = 0; report_.faults == 0 && !(stop_ && i >= at_least_ + kKeys); ++i) {
    const std::string key = absl::StrCat(name, " ", i % kKeys);
    std::string& value = values[i % kKeys];
    const TimePoint begin = clock.Now();
    const auto took = [&] {
      return static_cast<std::uint32_t>(std::chrono::nanoseconds(clock.Now() - begin).count());
    };
    if (i < kKeys || i % 4 == 1) {
      value = absl::StrCat(name, "'s ", i, " ", std::string(i % 500, 'w'));
      const absl::Status put = (*client)->Put(key, value);
      report_.put_ns.push_back(took());
      if (!put.ok()) fault(absl::StrCat("put: ", put.ToString()));
    } else if (i % 16 == 3) {
      const auto added = (*client)->Increment(name + " sum", 3);
      report_.put_ns.push_back(took());
      sum += 3;
      if (!added.ok() || *added != sum) fault(absl::StrCat("increment: ", added.status().ToString()));
    } else {
      const absl::Status read = (*client)->Get(key, &got);
      report_.get_ns.push_back(took());
      if (!read.ok() || got != value) fault(absl::StrCat("get: ", read.ToString(), " '", got, "'"));
    }
    ++report_.operations;
    done_.store(i + 1, std::memory_order_relaxed);
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
  }
  ended_ = true;
}

std::uint32_t Percentile(std::vector<std::uint32_t>& values, double percent) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(static_cast<double>(values.size()) * percent / 100);
  return values[std::min(at, values.size() - 1)];
}

}  // namespace remora
