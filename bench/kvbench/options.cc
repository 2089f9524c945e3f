#include "bench/kvbench/options.h"

#include <sysexits.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/help_text.h"
#include "bench/kvbench/load/properties.h"
#include "bench/kvbench/load/workload.h"
#include "bench/peers/peers.h"
#include "client/async_client.h"
#include "client/session/credentials.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/place.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

using command_line::CommandLine;

// The flags as text and numbers, before they become options.
struct Flags {
  std::string command;
  std::string workload = "b";
  std::string durability = "memory";
  std::string eviction = "none";
  std::uint64_t memory = 0;
  std::size_t location_cache = 0;
  std::size_t index_mirror = 0;
  std::string token_file;
  std::vector<std::string> files;
  std::vector<std::string> properties;
  std::vector<Property> shorthands;  // in the order of the command line
  std::string value_size;
  Fields::Lengths value_sizes = Fields::Lengths::kUniform;
  bool verify = false;
};

void AddTargetFlags(CommandLine& line, Flags& flags, BenchOptions& options) {
  line.Add("command", flags.command,
           "load: insert the records; run: the workload; all: both; floor: load, then what a client's "
           "operations\n"
           "cost beside what nobody could do without; report: show what --json wrote")
      .Required()
      .IsOneOf({"load", "run", "all", "floor", "report"})
      .Placeholder("load | run | all | floor | report");
  line.Add("files", options.reports, "report: files that --json wrote, to be compared")
      .Placeholder("FILE...");
  line.Add(
          "--target", options.target.address,
          "verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT, local:///PATH, cluster:FILE with a topology\n"
          "file, or embedded; of others: redis://HOST:PORT, redis:///PATH, rediss://HOST:PORT,\n"
          "memcached://HOST:PORT, memcached:///PATH, or, inside kvbench, rocksdb, lmdb")
      .Placeholder("ADDRESS");
  line.Add("--memory", flags.memory,
           "embedded: size of the store (rocksdb: of its cache); default: what the records need")
      .Size()
      .Placeholder("SIZE");
  line.Add("--location_cache", flags.location_cache,
           "server: memory for each thread's client to remember where keys are; 0: none; default: 8M\n"
           "over verbs, none through mapped memory")
      .Size()
      .Placeholder("SIZE");
  line.Add("--index_mirror", flags.index_mirror,
           "server: memory for each thread's client to keep a copy of the index; 0, the default: none")
      .Size()
      .Placeholder("SIZE");
  line.AddFlag("--one_sided", options.target.one_sided,
               "server with an ordered index: clients read the keys of scans in its memory, too");
  line.Add("--token_file", flags.token_file,
           "server: auth token, as `kvctl create_token` printed it, for a server that requires one")
      .Environment("REMORA_TOKEN_FILE")
      .Placeholder("FILE");
  line.Add(
          "--tls_ca", options.target.client.tls.ca,
          "over tls:// and rediss://: certificates of the authorities that sign the server's; without, over\n"
          "tls://, the token has to do")
      .Environment("REMORA_TLS_CA")
      .Placeholder("FILE");
  line.Add("--tls_cert", options.target.client.tls.cert,
           "this client's certificate, for a server that asks for one")
      .Environment("REMORA_TLS_CERT")
      .Placeholder("FILE");
  line.Add("--tls_key", options.target.client.tls.key, "the key of --tls_cert")
      .Environment("REMORA_TLS_KEY")
      .Placeholder("FILE");
  line.AddFlag(
      "--batch", options.target.batch,
      "server, with --depth: by MultiGet and MultiPut, and not by an AsyncClient; redis: by MGET and\n"
      "MSET, and not in a pipeline");
  line.Add("--server_pid", options.server_pid,
           "Also tell the processor time that this process, the server, takes")
      .Range(1, 1 << 22)
      .Placeholder("PID");
  line.Add("--durability", flags.durability, "inside kvbench: memory (default), logged or synced")
      .IsOneOf({"memory", "logged", "synced"})
      .Placeholder("NAME");
  line.Add("--eviction", flags.eviction,
           "embedded, when the memory is full: none (default; writes fail) or least_used")
      .IsOneOf({"none", "least_used"})
      .Placeholder("NAME");
  line.Add("--data_dir", options.target.store.data_dir,
           "embedded, logged or synced; rocksdb; lmdb: the store's directory; floor: an empty one, for "
           "RocksDB and\n"
           "syncs to compare with")
      .Placeholder("DIR");
}

