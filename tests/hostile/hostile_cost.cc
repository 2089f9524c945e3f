// What attacks cost others: the 99th percentile of a well-behaved client's GETs and PUTs beside each attack,
// as a ratio to what it is without. The value of each operation is judged.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

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

/// False: an operation ended as it must not.
bool Measure(Served& served, const Attack& attack, std::chrono::milliseconds time, int rounds) {
  Figures quiet, attacked;
  std::uint64_t acts = 0;
  for (int round = 0; round < rounds; ++round) {
    served.AwaitNoMore("connections", 1);  // what the attack before has left
    Witness before(served.address(), served.clock());
    std::this_thread::sleep_for(time);
    quiet.Add(before.Stop());
    Witness beside(served.address(), served.clock());
    std::jthread attacker([&](const std::stop_token& stop) {
      for (; !stop.stop_requested(); ++acts) attack.act(served.where());
    });
    std::this_thread::sleep_for(time);
    attacked.Add(beside.Stop());
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
  int milliseconds = 500, rounds = 5;
  app.add_option("--on", on, "local or verbs")
      ->check(CLI::IsMember({"local", "verbs"}))
      ->capture_default_str();
  app.add_option("--attack", only, "This one alone")->type_name("NAME");
  app.add_option("--milliseconds", milliseconds, "Of each round, with and without")->capture_default_str();
  app.add_option("--rounds", rounds, "Of both")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto kind = on == "verbs" ? rdma::TransportKind::kVerbs : rdma::TransportKind::kLocal;
  bool all_good = true;
  for (const Attack& attack : AttacksOver(kind)) {
    if (!only.empty() && only != attack.name) continue;
    // One of its own for each: what an attack leaves behind is not the next one's.
    const auto served = Served::Start(kind, {"--max_clients=" + std::to_string(kAttackedClients)});
    if (!served.ok()) {
      std::fprintf(stderr, "hostile_cost: %s\n", served.status().ToString().c_str());
      return 1;
    }
    all_good = Measure(**served, attack, std::chrono::milliseconds(milliseconds), rounds) && all_good;
  }
  return all_good ? 0 : 1;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
