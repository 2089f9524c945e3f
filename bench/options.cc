#include "bench/options.h"

#include <sysexits.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "bench/workload.h"

namespace remora::bench {
namespace {

constexpr const char* kDescription =
    "kvbench loads records into a Remora server, or into a store inside kvbench itself, runs one of YCSB's "
    "core\nworkloads on them, and reports throughput and latencies.\n";

constexpr const char* kFooter = R"(
Examples:
  kvbench all --target=local:///run/remora.sock --workload=b --records=1000000 --seconds=10
  kvbench all --target=embedded --durability=logged --data_dir=/tmp/bench --workload=a --verify
  kvbench run --target=verbs://10.0.0.1:7471 --workload=c --threads=2 --json=out.json

Workloads (YCSB core): a = 50 % read, 50 % update; b = 95 % read; c = reads only. Keys are 23 bytes.
Latencies run from the end of a thread's last operation to the end of this one: they contain making the key
and reading the clock (some 40 ns). With --rate they run from the moment at which the operation was due.

Exit status: 0 all operations succeeded, 1 some failed (their kinds are named), 64 wrong command line,
69 the server cannot be reached, or the store not opened.)";

// The flags as text and numbers, before they become options.
struct Flags {
  std::string command;
  std::string workload = "b";
  std::string durability = "memory";
  std::string eviction = "none";
  std::uint64_t memory = 0;
  double seconds = 0;
  std::size_t location_cache = 0;
};

void AddTargetFlags(CLI::App& app, Flags& flags, BenchOptions& options) {
  app.add_option("command", flags.command, "load: insert the records; run: the workload; all: both")
      ->required()
      ->check(CLI::IsMember({"load", "run", "all"}))
      ->option_text("load | run | all");
  app.add_option("--target", options.target.address, "verbs://HOST:PORT, local:///PATH, or embedded")
      ->required()
      ->option_text("ADDRESS");
  app.add_option("--json", options.json_path, "Also write a summary to this file")->option_text("FILE");
  app.add_option("--memory", flags.memory, "embedded: size of the store; default: what the records need")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->option_text("SIZE");
  app.add_option("--location_cache", flags.location_cache,
                 "server: memory for each thread's client to remember where keys are; 0: none; default: 8M\n"
                 "over verbs, none through mapped memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->option_text("SIZE");
  app.add_option("--durability", flags.durability, "embedded: memory (default) or logged")
      ->check(CLI::IsMember({"memory", "logged"}))
      ->option_text("NAME");
  app.add_option("--eviction", flags.eviction,
                 "embedded, when the memory is full: none (default; writes fail) or least_used")
      ->check(CLI::IsMember({"none", "least_used"}))
      ->option_text("NAME");
  app.add_option("--data_dir", options.target.store.data_dir, "embedded, logged: the store's directory")
      ->option_text("DIR");
}

// Defaults stand in the descriptions, as CLI11 would print them between its own type names.
void AddWorkloadFlags(CLI::App& app, Flags& flags, BenchOptions& options) {
  WorkloadOptions& workload = options.workload;
  app.add_option("--workload", flags.workload, "a, b (default) or c")->option_text("NAME");
  app.add_option("--records", workload.records, "Records, 1 to 2^31; default 100000")
      ->check(CLI::Range(std::uint64_t{1}, kMaxRecords))
      ->option_text("N");
  app.add_option("--value_size", workload.value_size, "Of each value, 16 to 64M; default 64")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(kMinBenchValueSize, kMaxValueSize))
      ->option_text("SIZE");
  const std::map<std::string, RecordChooser::Kind> distributions = {
      {"zipfian", RecordChooser::Kind::kZipfian}, {"uniform", RecordChooser::Kind::kUniform}};
  app.add_option(
         "--distribution", workload.distribution,
         "Which records are asked for: zipfian (default; YCSB's: scrambled, constant 0.99) or uniform")
      ->transform(CLI::CheckedTransformer(distributions))
      ->option_text("NAME");
  auto* operations =
      app.add_option("--operations", workload.operations, "Of the run, all threads; default 1000000")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62))
          ->option_text("N");
  app.add_option("--seconds", flags.seconds, "How long the run takes, instead of --operations")
      ->check(CLI::Range(0.001, 1e6))
      ->excludes(operations)
      ->option_text("S");
  app.add_option("--threads", options.threads, "Each with a connection of its own; default 1")
      ->check(CLI::Range(1u, 1024u))
      ->option_text("N");
  app.add_option(
         "--rate", workload.rate,
         "Operations per second of the run, all threads, each due at its moment; default: each thread "
         "begins its next operation when the last one has ended")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  app.add_option("--seed", workload.seed, "Of what is drawn; default 1")->option_text("N");
  app.add_flag("--verify", workload.verify, "Check that each value read was written for its key");
  app.add_option("--time_every", workload.time_every,
                 "Time one operation in so many; default 1. For operations that take no longer than reading "
                 "the clock")
      ->check(CLI::Range(1u, 1u << 20))
      ->option_text("N");
}

// Throws CLI::ValidationError when the flags contradict each other.
void Resolve(const CLI::App& app, const Flags& flags, BenchOptions& options) {
  options.load = flags.command != "run";
  options.run = flags.command != "load";
  const absl::StatusOr<Mix> mix = ParseMix(flags.workload);
  if (!mix.ok()) throw CLI::ValidationError("--workload", std::string(mix.status().message()));
  options.workload.mix = *mix;
  if (flags.seconds > 0) {
    options.workload.operations = 0;
    options.workload.duration = std::chrono::duration<double>(flags.seconds);
  }
  StoreOptions& store = options.target.store;
  if (options.target.address != kEmbeddedTarget) {
    for (const char* flag : {"--memory", "--durability", "--eviction", "--data_dir"}) {
      if (app.count(flag) > 0) throw CLI::ValidationError(flag, "is for --target=embedded only");
    }
    if (app.count("--location_cache") > 0) options.target.client.location_cache_bytes = flags.location_cache;
    return;
  }
  if (app.count("--location_cache") > 0) {
    throw CLI::ValidationError("--location_cache", "is for a server only");
  }
  store.durability = flags.durability == "logged" ? Durability::kLogged : Durability::kMemory;
  store.eviction = flags.eviction == "none" ? Eviction::kNone : Eviction::kLeastUsed;
  if (store.durability == Durability::kLogged && store.data_dir.empty()) {
    throw CLI::ValidationError("--durability", "logged needs --data_dir");
  }
  if (store.durability == Durability::kMemory && !store.data_dir.empty()) {
    throw CLI::ValidationError("--data_dir", "needs --durability=logged");
  }
  if (store.durability == Durability::kMemory && !options.load) {
    throw CLI::ValidationError("run", "an embedded store in memory starts empty: use all");
  }
  store.memory_size =
      flags.memory != 0 ? flags.memory
                        : EmbeddedMemoryFor(options.workload.records, kKeySize, options.workload.value_size);
}

}  // namespace

std::variant<BenchOptions, int> ParseCommandLine(int argc, const char* const* argv) {
  BenchOptions options;
  Flags flags;
  CLI::App app(kDescription, "kvbench");
  app.footer(kFooter);
  app.set_version_flag("--version", "kvbench of Remora " REMORA_VERSION);
  AddTargetFlags(app, flags, options);
  AddWorkloadFlags(app, flags, options);
  try {
    app.parse(argc, argv);
    Resolve(app, flags, options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : EX_USAGE;
  }
  return options;
}

}  // namespace remora::bench
