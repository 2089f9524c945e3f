#include "server/main/flags.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/http/host_check.h"
#include "server/main/change_log_flag.h"
#include "server/main/cluster_flags.h"
#include "server/main/commit_log_size.h"
#include "server/main/descriptors.h"
#include "server/main/etcd_flags.h"
#include "server/main/listen_checks.h"
#include "server/main/redis_gate.h"
#include "server/main/replication_flags.h"
#include "server/main/shards_flags.h"
#include "server/memory/memory_budget.h"
#include "server/memory/system_memory.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/types/duration_text.h"
#include "store/format/types/expiry.h"
#include "store/options.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/find_value.h"
#include "tools/command_line/number_text.h"
#include "tools/command_line/place.h"

namespace remora {
namespace {

constexpr char kExitStatus[] = R"(
Exit status:
   0  stopped by TERM or INT
  64  a bad flag, address or size; a file of tokens or for TLS that is missing or wrong
  66  the file of --config is missing, or is no file
  69  no RDMA device or host for an address, or no kvgate for --redis
  71  too little memory, or memory that may be locked, or threads, or descriptors
  73  a file or socket cannot be made
  74  disk full, data corrupt or another input/output error
  75  the data directory, port or socket is in use; or another member has become the primary:
      started again, the server follows it
  77  no permission, or a file of secrets that others may read
  78  the data does not fit in --memory, or has a format that this kvserver does not know;
      --data_dir has the data of another --shard; or --config has a bad line; or the shard does
      not have this --member any more)";

constexpr std::uint32_t kReadThreads = 8;

constexpr char kLogFormatFlag[] = "--log_format";
constexpr char kJsonFormat[] = "json";

constexpr char kConfigHead[] = "# kvserver " REMORA_VERSION
                               ": what is in force, for kvserver --config=FILE. A comment is a flag that "
                               "nobody set, with its default.\n";

/// A flag of a transport that no address has would do nothing. (--insecure_open and --insecure_http may be
/// given without need: they permit what is then not done.)
absl::Status CheckTransportFlags(const command_line::CommandLine& line, const Flags& flags) {
  struct OfTransport {
    const char* flag;
    const char* transport;
    rdma::TransportKind kind;
    const char* example;
  };
  constexpr OfTransport kFlags[] = {
      {"--tcp_threads", "tcp", rdma::TransportKind::kTcp, "tcp://HOST:PORT"},
      {"--memory_windows", "verbs", rdma::TransportKind::kVerbs, "verbs://HOST:PORT"},
      {"--local_access", "local", rdma::TransportKind::kLocal, "local:///PATH"},
      {"--socket_mode", "local", rdma::TransportKind::kLocal, "local:///PATH"},
      {"--socket_group", "local", rdma::TransportKind::kLocal, "local:///PATH"},
  };
  for (const auto& [flag, transport, kind, example] : kFlags) {
    const bool is_served = std::ranges::any_of(
        flags.listen, [wanted = kind](const rdma::Address& address) { return address.kind == wanted; });
    if (is_served || !line.Has(flag)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": is for ", transport,
        " addresses, and --listen names none; leave it out, or serve one (--listen=", example, ")"));
  }
  return absl::OkStatus();
}

std::optional<mode_t> OctalMode(std::string_view text) {
  mode_t mode = 0;
  if (text.size() < 3 || text.size() > 4) return std::nullopt;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    mode = mode * 8 + static_cast<mode_t>(digit - '0');
  }
  constexpr mode_t kAll = S_IRWXU | S_IRWXG | S_IRWXO;
  return (mode & ~kAll) == 0 ? std::optional(mode) : std::nullopt;
}

/// A number is a group even if it has no name.
std::optional<gid_t> GroupOf(const std::string& text) {
  if (const group* const named = ::getgrnam(text.c_str())) return named->gr_gid;
  constexpr gid_t kNone = static_cast<gid_t>(-1);
  gid_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && read == end && number != kNone ? std::optional(number) : std::nullopt;
}

/// Flags whose text is not yet the setting.
struct Texts {
  std::optional<std::uint32_t> read_threads{};
  std::vector<std::string> addresses{};
  Durability durability = Durability::kLogged;
  std::optional<std::string> default_ttl{};
  std::optional<std::string> watch_retention{};
  std::optional<std::string> socket_mode{};
  std::optional<std::string> socket_group{};
  std::optional<std::string> shard{};
  std::optional<std::string> commit_log{};
  bool quiet = false;
};

