// Costs of attacks for others: the 99th percentile of a well-behaved client's GETs and PUTs beside each
// attack, as a ratio to the one without; medians of rounds. The value of each operation is judged.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "tests/adversarial/attacks.h"
#include "tests/adversarial/served.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

struct Figures {
  std::vector<std::uint32_t> get_ns, put_ns;  // the 99th percentile of each round
  std::uint64_t operations = 0;
  std::uint64_t faults = 0;
  std::string first_fault;

  void Add(Witness::Report report) {
    get_ns.push_back(Percentile(report.get_ns, 99));
    put_ns.push_back(Percentile(report.put_ns, 99));
    operations += report.operations;
    if (faults == 0) first_fault = report.first_fault;
    faults += report.faults;
  }
};

/// How it is measured.
struct How {
  std::chrono::milliseconds time{500};  // of each round, with and without
  int rounds = 5;
  /// Pause of the measured client between two operations.
  std::chrono::microseconds pause{0};
  /// The attacker takes the CPU time that others leave, as if it had a machine of its own. The
  /// comparison is the same attack on another server, which takes no more either. So the system's work for
  /// the attacker, for which others may have to wait, counts on both sides. The attacked server has a
  /// CPU of its own. One more process, which takes no more either, computes all the time, so that
  /// nobody finds a CPU asleep, and its caches cold, when the attacker waits.
  bool aside = false;
};

/// Keeps who is attacked to one CPU, and this thread, what it starts, and `elsewhere` to the others.
/// Else the two that are measured may be put on one and wait for each other, while another one has only the
/// attacker. Nothing, where there is but one.
void Part(const Served& served, const Served& elsewhere) {
  static const cpu_set_t all = [] {
    cpu_set_t mine;
    REMORA_CHECK(sched_getaffinity(0, sizeof(mine), &mine) == 0);
    return mine;
  }();
  if (CPU_COUNT(&all) < 2) return;
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  cpu_set_t one, others;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CPU_XOR(&others, &all, &one);
  REMORA_CHECK(sched_setaffinity(served.pid(), sizeof(one), &one) == 0);
  REMORA_CHECK(sched_setaffinity(elsewhere.pid(), sizeof(others), &others) == 0);
  REMORA_CHECK(sched_setaffinity(0, sizeof(others), &others) == 0);
}

/// Lets a process's first thread, and all that it starts, use idle time only; 0: this thread.
void TakeWhatOthersLeave(pid_t pid = 0) {
  const sched_param none{};
  REMORA_CHECK(sched_setscheduler(pid, SCHED_IDLE, &none) == 0);
}

/// Acts again and again until it is destroyed.
class Attacker {
 public:
  Attacker(const Attack& attack, const Served& served, bool aside)
      : thread_([this, &attack, &served, aside](const std::stop_token& stop) {
          if (aside) TakeWhatOthersLeave();
          for (; !stop.stop_requested(); ++acts_) attack.act(served.where());
        }) {}
  std::uint64_t Stop() {
    thread_.request_stop();
    thread_.join();
    return acts_;
  }

 private:
  std::uint64_t acts_ = 0;
  std::jthread thread_;
};

/// `elsewhere`: where the attack does not matter; or null, and it is compared to none. False: an operation
/// ended as it must not.
bool Measure(Served& served, const Served* elsewhere, const Attack& attack, const How& how) {
  Figures quiet, attacked;
  std::uint64_t acts = 0;
  const auto beside = [&](const Served* where, Figures& figures) {
    served.AwaitNoMore("connections", 1);  // connections of the attack before
    Witness witness(served.address(), served.clock(), "witness", how.pause);
    std::optional<Attacker> attacker;
    if (where != nullptr) attacker.emplace(attack, *where, how.aside);
    std::this_thread::sleep_for(how.time);
    figures.Add(witness.Stop());
    return attacker ? attacker->Stop() : 0;
  };
  for (int round = 0; round < how.rounds; ++round) {
    beside(elsewhere, quiet);
    acts += beside(&served, attacked);
  }
  // Medians: one round in which the system had something else to do says nothing.
  const auto us = [](std::vector<std::uint32_t>& rounds) { return Percentile(rounds, 50) / 1e3; };
  const auto ratio = [&](std::vector<std::uint32_t>& with, std::vector<std::uint32_t>& without) {
    return us(with) / std::max(1e-3, us(without));
  };
  const std::uint64_t operations = quiet.operations + attacked.operations;
  const std::uint64_t faults = quiet.faults + attacked.faults;
  std::printf(
      "%-24s %6llu acts  GET p99 %9.1f us, beside it %9.1f: %6.2f   PUT p99 %9.1f us, beside it %9.1f: %6.2f"
      "   %llu operations, %llu wrong\n",
      attack.name, static_cast<unsigned long long>(acts), us(quiet.get_ns), us(attacked.get_ns),
      ratio(attacked.get_ns, quiet.get_ns), us(quiet.put_ns), us(attacked.put_ns),
      ratio(attacked.put_ns, quiet.put_ns), static_cast<unsigned long long>(operations),
      static_cast<unsigned long long>(faults));
  std::fflush(stdout);
  for (const Figures* figures : {&quiet, &attacked}) {
    if (figures->faults > 0) std::printf("  %s\n", figures->first_fault.c_str());
  }
  return faults == 0;
}

int Main(int argc, char** argv) {
  command_line::CommandLine line("attack_cost: what attacks cost others.");
  std::string on = "local", only;
  How how;
  line.Add("--on", on, "local, tcp or verbs").IsOneOf({"local", "tcp", "verbs"}).ShowDefault();
  line.Add("--attack", only, "This one alone").TypeName("NAME");
  line.AddFunction<int>(
      "--milliseconds", [&](int ms) { how.time = std::chrono::milliseconds(ms); },
      "Of each round, with and without (500)");
  line.Add("--rounds", how.rounds, "Of both").ShowDefault();
  line.AddFunction<int>(
      "--pause", [&](int us) { how.pause = std::chrono::microseconds(us); },
      "Microseconds between two operations of who is measured (0)");
  line.AddFlag(
      "--aside", how.aside,
      "The attacker takes only what others leave of the processors, as if it had a machine of its own; "
      "and is compared to the same attack on another server");
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  const auto kind = on == "verbs" ? rdma::TransportKind::kVerbs
                    : on == "tcp" ? rdma::TransportKind::kTcp
                                  : rdma::TransportKind::kLocal;
  bool all_good = true;
  const std::vector<Attack> attacks = AttacksOver(kind);
  for (const Attack& attack : attacks) {
    if (!only.empty() && only != attack.name) continue;
    // Each attack has a server of its own: the leftovers of one attack do not count for the next. The memory
    // holds all that a client writes that writes without end before it may be overwritten. If it were full,
    // all writers would wait, and that is no attack's doing.
    const auto start = [&] {
      return Served::Start(kind, {"--max_clients=" + std::to_string(kAttackedClients), "--memory=512M"});
    };
    const auto served = start();
    const auto elsewhere = how.aside ? start() : nullptr;
    for (const auto* each : {&served, &elsewhere}) {
      if (each->ok()) continue;
      std::fprintf(stderr, "attack_cost: %s\n", each->status().ToString().c_str());
      return 1;
    }
    std::optional<Attacker> filler;
    if (how.aside) {
      TakeWhatOthersLeave((*elsewhere)->pid());
      Part(**served, **elsewhere);
      filler.emplace(attacks.back(), **served, how.aside);  // it only computes
    }
    all_good = Measure(**served, elsewhere->get(), attack, how) && all_good;
  }
  return all_good ? 0 : 1;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
