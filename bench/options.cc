#include "bench/options.h"

#include <sysexits.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/peers.h"
#include "bench/properties.h"
#include "bench/workload.h"
#include "client/async.h"
#include "client/token.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

constexpr const char* kDescription =
    "kvbench loads records into a Remora server, into a store inside kvbench itself, or into another one to\n"
    "compare with, runs one of YCSB's core workloads on them, and reports throughput and latencies.\n";

constexpr const char* kFooter = R"(
Examples:
  kvbench all --target=local:///run/remora.sock --workload=b --records=1000000 --seconds=10
  kvbench all --target=embedded --durability=logged --data_dir=/tmp/bench --workload=a --verify
  kvbench run --target=verbs://10.0.0.1:7471 --workload=c --threads=2 --json=out.json
  kvbench all --target=local:///run/remora.sock -P bench/workloads/workloadd -p recordcount=1000000 --processes=2
  kvbench all --target=redis:///run/redis.sock --workload=c --depth=16
  kvbench floor --target=local:///run/remora.sock --records=1000000 --data_dir=/tmp/floor
  kvbench report before.json after.json --html=compared.html

Workloads (YCSB core): a = 50 % read, 50 % update; b = 95 % read, 5 % update; c = reads only; d = 95 % read of
the latest, 5 % insert; e = 95 % scan, 5 % insert; f = 50 % read, 50 % read-modify-write.
Keys are 23 bytes. docs/kvbench.md lists the properties; --records, --distribution, --operations, --seconds,
--threads, --rate and --verify are short for recordcount, requestdistribution, operationcount,
maxexecutiontime, threadcount, target and dataintegrity, and win over what -p and files say.
Latencies run from the end of a thread's last operation (of the last one in its place, with --depth) to the
end of this one: they contain making the key
and reading the clock (some 40 ns). With --rate they run from the moment at which the operation was due.

Exit status: 0 all operations succeeded, 1 some failed (their kinds are named), 64 wrong command line,
65 (report) a file is not what --json writes, 66 (report) a file cannot be read,
69 the server cannot be reached, or the store not opened.)";

// The flags as text and numbers, before they become options.
struct Flags {
  std::string command;
  std::string workload = "b";
  std::string durability = "memory";
  std::string eviction = "none";
  std::uint64_t memory = 0;
  std::size_t location_cache = 0;
  std::string token_file;
  std::vector<std::string> files;
  std::vector<std::string> properties;
  std::vector<Property> shorthands;  // in the order of the command line
  std::size_t value_size = 0;        // 0: as the properties say
  bool verify = false;
};

