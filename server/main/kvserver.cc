// kvserver: serves one store at one or several addresses until TERM or INT.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rdma/tls.h"
#include "server/connection/auth_tokens.h"
#include "server/connection/client_session.h"
#include "server/http/monitor_service.h"
#include "server/main/descriptors.h"
#include "server/main/exit_status.h"
#include "server/main/listen_checks.h"
#include "server/memory/memory_budget.h"
#include "server/memory/memory_reserve.h"
#include "server/memory/system_memory.h"
#include "server/monitoring/log_writer.h"
#include "server/server.h"
#include "store/base/absl_view.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"
#include "store/format/types/duration_text.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/place.h"
#include "tools/command_line/say.h"

namespace remora {
namespace {

constexpr char kExitStatus[] = R"(
Exit status: 0 stopped by TERM or INT; 64 a bad flag, address or size, or a file of tokens or for TLS that is missing or
  wrong;  69 no RDMA device or host for an address; 71 too little memory, or memory that may be locked, or threads, or
  descriptors; 73 a file or socket cannot be made; 74 disk full, data corrupt or another input/output error;
  75 the data directory, port or socket is in use; 77 no permission, or a file of secrets that others may read;
  78 the data does not fit in --memory, or has a format that this kvserver does not know.)";

// For a line to standard output, which a pipe that nobody reads does not take.
constexpr int kOutputPatienceMs = 500;

struct Flags {
  ServerOptions server;
  std::vector<rdma::Address> listen;
  std::size_t memory = 0;
  std::optional<std::uint32_t> max_clients;
  rdma::MemoryWindows memory_windows = rdma::MemoryWindows::kAuto;
  std::uint32_t tcp_threads = 1;
  rdma::TlsFiles tls{};
  int ready_fd = -1;
  bool insecure_open = false;
  std::string http;  // empty: not served
  bool insecure_http = false;
  // For the log, once it serves.
  std::vector<std::string> notes{};
  std::vector<std::string> warnings{};
};

LogWriter* standard_error = nullptr;  // from the start of Main to its end

/// Prints a line, which may contain text from clients and from the command line.
void Say(std::string_view line) { standard_error->Write(command_line::Printable(line)); }

int Fail(int exit_status, const absl::Status& status) {
  Say(std::string(status.message()));
  return exit_status;
}

int FailUsage(const std::string& why) { return Fail(EX_USAGE, absl::InvalidArgumentError(why)); }

/// The next file that is opened gets the number of a closed descriptor, so a file of the store would get the
/// line.
absl::Status CheckReadyFd(int fd) {
  std::string_view why;
  if (const int status_flags = ::fcntl(fd, F_GETFL); fd <= STDERR_FILENO) {
    why = "0 to 2 are standard input, output and error; pass another descriptor";
  } else if (status_flags < 0) {
    why = "that descriptor is not open; pass one to kvserver, or leave this flag out";
  } else if ((status_flags & O_ACCMODE) == O_RDONLY) {
    why = "that descriptor is open for reading alone; pass one that can be written";
  }
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--ready_fd=", fd, ": ", AbslView(why)));
}

// Reads the command line; an exit status when the program is to end with it.
std::optional<int> ParseFlags(int argc, char** argv, Flags* flags) {
  flags->server.huge_pages = true;
  flags->memory = DefaultMemory(ReadSystemMemory());
  command_line::CommandLine line(
      "kvserver: a key-value store whose clients read it in place, over RDMA, TCP or mapped memory.");
  line.Footer(kExitStatus);
  std::vector<std::string> addresses;
  line.Add("--listen", addresses,
           "Where to serve: verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH; may be "
           "repeated")
      .Required()
      .TypeName("ADDRESS");
  line.Add("--data_dir", flags->server.store.data_dir,
           "RocksDB's directory; made when missing. Needed with --durability=logged and synced")
      .TypeName("DIR");
  line.Add("--memory", flags->memory,
           absl::StrFormat(
               "All the memory that clients may reach: %s. It holds index, records, and what each "
               "client has to itself (see --max_clients); not RocksDB's buffers and cache, nor the program. "
               "See --eviction for when it is full",
               command_line::kSizeText))
      .Size()
      .ShowDefault()
      .TypeName("SIZE");
  const command_line::Option backup_dir =
      line.Add("--backup_dir", flags->server.backup_dir,
               "Where `kvctl backup` puts backups; made when missing. Without it they are refused")
          .TypeName("DIR");
  line.Add("--backup_keep", flags->server.backup_keep,
           "When a backup is made, delete older ones but so many of the newest; 0: none")
      .Range(0, 1'000'000)
      .ShowDefault()
      .Needs(backup_dir);
  Durability durability = Durability::kLogged;
  line.AddChoice(
          "--durability", durability,
          {{"memory", Durability::kMemory}, {"logged", Durability::kLogged}, {"synced", Durability::kSynced}},
          "What an acknowledged write survives: memory (nothing), logged (the death of this process), "
          "synced (that of the machine)")
      .DefaultText("logged");
  line.AddChoice(
          "--eviction", flags->server.store.eviction,
          {{"none", Eviction::kNone}, {"least_used", Eviction::kLeastUsed}},
          "When memory is full: none (refuse writes; all data must fit), least_used (what was not used "
          "lately stays on disk only; with --durability=memory, it is dropped)")
      .DefaultText("least_used");
  std::optional<std::string> default_ttl;
  line.Add("--default_ttl", default_ttl,
           "How long a key is there whose writer did not say: 500ms, 30s, 15m, 12h, 7d, ... or never")
      .DefaultText("never")
      .TypeName("DURATION");
  std::optional<std::string> watch_retention;
  line.Add("--watch_retention", watch_retention,
           "How long at least a watch that was away finds what it has missed, on disk: 10m, 1d, ... "
           "In any case it finds the latest 64 MiB of the log, over restarts as well")
      .TypeName("DURATION");
  std::uint64_t& commit_log_bytes = flags->server.store.commit_log_bytes;
  line.Add("--commit_log", commit_log_bytes,
           "Experimental: log writes in files of so many bytes together, in --data_dir, and fill RocksDB "
           "behind them; 1G is a good size. A directory that has them opens only with this flag")
      .Size()
      .Range(std::uint64_t{1} << 20, std::uint64_t{1} << 40)
      .DefaultText("off");
  line.Add("--max_clients", flags->max_clients,
           "Connections at most; for each, 0.28 MB of --memory are kept, or 0.37 MB where one of the "
           "addresses is "
           "local. Default: as many as 1/8 of it holds, but 4 to 512")
      .Range(1, 65536);
  line.Add("--ready_fd", flags->ready_fd, "Write a line to this open descriptor, and close it, once serving")
      .NotNegative();
  line.Add("--tokens", flags->server.tokens_file,
           "Serve only who has one of these tokens: a file of lines NAME ROLE SECRET, as `kvctl token` "
           "makes them. Read anew on SIGHUP: connections whose token is gone, or changed, end")
      .TypeName("FILE");
  line.Add("--tls_cert", flags->tls.cert,
           "Over tls://, the server's certificate, and behind it those between it and the authority (PEM). "
           "Without, the tokens give the keys of TLS. Read anew on SIGHUP, as --tls_key and --tls_ca")
      .TypeName("FILE");
  line.Add("--tls_key", flags->tls.key, "The key of --tls_cert (PEM), in a file that others cannot read")
      .TypeName("FILE");
  line.Add("--tls_ca", flags->tls.ca,
           "Over tls://, serve only who has a certificate of one of these authorities (PEM); a token alone "
           "is then not enough")
      .TypeName("FILE");
  line.AddFlag("--insecure_open", flags->insecure_open,
               "Serve whoever reaches a verbs, tcp or tls address; with --tokens, also who has none");
  line.Add("--tcp_threads", flags->tcp_threads, "Threads that serve the reads of each tcp or tls address")
      .Range(1, 64)
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
  const command_line::Option http =
      line.Add("--http", flags->http,
               "Serve metrics for Prometheus (/metrics), /healthz, /readyz and /info.json by HTTP at "
               "HOST:PORT; "
               "without --insecure_http, only where this machine alone reaches it")
          .TypeName("HOST:PORT");
  line.AddFlag("--insecure_http", flags->insecure_http,
               "Serve --http also at an address that other machines reach: to all of them, without a token")
      .Needs(http);
  bool quiet = false;
  line.AddFlag(
      "--quiet", quiet,
      "Log only what is wrong (the disk, torn logs, tokens that cannot be read), and why it ends: nothing of "
      "clients, backups, the start and the load");
  line.Version("kvserver " REMORA_VERSION);
  const std::optional<int> exit_status = line.Parse(argc, argv);
  if (exit_status) return exit_status;
  if (flags->ready_fd >= 0) {
    if (const absl::Status open = CheckReadyFd(flags->ready_fd); !open.ok()) return Fail(EX_USAGE, open);
  }

  flags->server.store.durability = durability;
  flags->server.store.loading = Loading::kInBackground;
  if (default_ttl) {
    std::string why;
    const std::optional<std::chrono::milliseconds> ttl = ParseTtl(*default_ttl, &why);
    if (!ttl) return FailUsage(absl::StrCat("--default_ttl: ", why));
    flags->server.store.default_ttl = *ttl;
  }
  if (watch_retention) {
    std::string why;
    const std::optional<std::chrono::milliseconds> time = ParseTtl(*watch_retention, &why);
    if (!time || *time == kNeverExpires) {
      if (why.empty()) why = "the disk would fill";
      return FailUsage(absl::StrCat("--watch_retention: ", why));
    }
    flags->server.store.watch_retention = std::chrono::ceil<std::chrono::seconds>(*time);
  }
  const bool has_dir = !flags->server.store.data_dir.empty();
  if (durability != Durability::kMemory && !has_dir) {
    return FailUsage("--durability=logged and synced need --data_dir=DIR; or choose --durability=memory");
  }
  if (durability == Durability::kMemory) {
    if (has_dir) return FailUsage("--durability=memory keeps nothing in a --data_dir; leave one out");
    if (!flags->server.backup_dir.empty())
      return FailUsage("--durability=memory has nothing to back up; leave out --backup_dir");
    if (watch_retention)
      return FailUsage("--durability=memory has no log for watches; leave out --watch_retention");
    if (commit_log_bytes > 0) return FailUsage("--durability=memory logs nothing; leave out --commit_log");
  }
  if (command_line::IsSamePlace(flags->server.store.data_dir, flags->server.backup_dir)) {
    return FailUsage("--data_dir and --backup_dir are the same directory; backups need one of their own");
  }
  for (const std::string& text : addresses) {
    absl::StatusOr<rdma::Address> address = rdma::ParseAddress(text);
    if (!address.ok()) return Fail(EX_USAGE, address.status());
    for (const rdma::Address& other : flags->listen) {
      if (!IsSameAddress(*address, other)) continue;
      return FailUsage(absl::StrCat("--listen=", text, ": is given twice; leave one out"));
    }
    flags->listen.push_back(*std::move(address));
  }
  if (const absl::Status tls = CheckTls(flags->listen, flags->tls, !flags->server.tokens_file.empty());
      !tls.ok())
    return Fail(EX_USAGE, tls);
  const bool admits_all = flags->insecure_open;
  const bool has_tokens = !flags->server.tokens_file.empty();
  if (const absl::Status safe = CheckWhomItServes(flags->listen, flags->tls, has_tokens || admits_all);
      !safe.ok())
    return Fail(EX_USAGE, safe);
  flags->server.serves_without_token = flags->insecure_open;
  flags->server.warn = Say;
  if (!quiet) flags->server.log = flags->server.warn;
  return std::nullopt;
}

/// A failure of the store, which knows nothing of the clients' share of --memory.
int FailStore(const Flags& flags, const MemoryPlan& plan, const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return Fail(StoreExitStatus(status), status);
  return Fail(StoreExitStatus(status),
              absl::OutOfRangeError(absl::StrCat(status.message(), "; of --memory, the store has all but ",
                                                 flags.memory - plan.region_size, " bytes")));
}

void Ignore(std::initializer_list<int> signals) {
  for (const int number : signals) ::signal(number, SIG_IGN);
}

/// Ignores or blocks signals that would end the process. Called before any thread is started:
/// threads inherit the blocked signals.
void OutliveSignals() {
  // A write to a pipe without a reader, or beyond a limit (ulimit -f), fails by itself.
  Ignore({SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2});
  sigset_t later;
  ::sigemptyset(&later);
  ::sigaddset(&later, SIGHUP);  // waits for a server that hears it
  ::pthread_sigmask(SIG_BLOCK, &later, nullptr);
}

// For signal handlers alone.
Server* signalled_server = nullptr;

/// The server hears signals as long as this exists.
class HeardSignals {
 public:
  explicit HeardSignals(Server* server) {
    signalled_server = server;
    sigset_t heard;
    ::sigemptyset(&heard);
    const auto hear = [&heard](int number, void (*handler)(int)) {
      struct sigaction action = {};
      action.sa_handler = handler;
      ::sigaction(number, &action, nullptr);
      ::sigaddset(&heard, number);
    };
    for (const int number : {SIGTERM, SIGINT, SIGXCPU}) hear(number, [](int) { signalled_server->Stop(); });
    hear(SIGHUP, [](int) { signalled_server->ReloadTokens(); });
    ::pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);  // also those that the parent has blocked
  }
  ~HeardSignals() { Ignore({SIGTERM, SIGINT, SIGXCPU, SIGHUP}); }  // it ends already
  HeardSignals(const HeardSignals&) = delete;
  HeardSignals& operator=(const HeardSignals&) = delete;
};

