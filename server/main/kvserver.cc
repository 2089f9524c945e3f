// kvserver: serves one store at one or several addresses until TERM or INT.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rdma/tls.h"
#include "rdma/transport.h"
#include "server/http/monitor_service.h"
#include "server/main/beats.h"
#include "server/main/child_program.h"
#include "server/main/cluster_member.h"
#include "server/main/config_reload.h"
#include "server/main/exit_status.h"
#include "server/main/flags.h"
#include "server/main/heard_signals.h"
#include "server/main/listen_checks.h"
#include "server/main/redis_gate.h"
#include "server/main/server_log.h"
#include "server/main/service_notifier.h"
#include "server/main/shard_servers.h"
#include "server/main/shards_flags.h"
#include "server/main/start_checks.h"
#include "server/main/thread_priority.h"
#include "server/main/topology_division.h"
#include "server/memory/memory_budget.h"
#include "server/memory/memory_reserve.h"
#include "server/monitoring/log_events.h"
#include "server/monitoring/service_notices.h"
#include "server/server.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/shard_identity.h"
#include "tools/command_line/say.h"

namespace remora {
namespace {

// The commit from which this program was built.
constexpr const char* kCommit =
#include "server/commit.inc"
    ;

// For a line to standard output, which a pipe that nobody reads does not take.
constexpr int kOutputPatienceMs = 500;

ServerLog* standard_error = nullptr;  // from the start of Main to its end
// Format that was chosen at the start: of a line that is written without a log, or without memory.
std::atomic<LogFormat> last_line_format = LogFormat::kText;

void Log(LogEvent event, std::string_view line) { standard_error->Write(event, line); }

/// A fault of the flags is text for a person, unless programs read the log.
void SayBadFlags(const std::string& error) {
  if (standard_error->format() == LogFormat::kJson) return Log(LogEvent::kStartFailed, error);
  command_line::SayError("kvserver: " + error);
}

void WarnOfManager(std::string_view line) { Log(LogEvent::kServiceManagerFailed, line); }

std::int64_t UnixMillisNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

int Fail(int exit_status, const absl::Status& status) {
  Log(LogEvent::kStartFailed, StdView(status.message()));
  return exit_status;
}

/// Describes a failure of the store, which knows nothing of the clients' share of --memory.
std::string StoreFailure(const Flags& flags, const MemoryPlan& plan, const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return std::string(status.message());
  return absl::StrCat(status.message(), "; of --memory, the store has all but ",
                      flags.memory - plan.region_size, " bytes");
}

void Ignore(std::initializer_list<int> signals) {
  for (const int number : signals) ::signal(number, SIG_IGN);
}

/// Ignores or blocks signals that would end the process. Called before any thread is started:
/// threads inherit the blocked signals.
void OutliveSignals() {
  // A write to a pipe without a reader, or beyond a limit (ulimit -f), fails by itself.
  Ignore({SIGPIPE, SIGXFSZ});
  // The server has no timers and no use for these, and each would end it.
  Ignore({SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT});
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) Ignore({number});
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
    const auto stop = [](int) { signalled_server->Stop(); };
    const auto reload = [](int) { signalled_server->ReloadTokens(); };
    HearSignals({{SIGTERM, stop}, {SIGINT, stop}, {SIGXCPU, stop}, {SIGHUP, reload}});
  }
  ~HeardSignals() { Ignore({SIGTERM, SIGINT, SIGXCPU, SIGHUP}); }  // it ends already
  HeardSignals(const HeardSignals&) = delete;
  HeardSignals& operator=(const HeardSignals&) = delete;
};

void LogWriteBinding(const Flags& flags, const rdma::Listener& listener) {
  std::string_view said = "what a client may write is bound to its connection, by memory windows";
  if (!listener.binds_writes()) {
    said = flags.memory_windows == rdma::MemoryWindows::kOff
               ? "a client that guesses another's key can write to its staging buffer, as --memory_windows "
                 "is off"
               : "a client that guesses another's key can write to its staging buffer, as the device has no "
                 "memory windows of type 2B";
  }
  Log(LogEvent::kWriteBinding, absl::StrCat(listener.address().ToString(), ": ", AbslView(said)));
}