void AddTargetFlags(CLI::App& app, Flags& flags, BenchOptions& options) {
  app.add_option("command", flags.command,
                 "load: insert the records; run: the workload; all: both; floor: load, then what a client's "
                 "operations\n"
                 "cost beside what nobody could do without; report: show what --json wrote")
      ->required()
      ->check(CLI::IsMember({"load", "run", "all", "floor", "report"}))
      ->option_text("load | run | all | floor | report");
  app.add_option("files", options.reports, "report: files that --json wrote, to be compared")
      ->option_text("FILE...");
  app.add_option("--target", options.target.address,
                 "verbs://HOST:PORT, local:///PATH, or embedded; of others: redis://HOST:PORT,\n"
                 "redis:///PATH, memcached://HOST:PORT, memcached:///PATH, or, inside kvbench, rocksdb, lmdb")
      ->option_text("ADDRESS");
  app.add_option("--memory", flags.memory,
                 "embedded: size of the store (rocksdb: of its cache); default: what the records need")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->option_text("SIZE");
  app.add_option("--location_cache", flags.location_cache,
                 "server: memory for each thread's client to remember where keys are; 0: none; default: 8M\n"
                 "over verbs, none through mapped memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->option_text("SIZE");
  app.add_option("--token_file", flags.token_file,
                 "server: what `kvctl token` printed, where it serves only who has a token")
      ->envname("REMORA_TOKEN_FILE")
      ->option_text("FILE");
  app.add_flag("--batch", options.target.batch,
               "server, with --depth: by MultiGet and MultiPut, and not by an AsyncClient");
  app.add_option("--server_pid", options.server_pid,
                 "Also tell the processor time that this process, the server, takes")
      ->check(CLI::Range(1, 1 << 22))
      ->option_text("PID");
  app.add_option("--durability", flags.durability, "inside kvbench: memory (default), logged or synced")
      ->check(CLI::IsMember({"memory", "logged", "synced"}))
      ->option_text("NAME");
  app.add_option("--eviction", flags.eviction,
                 "embedded, when the memory is full: none (default; writes fail) or least_used")
      ->check(CLI::IsMember({"none", "least_used"}))
      ->option_text("NAME");
  app.add_option("--data_dir", options.target.store.data_dir,
                 "embedded, logged or synced; rocksdb; lmdb: the store's directory; floor: an empty one, for "
                 "RocksDB and\n"
                 "syncs to compare with")
      ->option_text("DIR");
}

void AddOutputFlags(CLI::App& app, BenchOptions& options) {
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable},
                                                       {"ycsb", OutputFormat::kYcsb}};
  app.add_option("--format", options.format, "What is printed: table (default), or ycsb, its summary lines")
      ->transform(CLI::CheckedTransformer(formats))
      ->option_text("NAME");
  app.add_option("--json", options.json_path, "Also write all that was measured to this file")
      ->option_text("FILE");
  app.add_option("--csv", options.csv_path, "The same as a table of operations and intervals")
      ->option_text("FILE");
  app.add_option("--html", options.html_path, "The same as a page with charts, complete in one file")
      ->option_text("FILE");
  app.add_option("--by", options.by,
                 "report: as curves over this one of their settings: threadcount, recordcount, fieldlength,\n"
                 "readproportion, depth, ...")
      ->option_text("SETTING");
  app.add_option("--interval", options.workload.interval_seconds,
                 "Keep a time series of the run, in intervals of so many seconds, in the files")
      ->check(CLI::Range(0.01, 1e6))
      ->option_text("S");
}

// A flag that is short for a property: its text becomes the property's.
void AddShorthand(CLI::App& app, Flags& flags, const char* flag, const char* key, const char* placeholder,
                  const std::string& description) {
  app.add_option_function<std::string>(
         flag,
         [&flags, flag, key](const std::string& text) {
           flags.shorthands.push_back({key, text, flag});
         },
         description)
      ->option_text(placeholder);
}

// Defaults stand in the descriptions, as CLI11 would print them between its own type names.
void AddWorkloadFlags(CLI::App& app, Flags& flags, BenchOptions& options) {
  Workload& workload = options.workload;
  auto* core =
      app.add_option("--workload", flags.workload, "YCSB's core workload: a, b (default), c, d, e or f")
          ->option_text("NAME");
  app.add_option(
         "-P,--properties", flags.files,
         "A workload in YCSB's property file; of several, later ones win. What none says is as in YCSB")
      ->excludes(core)
      ->allow_extra_args(false)
      ->option_text("FILE");
  app.add_option("-p,--property", flags.properties, "One property; wins over files")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE");
  AddShorthand(app, flags, "--records", "recordcount", "N", "Records; default 100000");
  app.add_option("--value_size", flags.value_size, "Of each value, 16 to 64M, in one field; default 64")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(kMinBenchValueSize, kMaxValueSize))
      ->option_text("SIZE");
  AddShorthand(app, flags, "--distribution", "requestdistribution", "NAME",
               "Which records are asked for: zipfian (default; scrambled, constant 0.99), latest, uniform,\n"
               "hotspot, exponential or sequential");
  AddShorthand(app, flags, "--operations", "operationcount", "N", "Of the run, all threads; default 1000000");
  AddShorthand(app, flags, "--seconds", "maxexecutiontime", "S",
               "How long the run takes at most; without --operations: how long it takes");
  AddShorthand(app, flags, "--threads", "threadcount", "N", "Each with a connection of its own; default 1");
  AddShorthand(app, flags, "--rate", "target", "N",
               "Operations per second of the run, all threads, each due at its moment; default: each thread "
               "begins its next operation when the last one has ended");
  app.add_option("--depth", workload.depth,
                 "Operations that each thread has under way at once, 1 (default) to 1024")
      ->check(CLI::Range(1u, static_cast<unsigned>(kMaxAsyncDepth)))
      ->option_text("N");
  app.add_option("--processes", options.processes, "Each with so many threads; of a server only; default 1")
      ->check(CLI::Range(1u, 256u))
      ->option_text("N");
  app.add_option("--seed", workload.seed, "Of what is drawn; default 1")->option_text("N");
  app.add_flag("--verify", flags.verify, "Check that each value read was written for its key");
  app.add_option("--warmup", workload.warm_up_seconds, "Run for so many seconds first, and do not count that")
      ->check(CLI::Range(0.0, 1e6))
      ->option_text("S");
  app.add_option(
         "--time_every", workload.time_every,
         "At depth 1, time one operation in so many; default 1. For operations that take no longer than\n"
         "reading the clock")
      ->check(CLI::Range(1u, 1u << 20))
      ->option_text("N");
}

