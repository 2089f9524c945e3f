#include "tools/kvgate/gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_client.h"
#include "server/main/beats.h"
#include "server/monitoring/service_notices.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {
namespace {

// Without descriptors or memory, a socket stays readable; the gate lets this time pass.
constexpr int kPauseMs = 50;
constexpr int kKeepAliveSeconds = 300;  // as in Redis

void Tune(int fd) {
  // These options fail on a Unix socket, which does not need them.
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveSeconds, sizeof(kKeepAliveSeconds));
}

/// Returns how long poll may wait; negative: any time.
int MillisUntil(std::optional<TimePoint> time, TimePoint now) {
  if (!time) return -1;
  return static_cast<int>(
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(*time - now).count(), 0));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Start(GateOptions options,
                                                  const std::vector<ListenAddress>& listen, Reach reach,
                                                  const Clock& clock) {
  std::unique_ptr<Gate> gate(new Gate(std::move(options), clock));
  if (!gate->state_.options.tls.empty()) {
    REMORA_ASSIGN_OR_RETURN(gate->tls_, rdma::ServerTls::Create(gate->state_.options.tls));
  }
  for (const ListenAddress& address : listen) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Listener::Listen(address, reach));
    gate->listeners_.push_back(std::move(listener));
  }
  gate->state_.started_ms = clock.UnixMillis();
  REMORA_RETURN_IF_ERROR(gate->StartWatchers());
  for (int i = 0; i < gate->state_.options.threads; ++i) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<GatewayThread> thread, GatewayThread::Start(gate->state_, clock));
    gate->threads_.push_back(std::move(thread));
  }
  return gate;
}

absl::Status Gate::StartWatchers() {
  const GateOptions& options = state_.options;
  const RedisCluster* const cluster = options.cluster ? &*options.cluster : nullptr;
  REMORA_ASSIGN_OR_RETURN(state_.watchers, ChangeWatchers::Start(state_.topologies, options.client, cluster,
                                                                 state_.hub, state_.tracking));
  if (options.notify.empty()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> client,
                          ClusterClient::Connect(*options.topology, options.client, clock_));
  const absl::Status status = ChangeWatchers::CanWatch(*client);
  if (!status.ok()) {
    return {status.code(), absl::StrCat("--notify_keyspace_events: the server does not show its changes: ",
                                        status.message(), "; or start the gate without this flag")};
  }
  state_.watchers->SetFlags(options.notify);
  return absl::OkStatus();
}

void Gate::BeatIfAllWork() {
  if (!std::ranges::all_of(threads_, &GatewayThread::has_answered)) return;
  BeatToParent();
  for (const std::unique_ptr<GatewayThread>& thread : threads_) thread->Ask();
}

absl::Status Gate::Run(int stop_fd, std::chrono::milliseconds beat_interval) {
  Heartbeat heartbeat({.status = {}, .beat = [this] { BeatIfAllWork(); }, .beat_interval = beat_interval});
  std::vector<pollfd> watched{{.fd = stop_fd, .events = POLLIN, .revents = 0}};
  std::vector<bool> has_tls{false};
  for (const std::unique_ptr<Listener>& listener : listeners_) {
    for (const int fd : listener->fds()) watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    has_tls.resize(watched.size(), listener->has_tls());
  }
  for (;;) {
    heartbeat.BeatIfDue(clock_.Now());
    if (::poll(watched.data(), watched.size(), MillisUntil(heartbeat.next_beat(), clock_.Now())) < 0 &&
        errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    if (watched[0].revents != 0) {
      state_.watchers->Stop();  // commands may wait for it
      return absl::OkStatus();
    }
    int pause_ms = 0;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0) pause_ms = std::max(pause_ms, Accept(watched[i].fd, has_tls[i]));
    }
    if (pause_ms > 0) ::poll(watched.data(), 1, pause_ms);
  }
}

int Gate::Accept(int listening_fd, bool has_tls) {
  const int fd = ::accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return is_short ? kPauseMs : 0;
  }
  if (state_.clients.size() >= state_.max_clients) {
    constexpr std::string_view kFull = "-ERR max number of clients reached\r\n";
    state_.rejected.fetch_add(1, std::memory_order_relaxed);
    // A new socket has space for it.
    [[maybe_unused]] const ssize_t sent = ::send(fd, kFull.data(), kFull.size(), MSG_NOSIGNAL);
    ::close(fd);
    return 0;
  }
  Tune(fd);
  state_.connections.fetch_add(1, std::memory_order_relaxed);
  auto record =
      state_.clients.Add(DescribeSocket(fd, true), DescribeSocket(fd, false), fd, clock_.UnixMillis());
  threads_[next_thread_]->Adopt(fd, std::move(record), has_tls ? tls_->context() : nullptr);
  next_thread_ = (next_thread_ + 1) % threads_.size();
  return 0;
}

}  // namespace remora::kvgate
