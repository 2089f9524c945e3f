#include "server/main/shard_servers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/main/heard_signals.h"
#include "server/main/shards_flags.h"
#include "server/main/topology_division.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {
namespace {

// A server that ends writes its tables first.
constexpr std::chrono::milliseconds kStopPatience{60'000};

// For signal handlers alone.
int signal_wake_fd = -1;
volatile sig_atomic_t is_stop_asked = 0;
volatile sig_atomic_t is_reload_asked = 0;

void Wake() {
  const int error = errno;
  ::eventfd_write(signal_wake_fd, 1);
  errno = error;
}

bool Exists(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

/// Returns the outcome of a call on a file or folder that failed with this errno, as the store tells it.
absl::Status ShardsFileFault(int error, absl::string_view what) {
  if (error == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat(what, ": ", std::strerror(error), "; make the folder above it, for the servers' user"));
  }
  if (error == EEXIST || error == ENOTDIR) {
    return absl::FailedPreconditionError(absl::StrCat(what, ": a file is there; name a folder"));
  }
  if (error == EACCES) return absl::ErrnoToStatus(error, what);
  return MarkedByErrno(error, absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error))));
}

absl::Status WriteTopology(const std::string& path, const Topology& topology) {
  const std::optional<WriteFault> fault = ReplaceSynced(path, topology.ToText());
  if (!fault) return absl::OkStatus();
  return ShardsFileFault(fault->error,
                         absl::StrCat("topology: cannot ", AbslView(fault->step), " ", fault->path));
}