std::string FaultOfTtl(const std::string& text) {
  std::string why;
  return ParseTtl(text, &why) ? "" : why;
}

std::string FaultOfRetention(const std::string& text) {
  std::string why;
  const auto time = ParseTtl(text, &why);
  if (!time) return why;
  return *time == kNeverExpires ? "the disk would fill" : "";
}

void AddMemoryFlags(command_line::CommandLine& line, Flags* flags, Texts* texts) {
  line.Add("--listen", texts->addresses,
           "Address to serve: verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH; may be "
           "repeated. Over TCP, a HOST with several addresses is served at each")
      .Required()
      .Check([](const std::string& text) { return std::string(rdma::ParseAddress(text).status().message()); })
      .TypeName("ADDRESS");
  line.Add("--data_dir", flags->server.store.data_dir,
           "RocksDB's directory; made when missing. Needed with --durability=logged and synced")
      .TypeName("DIR");
  line.Add("--memory", flags->memory,
           absl::StrCat("All the memory that clients may reach: ", command_line::kSizeText,
                        ". It has the index, the records, and the buffers of each client (see "
                        "--max_clients). RocksDB's buffers and cache, and the program, come on top. "
                        "--eviction says what happens when it is full"))
      .Size()
      .ShowDefault()
      .TypeName("SIZE");
}

void AddStorageFlags(command_line::CommandLine& line, Flags* flags, Texts* texts) {
  const command_line::Option backup_dir = line.Add("--backup_dir", flags->server.backup_dir,
                                                   "Directory in which `kvctl backup` makes backups; made "
                                                   "when missing. Without it they are rejected")
                                              .TypeName("DIR");
  line.Add("--backup_keep", flags->server.backup_keep,
           "After a backup, delete all but this number of the newest ones; 0: delete none")
      .Range(0, 1'000'000)
      .ShowDefault()
      .Needs(backup_dir);
  line.AddChoice(
          "--durability", texts->durability,
          {{"memory", Durability::kMemory}, {"logged", Durability::kLogged}, {"synced", Durability::kSynced}},
          "What an acknowledged write survives: memory (nothing), logged (the death of this process), "
          "synced (that of the machine)")
      .DefaultText("logged");
  line.AddChoice(
          "--eviction", flags->server.store.eviction,
          {{"none", Eviction::kNone}, {"least_used", Eviction::kLeastUsed}},
          "When memory is full: none (reject writes; all data must fit), least_used (records that were "
          "not used lately stay on disk only; with --durability=memory, they are dropped)")
      .DefaultText("least_used");
  line.AddChoice(
          "--ordered", flags->server.store.ordered_index, {{"off", false}, {"memory", true}},
          "Order of the keys: memory (an index of all keys beside --memory; scans and counts are of one "
          "moment, in order, and read no disk for records in memory), off (with a disk, they read RocksDB; "
          "with --durability=memory, scans show keys in any order)")
      .DefaultText("off");
  line.Add("--default_ttl", texts->default_ttl,
           "Time to live of a key whose write gives none: 500ms, 30s, 15m, 12h, 7d, ... or never")
      .Check(FaultOfTtl)
      .DefaultText("never")
      .TypeName("DURATION");
  line.Add("--watch_retention", texts->watch_retention,
           "Time for which changes stay on disk for watches that were away: 10m, 1d, ... The latest 64 MiB "
           "of the log stay in any case, over restarts as well")
      .Check(FaultOfRetention)
      .TypeName("DURATION");
  line.Add("--shard", texts->shard,
           "The shard of a cluster that this server is, as CLUSTER/NAME; the topology file of `kvctl cluster "
           "init` has both. Clients of the cluster reject another server, and a --data_dir keeps its shard")
      .Check(FaultOfShard)
      .TypeName("SHARD");
  line.Add("--commit_log", texts->commit_log,
           "Size of the commit log: files in --data_dir that have each write before it is acknowledged; "
           "RocksDB is filled behind them. Default: less where disk or memory is small. off: RocksDB's own "
           "log, which is slower. A directory that has a commit log does not open without")
      .Check(FaultOfCommitLogSize)
      .TypeName("SIZE")
      .DefaultText("1G");
  AddChangeLogFlag(line, flags);
}