void SayWhoMayWrite(const Flags& flags, const rdma::Listener& listener) {
  if (!flags.server.log) return;
  std::string_view said = "what a client may write is bound to its connection, by memory windows";
  if (!listener.binds_writes()) {
    said = flags.memory_windows == rdma::MemoryWindows::kOff
               ? "a client that guesses another's key can write to its slice, as --memory_windows is off"
               : "a client that guesses another's key can write to its slice, as the device has no memory "
                 "windows of type 2B";
  }
  flags.server.log(absl::StrCat(listener.address().ToString(), ": ", AbslView(said)));
}

void SayReady(const Flags& flags, const std::vector<std::string>& addresses) {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&output, 1, kOutputPatienceMs) > 0) {
    std::printf("kvserver: ready at %s\n", absl::StrJoin(addresses, " ").c_str());
    std::fflush(stdout);
  }
  if (flags.ready_fd < 0) return;
  constexpr std::string_view kReady = "ready\n";
  // Clients are not to wait for who has a full pipe, and does not read it.
  pollfd ready{flags.ready_fd, POLLOUT, 0};
  if (::poll(&ready, 1, kOutputPatienceMs) == 0) {
    flags.server.warn("--ready_fd: nobody makes room in it");
  } else if (::write(flags.ready_fd, kReady.data(), kReady.size()) < 0) {
    flags.server.warn(absl::StrCat("--ready_fd: ", std::strerror(errno)));
  }
  ::close(flags.ready_fd);
}