void AddOutputFlags(CommandLine& line, BenchOptions& options) {
  line.AddChoice("--format", options.format, {{"table", OutputFormat::kTable}, {"ycsb", OutputFormat::kYcsb}},
                 "What is printed: table (default), or ycsb, its summary lines")
      .Placeholder("NAME");
  line.Add("--json", options.json_path, "Also write all that was measured to this file").Placeholder("FILE");
  line.Add("--csv", options.csv_path, "The same as a table of operations and intervals").Placeholder("FILE");
  line.Add("--html", options.html_path, "The same as a page with charts, complete in one file")
      .Placeholder("FILE");
  line.Add("--by", options.by,
           "report: as curves over this one of their settings: threadcount, recordcount, fieldlength,\n"
           "readproportion, depth, ...")
      .Placeholder("SETTING");
  line.Add("--interval", options.workload.interval_seconds,
           "Keep a time series of the run, in intervals of so many seconds, in the files")
      .Range(0.01, 1e6)
      .Placeholder("S");
}

// A flag that is short for a property: its text becomes the property's.
void AddShorthand(CommandLine& line, Flags& flags, const char* flag, const char* key, const char* placeholder,
                  const std::string& description) {
  line.AddFunction<std::string>(
          flag,
          [&flags, flag, key](const std::string& text) {
            flags.shorthands.push_back({key, text, flag});
          },
          description)
      .Placeholder(placeholder);
}

// Defaults stand in the descriptions, as they would be printed between names of types.
void AddWorkloadFlags(CommandLine& line, Flags& flags, BenchOptions& options) {
  Workload& workload = options.workload;
  const command_line::Option core =
      line.Add("--workload", flags.workload, "YCSB's core workload: a, b (default), c, d, e or f")
          .Placeholder("NAME");
  line.Add("-P,--properties", flags.files,
           "A workload in YCSB's property file; of several, later ones win. What none says is as in YCSB")
      .Excludes(core)
      .Placeholder("FILE");
  line.Add("-p,--property", flags.properties, "One property; wins over files").Placeholder("KEY=VALUE");
  AddShorthand(line, flags, "--records", "recordcount", "N", "Records; default 100000");
  line.Add("--value_size", flags.value_size,
           "Of each value, 16 to 64M, in one field; default 64. LEAST..MOST, as 4K..1M: each record has its "
           "own")
      .Placeholder("SIZE");
  line.AddChoice("--value_size_distribution", flags.value_sizes,
                 {{"uniform", Fields::Lengths::kUniform}, {"zipfian", Fields::Lengths::kZipfian}},
                 "Of a --value_size=LEAST..MOST: uniform (default), or zipfian: the smaller, the likelier")
      .Placeholder("NAME");
  AddShorthand(line, flags, "--distribution", "requestdistribution", "NAME",
               "Which records are asked for: zipfian (default; scrambled, constant 0.99), latest, uniform,\n"
               "hotspot, exponential or sequential");
  AddShorthand(line, flags, "--operations", "operationcount", "N",
               "Of the run, all threads; default 1000000");
  AddShorthand(line, flags, "--seconds", "maxexecutiontime", "S",
               "How long the run takes at most; without --operations: how long it takes");
  AddShorthand(line, flags, "--threads", "threadcount", "N", "Each with a connection of its own; default 1");
  AddShorthand(line, flags, "--rate", "target", "N",
               "Operations per second of the run, all threads, each due at its moment; default: each thread "
               "begins its next operation when the last one has ended");
  line.Add("--depth", workload.depth,
           "Operations that each thread has under way at once, 1 (default) to 1024")
      .Range(1u, static_cast<unsigned>(kMaxAsyncDepth))
      .Placeholder("N");
  line.Add("--processes", options.processes, "Each with so many threads; of a server only; default 1")
      .Range(1u, 256u)
      .Placeholder("N");
  line.Add("--seed", workload.seed, "Of what is drawn; default 1").Placeholder("N");
  line.AddFlag("--verify", flags.verify, "Check that each value read was written for its key");
  line.Add("--warmup", workload.warm_up_seconds, "Run for so many seconds first, and do not count that")
      .Range(0.0, 1e6)
      .Placeholder("S");
  line.Add("--time_every", workload.time_every,
           "At depth 1, time one operation in so many; default 1. For operations that take no longer than\n"
           "reading the clock")
      .Range(1u, 1u << 20)
      .Placeholder("N");
}

// An error in a flag, a command or a property.
absl::Status Wrong(std::string_view name, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(AbslView(name), ": ", AbslView(why)));
}

absl::Status Wrong(std::string_view name, const absl::Status& status) {
  const absl::Status wrong = Wrong(name, StdView(status.message()));
  return absl::IsPermissionDenied(status) ? absl::PermissionDeniedError(wrong.message()) : wrong;
}

