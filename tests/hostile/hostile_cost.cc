// What attacks cost others: the 99th percentile of a well-behaved client's GETs and PUTs beside each attack,
// as a ratio to what it is without. The value of each operation is judged.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "tests/hostile/attacks.h"
#include "tests/hostile/served.h"

namespace remora {
namespace {

struct Figures {
  std::vector<std::uint32_t> get_ns, put_ns;
  std::uint64_t operations = 0;
  std::uint64_t faults = 0;
  std::string first_fault;

  void Add(Witness::Report report) {
    get_ns.insert(get_ns.end(), report.get_ns.begin(), report.get_ns.end());
    put_ns.insert(put_ns.end(), report.put_ns.begin(), report.put_ns.end());
    operations += report.operations;
    if (faults == 0) first_fault = report.first_fault;
    faults += report.faults;
  }
};

/// How it is measured.
struct How {
  std::chrono::milliseconds time{500};  // of each round, with and without
  int rounds = 5;
  /// Of the client that is measured, between two operations.
  std::chrono::microseconds pause{0};
  /// The attacker takes what others leave of the processors, as if it had a machine of its own; and without
  /// it, somebody who only computes does the same, so that neither finds a processor asleep.
  bool aside = false;
};

/// Of this thread, and of the processes that it starts.
void TakeWhatOthersLeave() {
  const sched_param none{};
  REMORA_CHECK(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
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

/// False: an operation ended as it must not.
bool Measure(Served& served, const Attack& attack, const Attack& busy, const How& how) {
  Figures quiet, attacked;
  std::uint64_t acts = 0;
  const auto beside = [&](const Attack* other, Figures& figures) {
    served.AwaitNoMore("connections", 1);  // what the attack before has left
    Witness witness(served.address(), served.clock(), "witness", how.pause);
    std::optional<Attacker> attacker;
    if (other != nullptr) attacker.emplace(*other, served, how.aside);
    std::this_thread::sleep_for(how.time);
    figures.Add(witness.Stop());
    return attacker ? attacker->Stop() : 0;
  };
  for (int round = 0; round < how.rounds; ++round) {
    beside(how.aside ? &busy : nullptr, quiet);
    acts += beside(&attack, attacked);
  }
  const auto ratio = [](std::vector<std::uint32_t>& with, std::vector<std::uint32_t>& without,
                        double percent) {
    return Percentile(with, percent) / std::max(1.0, static_cast<double>(Percentile(without, percent)));
  };
  const auto us = [](std::vector<std::uint32_t>& values) { return Percentile(values, 99) / 1e3; };
  const std::uint64_t operations = quiet.operations + attacked.operations;
  const std::uint64_t faults = quiet.faults + attacked.faults;
  std::printf(
      "%-24s %6llu acts  GET p99 %9.1f us, beside it %9.1f: %6.2f   PUT p99 %9.1f us, beside it %9.1f: %6.2f"
      "   %llu operations, %llu wrong\n",
      attack.name, static_cast<unsigned long long>(acts), us(quiet.get_ns), us(attacked.get_ns),
      ratio(attacked.get_ns, quiet.get_ns, 99), us(quiet.put_ns), us(attacked.put_ns),
      ratio(attacked.put_ns, quiet.put_ns, 99), static_cast<unsigned long long>(operations),
      static_cast<unsigned long long>(faults));
  std::fflush(stdout);
  for (const Figures* figures : {&quiet, &attacked}) {
    if (figures->faults > 0) std::printf("  %s\n", figures->first_fault.c_str());
  }
  return faults == 0;
}

int Main(int argc, char** argv) {
  CLI::App app("hostile_cost: what attacks cost others.");
  std::string on = "local", only;
  How how;
  app.add_option("--on", on, "local or verbs")
      ->check(CLI::IsMember({"local", "verbs"}))
      ->capture_default_str();
  app.add_option("--attack", only, "This one alone")->type_name("NAME");
  app.add_option_function<int>(
      "--milliseconds", [&](int ms) { how.time = std::chrono::milliseconds(ms); },
      "Of each round, with and without (500)");
  app.add_option("--rounds", how.rounds, "Of both")->capture_default_str();
  app.add_option_function<int>(
      "--pause", [&](int us) { how.pause = std::chrono::microseconds(us); },
      "Microseconds between two operations of who is measured (0)");
  app.add_flag(
      "--aside", how.aside,
      "The attacker takes only what others leave of the processors, as if it had a machine of its own; "
      "and is compared to somebody who does so and only computes");
  CLI11_PARSE(app, argc, argv);
  const auto kind = on == "verbs" ? rdma::TransportKind::kVerbs : rdma::TransportKind::kLocal;
  bool all_good = true;
  const std::vector<Attack> attacks = AttacksOver(kind);
  for (const Attack& attack : attacks) {
    if (!only.empty() && only != attack.name) continue;
    // One of its own for each: what an attack leaves behind is not the next one's.
    const auto served = Served::Start(kind, {"--max_clients=" + std::to_string(kAttackedClients)});
    if (!served.ok()) {
      std::fprintf(stderr, "hostile_cost: %s\n", served.status().ToString().c_str());
      return 1;
    }
    all_good = Measure(**served, attack, attacks.back(), how) && all_good;
  }
  return all_good ? 0 : 1;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