/// Returns OK if the file divides the keys as `even` does, whatever the addresses; or slots have moved since.
absl::Status CheckDivision(const Topology& file, const Topology& even, const std::string& path) {
  if (file.cluster() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "topology: ", path, " names no cluster: it is of version 1; name another file (--topology)"));
  }
  if (file.shards().size() != even.shards().size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "topology: ", path, " has ", file.shards().size(), " shards, and --shards=", even.shards().size(),
        " are asked for; the number of servers stays: give --shards=", file.shards().size(),
        ", or name another --topology and --data_dir"));
  }
  for (std::size_t i = 0; i < even.shards().size(); ++i) {
    const ShardPlace& found = file.shards()[i];
    const ShardPlace& wanted = even.shards()[i];
    const bool has_slots = file.revision() > 0 || found.slots == wanted.slots;
    if (found.name == wanted.name && has_slots) continue;
    return absl::FailedPreconditionError(absl::StrCat("topology: shard ", found.name, " in ", path,
                                                      " has other keys than --shards gives to ", wanted.name,
                                                      "; start each server by itself, with --shard"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Topology> PrepareTopology(const Flags& flags, const LogSink& log) {
  const std::string& path = flags.shards.topology;
  const std::string& data_dir = flags.server.store.data_dir;
  const std::vector<std::string> servers = ShardAddresses(flags);
  const absl::StatusOr<Topology> file = Topology::Read(path);
  if (!file.ok() && !absl::IsNotFound(file.status())) return file;
  REMORA_ASSIGN_OR_RETURN(Topology even, Topology::Even(servers, file.ok() ? file->cluster() : RandomId()));
  if (file.ok()) {
    REMORA_RETURN_IF_ERROR(CheckDivision(*file, even, path));
    REMORA_ASSIGN_OR_RETURN(Topology moved, file->WithAddresses(servers));
    if (file->ToText() == moved.ToText()) return moved;
    even = std::move(moved);
  } else if (!data_dir.empty() && Exists(data_dir + "/0")) {
    return absl::FailedPreconditionError(
        absl::StrCat("topology: ", path, " is missing, and ", data_dir, " has data of a cluster, which ",
                     data_dir, "/0/", AbslView(kShardFile),
                     " names; restore the file, or make it by `kvctl cluster init` with that ", "cluster"));
  }
  for (const std::string& folder : {data_dir, flags.server.backup_dir}) {
    if (folder.empty() || ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) continue;
    return ShardsFileFault(errno, absl::StrCat("--shards: cannot make the folder ", folder));
  }
  REMORA_ASSIGN_OR_RETURN(const rdma::UniqueFd lock, LockSwaps(path));
  REMORA_RETURN_IF_ERROR(WriteTopology(path, even));
  log(LogEvent::kTopologyWritten,
      absl::StrCat("the topology of cluster ", ClusterText(even.cluster()), " is in ", path));
  return even;
}

absl::StatusOr<rdma::UniqueFd> LockTopology(const std::string& path) {
  const std::string lock = path + ".lock";
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // The default is a folder that the servers' first start makes.
  if (!Exists(folder) && ::mkdir(folder.c_str(), 0700) != 0) {
    return ShardsFileFault(errno, absl::StrCat("topology: cannot make the folder ", folder));
  }
  rdma::UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!fd) return ShardsFileFault(errno, absl::StrCat("topology: cannot make the lock file ", lock));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return absl::AlreadyExistsError(absl::StrCat("topology: another kvserver --shards serves ", path,
                                               " (it holds ", lock,
                                               "); stop it, or name another --topology"));
}

absl::StatusOr<std::unique_ptr<ShardServers>> ShardServers::Start(const Topology& topology,
                                                                  ShardServersOptions options) {
  REMORA_ASSIGN_OR_RETURN(const std::string program, ThisProgram());
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return absl::ResourceExhaustedError("--shards: no descriptor is left; raise ulimit -n");
  std::unique_ptr<ShardServers> servers(new ShardServers(std::move(options), wake_fd));
  signal_wake_fd = wake_fd;
  const auto stop = [](int) {
    is_stop_asked = 1;
    Wake();
  };
  const auto reload = [](int) {
    is_reload_asked = 1;
    Wake();
  };
  HearSignals({{SIGTERM, stop}, {SIGINT, stop}, {SIGHUP, reload}});
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    ChildProgramOptions child{.name = "shard " + topology.shards()[i].name,
                              .program = program,
                              .arguments = servers->options_.arguments,
                              .log = servers->options_.log,
                              .ready_event = LogEvent::kShardServing,
                              .ended_event = LogEvent::kShardEnded,
                              .logs_errors = false,
                              .start_patience = std::chrono::milliseconds(-1),
                              .hang_timeout = servers->options_.hang_timeout,
                              .stop_patience = kStopPatience,
                              .void_fd = servers->options_.ready_fd,
                              .holds_hup = true,
                              .on_ready =
                                  [raw = servers.get()] {
                                    ++raw->ready_;
                                    ::eventfd_write(raw->wake_fd_, 1);
                                  },
                              .on_failure =
                                  [raw = servers.get()](int exit_status, const std::string&) {
                                    int none = 0;
                                    raw->failure_.compare_exchange_strong(none, exit_status);
                                    ::eventfd_write(raw->wake_fd_, 1);
                                  }};
    child.arguments.push_back("--shard=" + IdentityText(topology.IdentityOfShard(i)));
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ChildProgram> server, ChildProgram::Start(std::move(child)));
    servers->servers_.push_back(std::move(server));
  }
  return servers;
}

ShardServers::~ShardServers() {
  for (const auto& server : servers_) server->AskToEnd();
  servers_.clear();
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);  // it ends already
  ::close(wake_fd_);
}

void ShardServers::Wait() const {
  const auto interval = options_.beat_interval.count();
  pollfd wake{wake_fd_, POLLIN, 0};
  ::poll(&wake, 1, interval > 0 ? static_cast<int>(interval) : -1);
  eventfd_t ignored = 0;
  ::eventfd_read(wake_fd_, &ignored);
}

void ShardServers::Stop() {
  is_stopped_ = true;
  ::eventfd_write(wake_fd_, 1);
}

int ShardServers::Run() {
  bool was_ready = false;
  while (is_stop_asked == 0 && failure_ == 0 && !is_stopped_) {
    if (is_reload_asked != 0) {
      is_reload_asked = 0;
      for (const auto& server : servers_) server->Send(SIGHUP);
      if (options_.on_reload) options_.on_reload();
    }
    if (ready_ == servers_.size() && !std::exchange(was_ready, true)) options_.on_ready();
    if (options_.beat) options_.beat();
    Wait();
  }
  return failure_;
}

}  // namespace remora