/// An output must not take the place of another one, or of an input. Devices are written by many.
absl::Status CheckOutputs(const Flags& flags, const BenchOptions& options) {
  const auto is_file = [](const std::string& path) {
    std::error_code error;
    const std::filesystem::file_type type = std::filesystem::status(path, error).type();
    return type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
  };
  std::vector<std::pair<std::string, std::string>> others;  // (how an error names the file, its path)
  for (const std::string& path : options.reports) others.emplace_back("the report " + path, path);
  for (const std::string& path : flags.files) others.emplace_back("--properties", path);
  others.emplace_back("--token_file", flags.token_file);
  others.emplace_back("--tls_ca", options.target.client.tls.ca);
  others.emplace_back("--tls_cert", options.target.client.tls.cert);
  others.emplace_back("--tls_key", options.target.client.tls.key);
  for (const auto& [flag, path] :
       {std::pair("--json", options.json_path), {"--csv", options.csv_path}, {"--html", options.html_path}}) {
    for (const auto& [other, other_path] : others) {
      if (!command_line::IsSamePlace(path, other_path) || !is_file(path)) continue;
      return Wrong(flag, absl::StrCat(path, " is also the file of ", other, ", which it would replace"));
    }
    others.emplace_back(flag, path);
  }
  return absl::OkStatus();
}

bool Says(const std::vector<Property>& properties, std::string_view key) {
  return std::any_of(properties.begin(), properties.end(),
                     [key](const Property& property) { return property.key == key; });
}