void AddAccessFlags(command_line::CommandLine& line, Flags* flags, Texts* texts) {
  line.Add("--max_clients", flags->max_clients,
           "Connections at most; for each, 0.28 MB of --memory are kept, or 0.37 MB if one of the addresses "
           "is local. Default: as many as 1/8 of it holds, but 4 to 512")
      .Range(1, 65536);
  line.Add("--ready_fd", flags->ready_fd, "Write a line to this open descriptor, and close it, once serving")
      .NotNegative();
  line.Add("--tokens", flags->server.tokens_file,
           "Serve only clients with one of these tokens: a file of lines NAME ROLE SECRET, as `kvctl "
           "create_token` makes them. Read anew on SIGHUP: connections whose token is gone, or changed, end")
      .TypeName("FILE");
  line.Add("--tls_cert", flags->tls.cert,
           "Over tls://, the server's certificate, and behind it those between it and the authority (PEM). "
           "Without, the tokens give the keys of TLS. Read anew on SIGHUP, as --tls_key and --tls_ca")
      .TypeName("FILE");
  line.Add("--tls_key", flags->tls.key, "The key of --tls_cert (PEM), in a file that others cannot read")
      .TypeName("FILE");
  line.Add("--tls_ca", flags->tls.ca,
           "Over tls://, serve only clients with a certificate of one of these authorities (PEM); a token "
           "alone is then not enough")
      .TypeName("FILE");
  line.AddFlag("--insecure_open", flags->insecure_open,
               "Serve every client that reaches a verbs, tcp or tls address; with --tokens, also clients "
               "without one. At a loopback address without --tokens, all users of this host are served in "
               "any case; with this flag, the log does not warn of it");
  line.AddChoice(
          "--local_access", flags->local_access.admits,
          {{"owner", rdma::LocalAccess::Admits::kOwner},
           {"group", rdma::LocalAccess::Admits::kGroup},
           {"anyone", rdma::LocalAccess::Admits::kAnyone}},
          "Processes that a local address serves: owner (of this user, and of root), group (also those "
          "of the socket's group), anyone. With --tokens, each of them needs a token as well")
      .DefaultText("owner");
  line.Add("--socket_mode", texts->socket_mode,
           "Mode of the socket of a local address, in octal. Default: 600, 660 or 666, as --local_access "
           "says, less the umask")
      .Check([](const std::string& text) {
        return OctalMode(text) ? "" : "'" + text + "' is no mode of three or four octal digits, up to 777";
      })
      .TypeName("MODE");
  line.Add("--socket_group", texts->socket_group,
           "Group of the socket of a local address, by name or number. Default: this process's, or the "
           "directory's if that has the setgid bit")
      .Check([](const std::string& text) { return GroupOf(text) ? "" : "there is no group '" + text + "'"; })
      .TypeName("GROUP");
}

void AddMachineFlags(command_line::CommandLine& line, Flags* flags, Texts* texts) {
  line.Add(
          "--read_threads", texts->read_threads,
          "Threads that read values from RocksDB when clients get keys that are not in memory; 0: the thread "
          "that serves the clients reads them, and all clients wait meanwhile")
      .Range(0, 256)
      .DefaultText(std::to_string(kReadThreads));
  line.Add("--tcp_threads", flags->tcp_threads, "Threads that serve the reads of each tcp or tls address")
      .Range(1, 64)
      .ShowDefault();
  line.Add("--nice", flags->nice,
           "Nice value of the server's thread, for a machine whose CPUs are busy: below 0, it runs before "
           "others")
      .Range(-20, 0)
      .ShowDefault();
  line.AddChoice(
          "--memory_windows", flags->memory_windows,
          {{"auto", rdma::MemoryWindows::kAuto}, {"off", rdma::MemoryWindows::kOff}},
          "Over verbs, bind what a client may write to its connection, so that no other client can write "
          "there: auto (where the device has memory windows of type 2B; the log, and `kvctl stats`, say "
          "whether), off")
      .DefaultText("auto");
  line.AddChoice(
          "--large_pages", flags->server.huge_pages, {{"auto", true}, {"off", false}},
          "Ask the system for large pages for the memory, which makes reads on the same machine faster: "
          "auto (where it has some; `kvctl stats` says how many bytes), off")
      .DefaultText("auto");
}