[[noreturn]] void Fail(const char* flag, const absl::Status& status) {
  throw CLI::ValidationError(flag, std::string(status.message()));
}

bool Says(const std::vector<Property>& properties, std::string_view key) {
  return std::any_of(properties.begin(), properties.end(),
                     [key](const Property& property) { return property.key == key; });
}

// The properties in the order in which they count: files, or a core workload; -p; flags that are short for
// one.
absl::StatusOr<std::vector<Property>> GatherProperties(const Flags& flags) {
  std::vector<Property> all;
  const auto append = [&all](std::vector<Property> more) {
    all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  };
  for (const std::string& path : flags.files) {
    REMORA_ASSIGN_OR_RETURN(std::vector<Property> properties, ReadProperties(path));
    append(std::move(properties));
  }
  if (flags.files.empty()) {
    REMORA_ASSIGN_OR_RETURN(std::vector<Property> properties, CoreWorkload(flags.workload));
    append(std::move(properties));
  }
  for (const std::string& text : flags.properties) {
    REMORA_ASSIGN_OR_RETURN(Property property, ParseProperty(text, "-p"));
    all.push_back(std::move(property));
  }
  append(flags.shorthands);
  return all;
}

absl::Status ResolveWorkload(const Flags& flags, Workload& workload) {
  if (!flags.files.empty()) {
    const Workload defaults = YcsbDefaults();
    workload.fields = defaults.fields;
    workload.distribution = defaults.distribution;
  }
  workload.name =
      flags.files.empty() ? flags.workload : std::filesystem::path(flags.files.back()).filename().string();
  REMORA_ASSIGN_OR_RETURN(const std::vector<Property> properties, GatherProperties(flags));
  for (const Property& property : properties) REMORA_RETURN_IF_ERROR(Apply(property, &workload));
  if (flags.value_size != 0) workload.fields = {.count = 1, .length = flags.value_size};
  workload.verify |= flags.verify;
  if (workload.max_seconds > 0 && !Says(properties, "operationcount")) workload.operations = 0;
  if (workload.operations == 0 && workload.max_seconds == 0) {
    return absl::InvalidArgumentError("operationcount=0 needs maxexecutiontime: the run would have no end");
  }
  return Validate(workload);
}

// Records that the run inserts, as far as it is known; as many as there are, where time ends the run.
std::uint64_t InsertsOf(const Workload& workload) {
  if (workload.mix.insert == 0) return 0;
  if (workload.operations == 0 || workload.warm_up_seconds > 0) return workload.records;
  return static_cast<std::uint64_t>(static_cast<double>(workload.operations) * workload.mix.insert * 1.1) +
         100;
}

// Flags that are for another kind of target.
void Refuse(const CLI::App& app, std::initializer_list<const char*> flags, const char* why) {
  for (const char* flag : flags) {
    if (app.count(flag) > 0) throw CLI::ValidationError(flag, why);
  }
}