// The properties in the order in which they count: files, or a core workload; -p; flags that are short for
// one.
absl::StatusOr<std::vector<Property>> GatherProperties(const Flags& flags) {
  std::string ignored;
  std::vector<Property> all;
  const auto append = [&all](std::vector<Property> more) {
    all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  };
  for (const std::string& path : flags.files) {
    REMORA_ASSIGN_OR_RETURN(std::vector<Property> properties, ReadProperties(path));
    std::erase_if(properties, [&ignored](const Property& property) {
      if (!IsForOthers(property)) return false;
      absl::StrAppend(&ignored, ignored.empty() ? "" : ", ", property.key);
      return true;
    });
    append(std::move(properties));
  }
  if (!ignored.empty()) {
    command_line::SayError("kvbench: note: ignored, as no property of kvbench's: " + ignored);
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

absl::Status ResolveValueSizes(const CommandLine& line, const Flags& flags, Fields& fields) {
  if (line.Has("--value_size")) {
    absl::StatusOr<Fields> parsed = ParseValueSizes(flags.value_size);
    if (!parsed.ok()) return Wrong("--value_size", parsed.status());
    fields = *parsed;
  }
  if (!line.Has("--value_size_distribution")) return absl::OkStatus();
  if (flags.value_size.find("..") == std::string::npos) {
    return Wrong("--value_size_distribution", "is for a range of sizes: needs --value_size=LEAST..MOST");
  }
  fields.lengths = flags.value_sizes;
  return absl::OkStatus();
}

absl::Status ResolveWorkload(const CommandLine& line, const Flags& flags, bool runs, Workload& workload) {
  if (!flags.files.empty()) {
    const Workload defaults = YcsbDefaults();
    workload.fields = defaults.fields;
    workload.distribution = defaults.distribution;
  }
  workload.name =
      flags.files.empty() ? flags.workload : std::filesystem::path(flags.files.back()).filename().string();
  REMORA_ASSIGN_OR_RETURN(const std::vector<Property> properties, GatherProperties(flags));
  for (const Property& property : properties) REMORA_RETURN_IF_ERROR(Apply(property, &workload));
  REMORA_RETURN_IF_ERROR(ResolveValueSizes(line, flags, workload.fields));
  workload.verify |= flags.verify;
  if (workload.max_seconds > 0 && !Says(properties, "operationcount")) workload.operations = 0;
  if (workload.operations == 0 && workload.max_seconds == 0) {
    return absl::InvalidArgumentError("operationcount=0 needs maxexecutiontime: the run would have no end");
  }
  return Validate(workload, runs);
}

// Records that the run inserts, as far as it is known; as many as there are, where time ends the run.
std::uint64_t InsertsOf(const Workload& workload) {
  if (workload.mix.insert == 0) return 0;
  if (workload.operations == 0 || workload.warm_up_seconds > 0) return workload.records;
  return static_cast<std::uint64_t>(static_cast<double>(workload.operations) * workload.mix.insert * 1.1) +
         100;
}

// Flags that are for another kind of target.
absl::Status Reject(const CommandLine& line, std::initializer_list<const char*> flags, const char* why) {
  for (const char* flag : flags) {
    if (line.Has(flag)) return Wrong(flag, why);
  }
  return absl::OkStatus();
}

absl::Status CheckFlagsForPeer(const CommandLine& line, const BenchOptions& options) {
  const std::string& address = options.target.address;
  const bool has_tls = address.starts_with("rediss:");
  REMORA_RETURN_IF_ERROR(Reject(line, {"--location_cache", "--index_mirror", "--one_sided"},
                                "is for a server of Remora's only"));
  if (!has_tls && !address.starts_with("redis:")) {
    REMORA_RETURN_IF_ERROR(Reject(line, {"--batch"}, "is for a server of Remora's or a Redis only"));
  }
  if (!has_tls) {
    return Reject(line, {"--tls_ca", "--tls_cert", "--tls_key"}, "is for tls:// and rediss:// only");
  }
  if (options.target.client.tls.ca.empty()) {
    return Wrong("--tls_ca", "is required for rediss://: the authority of the server's certificate");
  }
  return absl::OkStatus();
}

absl::Status ResolveServer(const CommandLine& line, const Flags& flags, BenchOptions& options) {
  REMORA_RETURN_IF_ERROR(
      Reject(line, {"--memory", "--durability", "--eviction"}, "is for a store inside kvbench only"));
  if (!options.floor) {
    REMORA_RETURN_IF_ERROR(Reject(line, {"--data_dir"}, "is for a store inside kvbench only"));
  }
  if (IsPeer(options.target.address)) {
    REMORA_RETURN_IF_ERROR(CheckFlagsForPeer(line, options));
  }
  if (options.target.batch && options.workload.depth == 1) {
    return Wrong("--batch", "needs --depth: of one, there is nothing to do together");
  }
  if (!flags.token_file.empty() && !IsPeer(options.target.address)) {
    // Raw requests prove nothing.
    if (options.floor) return Wrong("floor", "is for a server that asks for no token");
    absl::StatusOr<std::string> token = ReadTokenFile(flags.token_file);
    if (!token.ok()) return Wrong("--token_file", token.status());
    options.target.client.token = *std::move(token);
  }
  const bool has_tls_flag = line.Has("--tls_ca") || line.Has("--tls_cert") || line.Has("--tls_key");
  // The environment is for all addresses, and some of them have no TLS.
  const std::string& address = options.target.address;
  if (!has_tls_flag && address.find("tls://") == std::string::npos && !address.starts_with("rediss:"))
    options.target.client.tls = {};
  if (line.Has("--location_cache")) options.target.client.location_cache_bytes = flags.location_cache;
  if (line.Has("--index_mirror")) options.target.client.index_mirror_bytes = flags.index_mirror;
  return absl::OkStatus();
}

absl::Status ResolveFloor(const BenchOptions& options) {
  if (IsInProcess(options.target.address) || IsPeer(options.target.address)) {
    return Wrong("floor", "is for a server of Remora's only");
  }
  const Fields& fields = options.workload.fields;
  if (fields.count > 1 || fields.lengths != Fields::Lengths::kConstant ||
      fields.length > kMaxSmallValueSize) {
    return Wrong("floor", absl::StrCat("takes values of one size, ", kMaxSmallValueSize, " bytes at most"));
  }
  return absl::OkStatus();
}

absl::Status ResolveStore(const CommandLine& line, const Flags& flags, BenchOptions& options) {
  REMORA_RETURN_IF_ERROR(Reject(line,
                                {"--location_cache", "--index_mirror", "--one_sided", "--batch",
                                 "--server_pid", "--tls_ca", "--tls_cert", "--tls_key"},
                                "is for a server only"));
  const Workload& workload = options.workload;
  if (options.processes > 1) {
    return Wrong("--processes", "is for a server: each would have a store of its own");
  }
  StoreOptions& store = options.target.store;
  store.durability = flags.durability == "synced"   ? Durability::kSynced
                     : flags.durability == "logged" ? Durability::kLogged
                                                    : Durability::kMemory;
  store.eviction = flags.eviction == "none" ? Eviction::kNone : Eviction::kLeastUsed;
  if (options.target.address != kEmbeddedTarget) {
    REMORA_RETURN_IF_ERROR(Reject(line, {"--eviction"}, "is for --target=embedded only"));
    if (store.data_dir.empty()) return Wrong("--data_dir", "is required: it has files");
  } else {
    const bool in_memory = store.durability == Durability::kMemory;
    if (!in_memory && store.data_dir.empty()) {
      return Wrong("--durability", "logged and synced need --data_dir");
    }
    if (in_memory && !store.data_dir.empty()) {
      return Wrong("--data_dir", "needs --durability=logged or synced");
    }
    if (in_memory && !options.load) {
      return Wrong("run", "an embedded store in memory starts empty: use all");
    }
    if (in_memory && options.run && workload.mix.scan > 0) {
      return Wrong("scanproportion", "scans need --durability=logged or synced, and --data_dir");
    }
  }
  store.memory_size = flags.memory != 0 ? flags.memory
                                        : EmbeddedMemoryFor(workload.records + InsertsOf(workload),
                                                            KeyMaker(workload.keys).max_size(),
                                                            workload.fields.max_value_size());
  return absl::OkStatus();
}

// Flags without which a run is measured in the same way. `load` takes the flags of the run, so that one set
// of flags serves both.
absl::Status CheckFlagsHaveEffect(const CommandLine& line, const BenchOptions& options) {
  if (options.floor) {
    REMORA_RETURN_IF_ERROR(
        Reject(line, {"--seconds", "--rate", "--distribution", "--interval", "--warmup", "--time_every"},
               "is for a run; floor makes a round of each operation: leave it out"));
  }
  if (options.json_path.empty() && options.csv_path.empty() && options.html_path.empty()) {
    REMORA_RETURN_IF_ERROR(
        Reject(line, {"--interval"}, "needs a file that takes the series: --json, --csv or --html"));
  }
  if (options.workload.depth > 1 || options.workload.rate > 0) {
    REMORA_RETURN_IF_ERROR(Reject(line, {"--time_every"}, "is for --depth=1, without --rate; leave it out"));
  }
  if (IsInProcess(options.target.address) || IsPeer(options.target.address)) {
    REMORA_RETURN_IF_ERROR(Reject(line, {"--token_file"}, "is for a server of Remora's only"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlagsForReport(const CommandLine& line) {
  return Reject(line, {"--target",       "--memory",     "--location_cache",
                       "--token_file",   "--batch",      "--server_pid",
                       "--durability",   "--eviction",   "--data_dir",
                       "--workload",     "-P",           "-p",
                       "--records",      "--value_size", "--value_size_distribution",
                       "--distribution", "--operations", "--seconds",
                       "--threads",      "--rate",       "--depth",
                       "--processes",    "--seed",       "--verify",
                       "--warmup",       "--time_every", "--interval",
                       "--format",       "--json",       "--csv",
                       "--index_mirror", "--one_sided"},
                "is for a run; report takes --html and --by: leave it out");
}

// An error where the flags contradict each other.
absl::Status Resolve(const CommandLine& line, const Flags& flags, BenchOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckOutputs(flags, options));
  if (flags.command == "report") {
    if (options.reports.empty()) return Wrong("report", "needs files that --json wrote");
    if (options.html_path.empty() && !options.by.empty()) return Wrong("--by", "draws charts: needs --html");
    return CheckFlagsForReport(line);
  }
  REMORA_RETURN_IF_ERROR(Reject(line, {"--by"}, "is for report only"));
  if (!options.reports.empty()) return Wrong(options.reports[0], "files are for report only");
  if (!line.Has("--target")) return Wrong("--target", "is required");
  options.load = flags.command != "run";
  options.run = flags.command == "run" || flags.command == "all";
  options.floor = flags.command == "floor";
  if (const absl::Status status = ResolveWorkload(line, flags, options.run, options.workload); !status.ok()) {
    return Wrong("workload", status);
  }
  if (options.floor) REMORA_RETURN_IF_ERROR(ResolveFloor(options));
  REMORA_RETURN_IF_ERROR(CheckFlagsHaveEffect(line, options));
  if (IsInProcess(options.target.address)) {
    return ResolveStore(line, flags, options);
  }
  return ResolveServer(line, flags, options);
}

}  // namespace

std::variant<BenchOptions, int> ParseCommandLine(int argc, const char* const* argv) {
  BenchOptions options;
  Flags flags;
  CommandLine line(kDescription, "kvbench");
  line.Footer(std::string(absl::StrCat("\nA SIZE is ", command_line::kSizeText, ".\n", kFooter)));
  line.Version("kvbench of Remora " REMORA_VERSION);
  AddTargetFlags(line, flags, options);
  AddWorkloadFlags(line, flags, options);
  AddOutputFlags(line, options);
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  if (const absl::Status status = Resolve(line, flags, options); !status.ok()) {
    const int usage = line.Fail(std::string(status.message()));
    return absl::IsPermissionDenied(status) ? EX_NOPERM : usage;
  }
  return options;
}

}  // namespace remora::bench