void AddOperatorFlags(command_line::CommandLine& line, Flags* flags, Texts* texts) {
  const command_line::Option http =
      line.Add("--http", flags->http,
               "Serve metrics for Prometheus (/metrics), /healthz, /readyz and /info.json by HTTP at "
               "HOST:PORT; without --insecure_http, only where this machine alone reaches it")
          .TypeName("HOST:PORT");
  line.AddFlag("--insecure_http", flags->insecure_http,
               "Serve --http also at an address that other machines reach: to all of them, without a token")
      .Needs(http);
  line.Add("--http_host", flags->http_hosts,
           "Name of this server, beside an IP address, localhost and that of --http, under which --http "
           "answers; may be repeated. A request for another host is rejected, as pages of other sites could "
           "send it")
      .Check([](const std::string& text) {
        return IsHostName(text) ? ""
                                : "'" + text + "' is no name of a host; write it without a scheme and a port";
      })
      .TypeName("NAME")
      .Needs(http);
  AddGateFlags(line, &flags->gate);
  line.AddChoice(kLogFormatFlag, flags->log_format,
                 {{"text", LogFormat::kText}, {kJsonFormat, LogFormat::kJson}},
                 "Form of the log's lines: text, or json (an object with time, level, event and message)")
      .DefaultText("text");
  const command_line::Option log_level =
      line.AddChoice(
              "--log_level", flags->log_level,
              {{"error", LogLevel::kError}, {"warning", LogLevel::kWarning}, {"info", LogLevel::kInfo}},
              "Log events of this level and above: error, warning, info")
          .DefaultText("info");
  line.AddFlag("--quiet", texts->quiet,
               "As --log_level=warning: nothing about clients that come or go, the start and the load")
      .Excludes(log_level);
  const command_line::Option printing = line.ReadsConfigFile(
      "Read flags from a file of lines `key = value`, where --key=value would be the flag; this command line "
      "goes before it, also by --quiet=false");
  line.AddFlag(
          "--check_config", flags->checks_config,
          "Check all that a start checks before it makes something, print the faults, and exit: the flags, "
          "the files and directories that they name, the addresses, and memory and descriptors. Run it as "
          "the server's user")
      .OnlyOnCommandLine()
      .Excludes(printing);
  line.Version("kvserver " REMORA_VERSION);
}

/// Takes over the texts, and checks the flags that the store needs. InvalidArgument: two flags contradict
/// each other, or one would do nothing.
absl::Status TakeStorage(const Texts& texts, const SystemMemory& system, Flags* flags) {
  StoreOptions& store = flags->server.store;
  std::string why;
  flags->server.read_threads = texts.read_threads.value_or(kReadThreads);
  store.durability = texts.durability;
  store.loading = Loading::kInBackground;
  if (texts.shard) store.shard = IdentityIn(*texts.shard).value();
  if (texts.default_ttl) store.default_ttl = ParseTtl(*texts.default_ttl, &why).value();
  if (texts.watch_retention) {
    store.watch_retention =
        std::chrono::ceil<std::chrono::seconds>(ParseTtl(*texts.watch_retention, &why).value());
  }
  const auto reject = [](std::string_view text) { return absl::InvalidArgumentError(AbslView(text)); };
  REMORA_RETURN_IF_ERROR(CheckChangeLogFlag(*flags));
  const bool has_dir = !store.data_dir.empty();
  if (store.durability != Durability::kMemory && !has_dir) {
    return reject("--durability=logged and synced need --data_dir=DIR; or choose --durability=memory");
  }
  if (store.durability == Durability::kMemory) {
    if (has_dir) return reject("--durability=memory keeps nothing in a --data_dir; leave one out");
    if (!flags->server.backup_dir.empty())
      return reject("--durability=memory has nothing to back up; leave out --backup_dir");
    if (texts.watch_retention)
      return reject("--durability=memory has no log on disk; leave out --watch_retention (see --change_log)");
    if (texts.read_threads)
      return reject("--durability=memory reads nothing from RocksDB; leave out --read_threads");
    if (texts.commit_log && ReadCommitLogSize(*texts.commit_log) != 0)
      return reject("--durability=memory logs nothing; leave out --commit_log");
    return absl::OkStatus();
  }
  store.commit_log_bytes = texts.commit_log ? ReadCommitLogSize(*texts.commit_log).value()
                                            : DefaultCommitLogSize(store.data_dir, system);
  if (command_line::IsSamePlace(store.data_dir, flags->server.backup_dir)) {
    return reject("--data_dir and --backup_dir are the same directory; backups need one of their own");
  }
  return absl::OkStatus();
}