/// Has the notifier told of the server's state and work; or of a server of --shards, the process that started
/// it.
ServiceNotices NoticesBy(ServiceNotifier* notifier) {
  if (const auto interval = AskedBeats(std::getenv(kBeatVariable), ::getppid()); interval.count() > 0) {
    return {.status = {}, .beat = BeatToParent, .beat_interval = interval};
  }
  if (!notifier->has_manager()) return {};
  return {.status = [notifier](std::string_view status) { notifier->Status(status); },
          .beat = [notifier] { notifier->Beat(); },
          .beat_interval =
              BeatInterval(std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"), WarnOfManager)};
}

void SayReady(const Flags& flags, const std::vector<std::string>& addresses) {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&output, 1, kOutputPatienceMs) > 0) {
    const std::string said = absl::StrCat("ready at ", absl::StrJoin(addresses, " "));
    const std::string line = standard_error->format() == LogFormat::kJson
                                 ? FormatLogLine(LogFormat::kJson, UnixMillisNow(), LogEvent::kReady, said)
                                 : "kvserver: " + said;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  if (flags.ready_fd < 0) return;
  constexpr std::string_view kReady = "ready\n";
  // Clients are not to wait for who has a full pipe, and does not read it.
  pollfd ready{flags.ready_fd, POLLOUT, 0};
  if (::poll(&ready, 1, kOutputPatienceMs) == 0) {
    Log(LogEvent::kReadyFdFailed, "--ready_fd: its reader takes no bytes; read it");
  } else if (::write(flags.ready_fd, kReady.data(), kReady.size()) < 0) {
    Log(LogEvent::kReadyFdFailed, absl::StrCat("--ready_fd: ", std::strerror(errno)));
  }
  ::close(flags.ready_fd);
}

/// The gate of --redis, if any, and what became of it. Without one, `on_ready` is called at once.
class Gate {
 public:
  absl::Status Find(const Flags& flags) {
    if (flags.gate.addresses.empty()) return absl::OkStatus();
    REMORA_ASSIGN_OR_RETURN(program_, FindGate());
    return absl::OkStatus();
  }

  /// Starts the gate. `servers`: its flag for what it serves. `stop` ends the servers, as it never served.
  absl::Status Start(const Flags& flags, std::string servers, std::function<void()> stop,
                     std::function<void()> on_ready) {
    if (flags.gate.addresses.empty()) {
      on_ready();
      return absl::OkStatus();
    }
    if (flags.ready_fd >= 0) ::fcntl(flags.ready_fd, F_SETFD, FD_CLOEXEC);
    ChildProgramOptions options = GateProgram(flags, program_, std::move(servers));
    options.log = Log;
    options.on_ready = std::move(on_ready);
    options.on_failure = [this, stop = std::move(stop)](int status, std::string why) {
      why_ = std::move(why);
      failure_ = status;
      stop();
    };
    REMORA_ASSIGN_OR_RETURN(gate_, ChildProgram::Start(std::move(options)));
    return absl::OkStatus();
  }

  /// Ends the gate. Returns 0, or the exit status of one that never served, after an error that says why.
  int End() {
    gate_.reset();
    if (failure_ == EX_OK) return EX_OK;
    return Fail(failure_, absl::UnavailableError(absl::StrCat("the gate of --redis does not serve: ", why_)));
  }

 private:
  std::string program_;
  std::string why_;  // written before failure_
  std::atomic<int> failure_ = EX_OK;
  std::unique_ptr<ChildProgram> gate_;
};

/// Returns null without --http.
absl::StatusOr<std::unique_ptr<MonitorService>> StartMonitoring(const Flags& flags, const MemoryPlan& plan,
                                                                const Clock& clock) {
  if (flags.http.empty()) return nullptr;
  const ShardIdentity& shard = flags.server.store.shard;
  return MonitorService::Start(
      {.address = flags.http, .others_may_reach = flags.insecure_http, .hosts = flags.http_hosts},
      {.version = REMORA_VERSION,
       .commit = kCommit,
       .shard = shard.is_none() ? "" : IdentityText(shard),
       .durability = flags.server.store.durability,
       .memory_bytes = flags.memory,
       .max_clients = plan.max_clients},
      clock);
}

/// Where the server listens: each address, as it was given and as the system has it.
struct Serving {
  std::vector<std::string> addresses;
  std::vector<std::string> sockets;  // "tcp://localhost:7470 (127.0.0.1:7470 [::1]:7470)"
};

/// Returns an address with the sockets that it does not name itself.
std::string WithSockets(const rdma::Listener& listener) {
  const std::string address = listener.address().ToString();
  const std::vector<std::string> sockets = listener.sockets();
  if (sockets.empty() || (sockets.size() == 1 && address.ends_with("//" + sockets.front()))) return address;
  return absl::StrCat(address, " (", absl::StrJoin(sockets, " "), ")");
}

void WarnOfOpenAddresses(const Flags& flags) {
  const bool is_settled = !flags.server.tokens_file.empty() || flags.insecure_open;
  for (const std::string& address : OpenToThisHost(flags.listen, flags.tls, is_settled)) {
    Log(LogEvent::kOpenToHost, absl::StrCat("every user of this host can read and change everything at ",
                                            address, "; --tokens=FILE limits it"));
  }
}

/// Has the server listen. Errors are those of rdma::Listen and Listener::RegisterRead.
absl::StatusOr<Serving> Listen(const Flags& flags, const Clock& clock, Server* server) {
  const rdma::QueueLimits limits;
  Serving serving;
  for (const rdma::Address& address : flags.listen) {
    REMORA_ASSIGN_OR_RETURN(auto listener,
                            rdma::Listen(address, limits, clock, flags.memory_windows, flags.tcp_threads,
                                         flags.local_access, flags.server.tls));
    serving.addresses.push_back(listener->address().ToString());
    serving.sockets.push_back(WithSockets(*listener));
    if (address.kind == rdma::TransportKind::kVerbs) LogWriteBinding(flags, *listener);
    REMORA_RETURN_IF_ERROR(server->AddListener(std::move(listener)));
  }
  WarnOfOpenAddresses(flags);
  return serving;
}

/// Prepares the folder of --backup_dir, if there is one, so that a start fails and not the first backup.
absl::Status PrepareBackups(const Flags& flags) {
  if (flags.server.backup_dir.empty()) return absl::OkStatus();
  absl::Status prepared = PrepareBackupDir(flags.server.backup_dir);
  // Another one may be made, or read, right now.
  return absl::IsAlreadyExists(prepared) ? absl::OkStatus() : prepared;
}

/// Logs the events of the start, and hands the server to monitoring.
void ReportStart(const std::vector<StartEvent>& events, MonitorService* shown, Server& server) {
  for (const StartEvent& event : events) Log(event.event, event.text);
  if (shown == nullptr) return;
  Log(LogEvent::kHttpServing, absl::StrCat("metrics are served at ", shown->address(), "/metrics"));
  shown->Show(server.store(), server.activities(), server.followers());
}

/// Has the log follow the flags, and the server write to it.
void SetUpLog(Flags* flags) {
  standard_error->set_format(flags->log_format);
  standard_error->set_level(flags->log_level);
  standard_error->set_shard(flags->shards.number);
  flags->server.log = Log;
}

/// Finds the faults of each server of --shards. Returns the exit status of the first one.
int CheckShards(int argc, char** argv, const Flags& whole) {
  if (!whole.gate.addresses.empty()) {
    if (const absl::Status found = FindGate().status(); !found.ok()) {
      SayBadFlags(std::string(found.message()));
      return EX_UNAVAILABLE;
    }
  }
  for (std::uint32_t shard = 0; shard < whole.shards.count; ++shard) {
    std::string which = absl::StrCat("--shard=", IdentityText(IdentityOf(1, absl::StrCat(shard))));
    std::vector<char*> arguments(argv, argv + argc);
    arguments.push_back(which.data());
    Flags flags;
    const int parts = static_cast<int>(arguments.size());
    if (const auto status = ParseFlags(parts, arguments.data(), FlagsFor::kStart, &flags, SayBadFlags)) {
      return *status;
    }
    // The folder of all is made first.
    const std::string& folder = whole.server.store.data_dir;
    if (::access(folder.c_str(), F_OK) != 0) flags.server.store.data_dir = folder;
    if (const int status = CheckConfig(&flags, SayBadFlags); status != EX_OK) return status;
  }
  return EX_OK;
}

/// Starts the servers of --shards, and ends with them.
int ServeShards(int argc, char** argv, const Flags& flags) {
  ServiceNotifier notifier(std::getenv("NOTIFY_SOCKET"), WarnOfManager);
  const ServiceNotices notices = NoticesBy(&notifier);
  // The manager hears this process alone, which hears the servers.
  for (const char* const name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  AskForBeats(flags.shards.hang_timeout);
  Gate gate;
  if (const absl::Status found = gate.Find(flags); !found.ok()) return Fail(EX_UNAVAILABLE, found);
  const auto lock = LockTopology(flags.shards.topology);
  if (!lock.ok()) return Fail(StoreExitStatus(lock.status()), lock.status());
  const absl::StatusOr<Topology> topology = PrepareTopology(flags, Log);
  if (!topology.ok()) return Fail(StoreExitStatus(topology.status()), topology.status());
  ShardServers* running = nullptr;
  absl::Status begun;  // the gate
  const auto on_ready = [&] {
    const std::string& path = flags.shards.topology;
    notifier.Status("serving");
    Log(LogEvent::kServing, absl::StrCat("serving ", flags.shards.count, " shards; the topology is ", path));
    begun = gate.Start(
        flags, "--topology=" + path, [&] { running->Stop(); },
        [&] {
          notifier.Ready();
          SayReady(flags, {flags.shards.topology});
        });
    if (!begun.ok()) running->Stop();
  };
  ConfigReload reload(argc, argv, flags, *standard_error);  // outlives the servers
  std::function<void()> on_reload;
  if (flags.has_config_file) on_reload = [&reload] { reload.Reload(); };
  auto servers = ShardServers::Start(*topology, {.arguments = ArgumentsOfServers(argc, argv, flags),
                                                 .log = Log,
                                                 .ready_fd = flags.ready_fd,
                                                 .hang_timeout = flags.shards.hang_timeout,
                                                 .on_ready = on_ready,
                                                 .on_reload = on_reload,
                                                 .beat = notices.beat,
                                                 .beat_interval = notices.beat_interval});
  if (!servers.ok()) return Fail(EX_OSERR, servers.status());
  running = servers->get();
  const int status = running->Run();
  notifier.Stopping();
  const int of_gate = gate.End();
  servers->reset();
  if (!begun.ok()) return Fail(EX_OSERR, begun);
  if (of_gate != EX_OK) return of_gate;
  if (status != EX_OK) {
    return Fail(status, absl::UnavailableError("--shards: a server does not start; its lines say why"));
  }
  Log(LogEvent::kStopped, "stopped by a signal");
  return EX_OK;
}

/// Serves one store until a signal.
int Serve(int argc, char** argv, Flags flags) {
  ConfigReload reload(argc, argv, flags, *standard_error);  // outlives the server
  flags.server.settings = [&reload] { return reload.settings().json(); };
  if (flags.has_config_file) flags.server.on_reload = [&reload] { reload.Reload(); };

  // Before anything is made; and by clients a token that cannot be read is rejected in the same way.
  if (const absl::Status tokens = CheckTokens(&flags); !tokens.ok())
    return Fail(TokensExitStatus(tokens), tokens);
  if (const absl::Status raised = RaiseThreadPriority(flags.nice); !raised.ok())
    return Fail(EX_NOPERM, raised);
  Gate gate;
  if (const absl::Status found = gate.Find(flags); !found.ok()) return Fail(EX_UNAVAILABLE, found);
  ServiceNotifier notifier(std::getenv("NOTIFY_SOCKET"), WarnOfManager);  // outlives the server
  flags.server.notices = NoticesBy(&notifier);
  AskForBeats(flags.shards.hang_timeout);
  if (std::ranges::any_of(flags.listen, &rdma::Address::tls)) {
    auto tls = rdma::ServerTls::Create(flags.tls);
    if (!tls.ok()) return Fail(TokensExitStatus(tls.status()), tls.status());
    flags.server.tls = *std::move(tls);
  }
  std::vector<StartEvent> events;
  const absl::StatusOr<MemoryPlan> plan = ApplyMemoryPlan(&flags, &events);
  if (!plan.ok()) return Fail(StoreExitStatus(plan.status()), plan.status());
  const SteadyClock clock;  // outlives the server: threads of its listeners read it
  auto monitoring = StartMonitoring(flags, *plan, clock);
  if (!monitoring.ok()) return Fail(ListenExitStatus(monitoring.status()), monitoring.status());
  if (const absl::Status free = rdma::CheckFree(flags.listen); !free.ok())
    return Fail(ListenExitStatus(free), free);
  if (const absl::Status prepared = PrepareBackups(flags); !prepared.ok())
    return Fail(StoreExitStatus(prepared), prepared);
  if (const absl::Status divided = ReadDivision(&flags); !divided.ok())
    return Fail(StoreExitStatus(divided), divided);
  notifier.Status("opening the store");
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(flags.server);
  if (!server.ok()) {
    Log(LogEvent::kStartFailed, StoreFailure(flags, *plan, server.status()));
    return StoreExitStatus(server.status());
  }
  reload.Serve(server->get());
  reload.settings().SetDefault("max_clients", std::to_string(plan->max_clients));
  const std::unique_ptr<MonitorService> shown = *std::move(monitoring);  // ends before the server
  const HeardSignals heard(server->get());

  const absl::StatusOr<Serving> serving = Listen(flags, clock, server->get());
  if (!serving.ok()) return Fail(ListenExitStatus(serving.status()), serving.status());
  if (const absl::Status same = (*server)->CheckDivision(); !same.ok())
    return Fail(StoreExitStatus(same), same);
  ClusterMember member{Log};  // ends before the server
  if (const absl::Status begun = member.Start(flags, clock, **server); !begun.ok())
    return Fail(StoreExitStatus(begun), begun);
  ReportStart(events, shown.get(), **server);
  notifier.Status((*server)->store().loading() ? "serving; loading" : "serving");
  Log(LogEvent::kServing, absl::StrCat("serving at ", absl::StrJoin(serving->sockets, " ")));
  const absl::Status begun = gate.Start(
      flags, GatesServer(flags), [&] { (*server)->Stop(); },
      [&] {
        notifier.Ready();
        SayReady(flags, serving->addresses);
      });
  if (!begun.ok()) return Fail(EX_OSERR, begun);
  const absl::Status ended = (*server)->Run();
  notifier.Stopping();
  if (const int status = member.End(); status != EX_OK) return status;
  if (const int status = gate.End(); status != EX_OK) return status;
  if (ended.ok()) {
    Log(LogEvent::kStopped, "stopped by a signal");
    return EX_OK;
  }
  Log(LogEvent::kServingFailed, StoreFailure(flags, *plan, ended));
  return StoreExitStatus(ended);
}

int Main(int argc, char** argv) {
  Flags flags;
  if (const auto status = ParseFlags(argc, argv, FlagsFor::kStart, &flags, SayBadFlags)) return *status;
  SetUpLog(&flags);
  if (StartsShards(flags)) {
    return flags.checks_config ? CheckShards(argc, argv, flags) : ServeShards(argc, argv, flags);
  }
  return flags.checks_config ? CheckConfig(&flags, SayBadFlags) : Serve(argc, argv, std::move(flags));
}

/// Writes a line where there is no log, or no memory for it.
void SayLast(LogEvent event, std::string_view message) {
  WriteLastLine(last_line_format, UnixMillisNow(), event, message);
}

/// Runs the server. It handles signals and standard streams before anything is opened, or a thread
/// started.
int Begin(int argc, char** argv) {
  OutliveSignals();
  HoldMemoryReserve([] {
    SayLast(
        LogEvent::kMemoryExhausted,
        "the system has no memory left for this process, which ends: raise its limits (ulimit -v), or give "
        "it less (--memory); what was acknowledged as logged is in the log");
  });
  check_failure_sink = [](const char* line) { SayLast(LogEvent::kCheckFailed, line); };
  const absl::Status streams = OccupyStandardStreams();
  const LogFormat format = AskedLogFormat(argc, argv);
  last_line_format = format;
  absl::StatusOr<std::unique_ptr<ServerLog>> log = ServerLog::Start(STDERR_FILENO, UnixMillisNow);
  if (const absl::Status& begun = streams.ok() ? log.status() : streams; !begun.ok()) {
    SayLast(LogEvent::kStartFailed, StdView(begun.message()));
    return EX_OSERR;
  }
  standard_error = log->get();
  standard_error->set_format(format);
  return Main(argc, argv);
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Begin(argc, argv); }