void ResolveServer(const CLI::App& app, const Flags& flags, BenchOptions& options) {
  Refuse(app, {"--memory", "--durability", "--eviction"}, "is for a store inside kvbench only");
  if (!options.floor) Refuse(app, {"--data_dir"}, "is for a store inside kvbench only");
  if (IsPeer(options.target.address)) {
    Refuse(app, {"--location_cache", "--batch"}, "is for a server of Remora's only");
  }
  if (options.target.batch && options.workload.depth == 1) {
    throw CLI::ValidationError("--batch", "needs --depth: of one, there is nothing to do together");
  }
  if (!flags.token_file.empty() && !IsPeer(options.target.address)) {
    // Raw requests prove nothing.
    if (options.floor) throw CLI::ValidationError("floor", "is for a server that asks for no token");
    absl::StatusOr<std::string> token = ReadTokenFile(flags.token_file);
    if (!token.ok()) Fail("--token_file", token.status());
    options.target.client.token = *std::move(token);
  }
  if (app.count("--location_cache") > 0) options.target.client.location_cache_bytes = flags.location_cache;
}

void ResolveFloor(const BenchOptions& options) {
  if (IsInProcess(options.target.address) || IsPeer(options.target.address)) {
    throw CLI::ValidationError("floor", "is for a server of Remora's only");
  }
  const Fields& fields = options.workload.fields;
  if (fields.count > 1 || fields.lengths != Fields::Lengths::kConstant ||
      fields.length > kMaxSmallValueSize) {
    throw CLI::ValidationError("floor", std::string(absl::StrCat("takes values of one size, ",
                                                                 kMaxSmallValueSize, " bytes at most")));
  }
}

void ResolveStore(const CLI::App& app, const Flags& flags, BenchOptions& options) {
  Refuse(app, {"--location_cache", "--batch", "--server_pid"}, "is for a server only");
  const Workload& workload = options.workload;
  if (options.processes > 1) {
    throw CLI::ValidationError("--processes", "is for a server: each would have a store of its own");
  }
  StoreOptions& store = options.target.store;
  store.durability = flags.durability == "synced"   ? Durability::kSynced
                     : flags.durability == "logged" ? Durability::kLogged
                                                    : Durability::kMemory;
  store.eviction = flags.eviction == "none" ? Eviction::kNone : Eviction::kLeastUsed;
  if (options.target.address != kEmbeddedTarget) {
    Refuse(app, {"--eviction"}, "is for --target=embedded only");
    if (store.data_dir.empty()) throw CLI::ValidationError("--data_dir", "is required: it has files");
  } else {
    const bool in_memory = store.durability == Durability::kMemory;
    if (!in_memory && store.data_dir.empty()) {
      throw CLI::ValidationError("--durability", "logged and synced need --data_dir");
    }
    if (in_memory && !store.data_dir.empty()) {
      throw CLI::ValidationError("--data_dir", "needs --durability=logged or synced");
    }
    if (in_memory && !options.load) {
      throw CLI::ValidationError("run", "an embedded store in memory starts empty: use all");
    }
    if (in_memory && workload.mix.scan > 0) {
      throw CLI::ValidationError("scanproportion",
                                 "scans need --durability=logged or synced, and --data_dir");
    }
  }
  store.memory_size = flags.memory != 0 ? flags.memory
                                        : EmbeddedMemoryFor(workload.records + InsertsOf(workload),
                                                            KeyMaker(workload.keys).max_size(),
                                                            workload.fields.max_value_size());
}

// Throws CLI::ValidationError when the flags contradict each other.
void Resolve(const CLI::App& app, const Flags& flags, BenchOptions& options) {
  if (flags.command == "report") {
    if (options.reports.empty()) throw CLI::ValidationError("report", "needs files that --json wrote");
    if (options.html_path.empty()) throw CLI::ValidationError("report", "needs --html");
    return;
  }
  Refuse(app, {"--by"}, "is for report only");
  if (!options.reports.empty()) throw CLI::ValidationError(options.reports[0], "files are for report only");
  if (app.count("--target") == 0) throw CLI::ValidationError("--target", "is required");
  options.load = flags.command != "run";
  options.run = flags.command == "run" || flags.command == "all";
  options.floor = flags.command == "floor";
  if (const absl::Status status = ResolveWorkload(flags, options.workload); !status.ok()) {
    Fail("workload", status);
  }
  if (options.floor) ResolveFloor(options);
  if (IsInProcess(options.target.address)) {
    ResolveStore(app, flags, options);
  } else {
    ResolveServer(app, flags, options);
  }
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
  AddOutputFlags(app, options);
  try {
    app.parse(argc, argv);
    Resolve(app, flags, options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : EX_USAGE;
  }
  return options;
}

}  // namespace remora::bench
