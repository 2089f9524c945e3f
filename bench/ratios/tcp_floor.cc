// Cost of a round trip over the kernel's TCP, on the loopback interface, without a store. Two processes
// exchange as many bytes as requests and answers have, with the fewest system calls that do it. GETs over
// tcp:// stand beside these figures.
//
// The other process is a fork, which answers. Each way to wait is measured in turn with the others.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/ratios/ratio.h"
#include "rdma/unique_fd.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {
namespace {

using rdma::UniqueFd;
using SteadyTime = std::chrono::steady_clock::time_point;

struct Flags {
  std::vector<std::uint64_t> in_flight = {1, 16};
  std::uint32_t request_size = 24;
  std::uint32_t answer_size = 152;
  std::uint32_t round_trips = 20'000;
  std::uint32_t turns = 5;
  int client_cpu = -1;
  int server_cpu = -1;
};

/// How the two processes wait for bytes.
enum class Waits : std::uint8_t {
  kSleep = 1,  // both in recv
  kEpoll,      // the server in epoll_wait, as one with several clients does; the client in recv
  kPoll,       // neither sleeps
};

const char* NameOf(Waits waits) {
  switch (waits) {
    case Waits::kSleep:
      return "both sleep in recv";
    case Waits::kEpoll:
      return "the server sleeps in epoll_wait";
    case Waits::kPoll:
      return "both poll by recv";
  }
  return "";
}

absl::Status SystemError(const char* call) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(errno)));
}

void StayOn(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  // On a CPU that does not exist, the process stays where it is; the flag's range excludes most of these.
  static_cast<void>(sched_setaffinity(0, sizeof(set), &set));
}

/// Receives once, after waiting. Returns the number of bytes; at most 0 at the end.
ssize_t ReceiveSome(int socket, std::span<std::byte> into, Waits waits) {
  for (;;) {
    const ssize_t got = recv(socket, into.data(), into.size(), waits == Waits::kPoll ? MSG_DONTWAIT : 0);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
  }
}

bool SendAll(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Answers the requests of one connection, those of each recv together, until the client closes it.
void Answer(int socket, const Flags& flags, std::uint64_t in_flight, Waits waits) {
  std::vector<std::byte> requests(std::max<std::size_t>(flags.request_size * in_flight, 16 << 10));
  const std::vector<std::byte> answers(flags.answer_size * in_flight);
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket, &event) != 0) return;
  std::size_t held = 0;
  for (;;) {
    if (waits == Waits::kEpoll && epoll_wait(epoll.get(), &event, 1, -1) < 0 && errno != EINTR) return;
    const ssize_t got = ReceiveSome(socket, requests, waits);
    if (got <= 0) return;
    held += static_cast<std::size_t>(got);
    const std::size_t whole = held / flags.request_size;
    held %= flags.request_size;
    if (!SendAll(socket, std::span(answers).first(whole * flags.answer_size))) return;
  }
}