/// Splits memory and descriptors, and notes the result in `flags`.
absl::StatusOr<MemoryPlan> Plan(Flags* flags) {
  const SystemMemory system = ReadSystemMemory();
  REMORA_RETURN_IF_ERROR(CheckMemory(flags->memory, system));
  const bool is_durable = !flags->server.store.data_dir.empty();
  flags->server.store.write_buffer_bytes = WriteBufferFor(system);
  if (const std::uint64_t beside = BesideMemory(system, is_durable);
      flags->memory > system.available - std::min(beside, system.available)) {
    flags->warnings.push_back(absl::StrCat("--memory is ", flags->memory,
                                           " bytes, beside which the server takes up to ", beside, ", and ",
                                           system.whose_available, " has ", system.available,
                                           " available: when it fills, the system may kill this server"));
  }

  const rdma::QueueLimits limits;
  const SessionBytes session = ClientSession::MaxRegisteredBytes();
  REMORA_ASSIGN_OR_RETURN(MemoryPlan plan,
                          PlanMemory(flags->memory, flags->max_clients, flags->listen, limits, session));
  const std::size_t open = OpenDescriptors() + (flags->http.empty() ? 0 : MonitorService::kDescriptors);
  REMORA_ASSIGN_OR_RETURN(const DescriptorPlan descriptors,
                          PlanDescriptors(RaiseDescriptorLimit(), open, flags->max_clients.value_or(1),
                                          is_durable, flags->listen));
  if (plan.max_clients > descriptors.max_clients) {
    flags->server.max_clients_by = "its limit of descriptors allows (ulimit -n)";
    REMORA_ASSIGN_OR_RETURN(
        plan, PlanMemory(flags->memory, descriptors.max_clients, flags->listen, limits, session));
  }
  flags->server.store.memory_size = plan.region_size;
  flags->server.max_clients = plan.max_clients;
  flags->server.store.descriptors = descriptors.StoreShare(plan.max_clients);
  std::string note =
      absl::StrFormat("clients: %d at most; the limit of open files (ulimit -n) is %d, enough for %d",
                      plan.max_clients, descriptors.limit, descriptors.max_clients);
  if (is_durable) {
    absl::StrAppendFormat(&note, "; of these files, the store may open %d", flags->server.store.descriptors);
  }
  flags->notes.push_back(std::move(note));
  return plan;
}