/// Takes over the addresses, and checks the flags that belong to them. InvalidArgument: as for TakeStorage,
/// or an address would serve clients that nobody checks.
// Each is compared with all others, and takes a socket.
constexpr std::size_t kMaxAddresses = 256;

absl::Status TakeAddresses(const command_line::CommandLine& line, const Texts& texts, Flags* flags) {
  if (texts.socket_mode) flags->local_access.mode = OctalMode(*texts.socket_mode);
  if (texts.socket_group) flags->local_access.group = GroupOf(*texts.socket_group);
  if (texts.addresses.size() > kMaxAddresses) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: ", texts.addresses.size(),
                                                   " addresses are given, and ", kMaxAddresses,
                                                   " is the most; leave some out"));
  }
  for (const std::string& text : texts.addresses) {
    REMORA_ASSIGN_OR_RETURN(rdma::Address address, rdma::ParseAddress(text));
    for (const rdma::Address& other : flags->listen) {
      if (!IsSameAddress(address, other)) continue;
      return absl::InvalidArgumentError(absl::StrCat("--listen=", text, ": is given twice; leave one out"));
    }
    flags->listen.push_back(std::move(address));
  }
  REMORA_RETURN_IF_ERROR(CheckTransportFlags(line, *flags));
  const bool has_tokens = !flags->server.tokens_file.empty();
  REMORA_RETURN_IF_ERROR(CheckTls(flags->listen, flags->tls, has_tokens));
  REMORA_RETURN_IF_ERROR(CheckWhomItServes(flags->listen, flags->tls, has_tokens || flags->insecure_open));
  return CheckGateFlags(*flags);
}

}  // namespace

std::optional<int> ParseFlags(int argc, char** argv, FlagsFor purpose, Flags* flags,
                              const std::function<void(const std::string& error)>& report) {
  flags->server.huge_pages = true;
  const SystemMemory system = ReadSystemMemory();
  flags->memory = DefaultMemory(system);
  command_line::CommandLine line(
      "kvserver: a key-value store whose clients read it in place, over RDMA, TCP or mapped memory.");
  line.Footer(kExitStatus);
  line.ReportTo(report);
  Texts texts;
  AddMemoryFlags(line, flags, &texts);
  AddStorageFlags(line, flags, &texts);
  AddAccessFlags(line, flags, &texts);
  AddReplicationFlags(line, flags);
  AddClusterFlags(line, flags);
  AddShardsFlags(line, flags);
  AddMachineFlags(line, flags, &texts);
  AddOperatorFlags(line, flags, &texts);
  if (const std::optional<int> exit_status = line.Parse(argc, argv)) return exit_status;

  absl::Status usable;
  if (flags->ready_fd >= 0 && purpose == FlagsFor::kStart) usable = CheckReadyFd(flags->ready_fd);
  if (usable.ok()) usable = TakeStorage(texts, system, flags);
  if (usable.ok()) usable = TakeAddresses(line, texts, flags);
  if (usable.ok()) usable = TakeReplication(flags);
  if (usable.ok()) usable = TakeCluster(flags);
  if (usable.ok()) usable = TakeShards(line, flags);
  if (!usable.ok()) {
    report(std::string(usable.message()));
    return EX_USAGE;
  }
  if (line.asks_for_config())
    return line.Print(absl::StrCat(kConfigHead, command_line::ConfigText(line.Settings())));
  flags->server.serves_without_token = flags->insecure_open;
  flags->has_config_file = line.Has("--config");
  flags->settings = Settings(line.Settings());
  flags->settings.SetDefault("commit_log", CommitLogSizeText(flags->server.store.commit_log_bytes));
  // With --shards, each server has a part.
  if (flags->server.slots != nullptr) flags->settings.SetDefault("slots", SlotsText(*flags->server.slots));
  if (texts.quiet) {
    flags->log_level = LogLevel::kWarning;
    flags->settings.SetDefault("log_level", LogLevelName(flags->log_level));
  }
  return std::nullopt;
}

LogFormat AskedLogFormat(int argc, char** argv) {
  const std::optional<std::string> asked = command_line::FindValue(argc, argv, kLogFormatFlag);
  return asked == kJsonFormat ? LogFormat::kJson : LogFormat::kText;
}

}  // namespace remora