/// Makes a connection of this process to itself.
absl::StatusOr<std::array<UniqueFd, 2>> Connect() {
  const UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listening || bind(listening.get(), generic, size) != 0 || listen(listening.get(), 1) != 0 ||
      getsockname(listening.get(), generic, &size) != 0) {
    return SystemError("listen");
  }
  std::array<UniqueFd, 2> ends{UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
  if (!ends[0] || connect(ends[0].get(), generic, size) != 0) return SystemError("connect");
  ends[1] = UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends[1]) return SystemError("accept");
  const int on = 1;
  for (const UniqueFd& end : ends) {
    if (setsockopt(end.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
      return SystemError("setsockopt");
  }
  return ends;
}

double MicrosecondsOf(const rusage& usage) {
  const auto of = [](const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// Time of one round trip, and CPU time of both processes for it, in microseconds.
struct Cost {
  double round_trip = 0;
  double client_cpu = 0;
  double server_cpu = 0;
};

absl::StatusOr<Cost> MeasureTurn(const Flags& flags, std::uint64_t in_flight, Waits waits) {
  REMORA_ASSIGN_OR_RETURN(auto ends, Connect());
  std::cout.flush();  // else the fork would print what waits, too
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) {
    ends[0] = UniqueFd();
    StayOn(flags.server_cpu);
    Answer(ends[1].get(), flags, in_flight, waits);
    _exit(0);
  }
  ends[1] = UniqueFd();
  const std::vector<std::byte> requests(flags.request_size * in_flight);
  std::vector<std::byte> answers(flags.answer_size * in_flight);
  rusage before{}, after{}, of_server{};
  getrusage(RUSAGE_SELF, &before);
  const SteadyTime begin = std::chrono::steady_clock::now();
  bool goes_on = true;
  for (std::uint32_t i = 0; goes_on && i < flags.round_trips; ++i) {
    goes_on = SendAll(ends[0].get(), requests);
    for (std::size_t held = 0; goes_on && held < answers.size();) {
      const ssize_t got = ReceiveSome(ends[0].get(), std::span(answers).subspan(held), waits);
      goes_on = got > 0;
      if (goes_on) held += static_cast<std::size_t>(got);
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  getrusage(RUSAGE_SELF, &after);
  ends[0] = UniqueFd();
  while (wait4(child, nullptr, 0, &of_server) < 0 && errno == EINTR) {
  }
  if (!goes_on) return absl::UnavailableError("measure: the connection ended early; try again");
  const double count = flags.round_trips;
  return Cost{.round_trip = took.count() / count,
              .client_cpu = (MicrosecondsOf(after) - MicrosecondsOf(before)) / count,
              .server_cpu = MicrosecondsOf(of_server) / count};
}

absl::Status Run(const Flags& flags) {
  StayOn(flags.client_cpu);
  std::cout << absl::StrFormat(
      "tcp_floor: requests of %d bytes, answers of %d; medians of %d turns of %d round trips, in us\n",
      flags.request_size, flags.answer_size, flags.turns, flags.round_trips);
  constexpr std::array kWays = {Waits::kSleep, Waits::kEpoll, Waits::kPoll};
  for (const std::uint64_t in_flight : flags.in_flight) {
    std::array<std::array<std::vector<double>, 3>, kWays.size()> costs;
    for (std::uint32_t turn = 0; turn < flags.turns; ++turn) {
      for (std::size_t i = 0; i < kWays.size(); ++i) {
        const std::size_t way = (i + turn) % kWays.size();
        // Two processes that poll on one CPU would wait for the end of each other's time.
        const bool is_pointless =
            kWays[way] == Waits::kPoll && flags.client_cpu >= 0 && flags.client_cpu == flags.server_cpu;
        if (is_pointless) continue;
        REMORA_ASSIGN_OR_RETURN(const Cost cost, MeasureTurn(flags, in_flight, kWays[way]));
        costs[way][0].push_back(cost.round_trip);
        costs[way][1].push_back(cost.client_cpu);
        costs[way][2].push_back(cost.server_cpu);
      }
    }
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      if (costs[way][0].empty()) continue;
      std::cout << absl::StrFormat("  %3d in flight, %-32s %7.2f a round trip; CPU %7.2f + %7.2f\n",
                                   in_flight, absl::StrCat(NameOf(kWays[way]), ":"), MedianOf(costs[way][0]),
                                   MedianOf(costs[way][1]), MedianOf(costs[way][2]));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::Flags flags;
  remora::command_line::CommandLine line(
      "tcp_floor measures round trips over the kernel's TCP on this host, without a store: two processes\n"
      "that exchange bytes with the fewest system calls. It prints the time, and the CPU time of the client\n"
      "and of the server.\n",
      "tcp_floor");
  line.Add("--in_flight", flags.in_flight, "Requests of a round trip, sent and answered together")
      .Separator(',')
      .Range(std::uint64_t{1}, std::uint64_t{1024})
      .ShowDefault();
  line.Add("--request_size", flags.request_size, "Bytes of a request; of a READ frame by default")
      .Range(1u, 65'536u)
      .ShowDefault();
  line.Add("--answer_size", flags.answer_size, "Bytes of an answer; by default, a record of 64 bytes")
      .Range(1u, 65'536u)
      .ShowDefault();
  line.Add("--round_trips", flags.round_trips, "Round trips of a turn")
      .Range(1u, 1'000'000'000u)
      .ShowDefault();
  line.Add("--turns", flags.turns, "Times that each way to wait is measured")
      .Range(1u, 1'000'000u)
      .ShowDefault();
  line.Add("--client_cpu", flags.client_cpu, "CPU of the client; -1: any").Range(-1, 1023).ShowDefault();
  line.Add("--server_cpu", flags.server_cpu, "CPU of the server; -1: any").Range(-1, 1023).ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("tcp_floor", remora::bench::Run(flags));
}