/// Returns null without --http.
absl::StatusOr<std::unique_ptr<MonitorService>> StartMonitoring(Flags* flags, const MemoryPlan& plan,
                                                                const Clock& clock) {
  if (flags->http.empty()) return nullptr;
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<MonitorService> service,
                          MonitorService::Start(flags->http, flags->insecure_http,
                                                {.version = REMORA_VERSION,
                                                 .durability = flags->server.store.durability,
                                                 .memory_bytes = flags->memory,
                                                 .max_clients = plan.max_clients},
                                                clock));
  flags->notes.push_back(absl::StrCat("metrics are served at ", service->address(), "/metrics"));
  return service;
}

int Main(int argc, char** argv) {
  Flags flags;
  if (const std::optional<int> exit_status = ParseFlags(argc, argv, &flags)) return *exit_status;

  if (!flags.server.tokens_file.empty()) {
    // Before anything is made; and by clients a token that cannot be read is refused in the same way.
    const absl::Status tokens = ReadTokens(flags.server.tokens_file).status();
    if (!tokens.ok()) return Fail(TokensExitStatus(tokens), tokens);
  }
  if (std::ranges::any_of(flags.listen, &rdma::Address::tls)) {
    auto tls = rdma::ServerTls::Create(flags.tls);
    if (!tls.ok()) return Fail(TokensExitStatus(tls.status()), tls.status());
    flags.server.tls = *std::move(tls);
  }
  const rdma::QueueLimits limits;
  const absl::StatusOr<MemoryPlan> plan = Plan(&flags);
  if (!plan.ok()) return Fail(StoreExitStatus(plan.status()), plan.status());
  const SteadyClock clock;  // outlives the server, whose listeners have threads that look at it
  auto monitoring = StartMonitoring(&flags, *plan, clock);
  if (!monitoring.ok()) return Fail(ListenExitStatus(monitoring.status()), monitoring.status());
  // Said now, and not when somebody asks for the first one.
  if (!flags.server.backup_dir.empty()) {
    const absl::Status prepared = PrepareBackupDir(flags.server.backup_dir);
    // Another one may be made, or read, right now.
    if (!prepared.ok() && !absl::IsAlreadyExists(prepared)) return Fail(StoreExitStatus(prepared), prepared);
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(flags.server);
  if (!server.ok()) return FailStore(flags, *plan, server.status());
  const std::unique_ptr<MonitorService> shown = *std::move(monitoring);  // ends before the server
  const HeardSignals heard(server->get());

  std::vector<std::string> addresses;
  for (const rdma::Address& address : flags.listen) {
    auto listener =
        rdma::Listen(address, limits, clock, flags.memory_windows, flags.tcp_threads, flags.server.tls);
    if (!listener.ok()) return Fail(ListenExitStatus(listener.status()), listener.status());
    addresses.push_back((*listener)->address().ToString());
    if (address.kind == rdma::TransportKind::kVerbs) SayWhoMayWrite(flags, **listener);
    const absl::Status added = (*server)->AddListener(*std::move(listener));
    if (!added.ok()) return Fail(ListenExitStatus(added), added);
  }

  for (const std::string& warning : flags.warnings) flags.server.warn(warning);
  if (flags.server.log) {
    for (const std::string& note : flags.notes) flags.server.log(note);
    flags.server.log(
        absl::StrFormat("memory: %d bytes for index and records, and %d bytes for each of %d clients at most",
                        plan->region_size, plan->client_bytes, plan->max_clients));
  }
  if (shown != nullptr) shown->Show((*server)->store());
  SayReady(flags, addresses);
  const absl::Status ended = (*server)->Run();
  return ended.ok() ? EX_OK : FailStore(flags, *plan, ended);
}

/// Runs the server. It handles signals and standard streams before anything is opened, or a thread
/// started.
int Begin(int argc, char** argv) {
  OutliveSignals();
  HoldMemoryReserve(
      "kvserver: the system has no memory left for this process, which ends: raise its limits (ulimit -v), "
      "or give it less (--memory); what was acknowledged as logged is in the log\n");
  const absl::Status streams = OccupyStandardStreams();
  absl::StatusOr<std::unique_ptr<LogWriter>> log = LogWriter::Start(STDERR_FILENO, "kvserver: ");
  if (const absl::Status& begun = streams.ok() ? log.status() : streams; !begun.ok()) {
    command_line::SayError(std::string(absl::StrCat("kvserver: ", begun.message())));
    return EX_OSERR;
  }
  standard_error = log->get();
  return Main(argc, argv);
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Begin(argc, argv); }
