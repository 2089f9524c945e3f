#include "tools/kvgate/network/gateway_thread.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_client.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {
namespace {

// Polls before the thread sleeps, while operations are in flight: most end within microseconds.
constexpr int kPollsBeforeSleep = 64;
constexpr int kMostEvents = 64;
// Replies leave after so many steps, even if others still come.
constexpr int kMostGatheringSteps = 8;

// Data of epoll events; connections have the IDs of their clients, from 1.
constexpr std::uint64_t kInboxEvent = ~std::uint64_t{0};
constexpr std::uint64_t kStoreEvent = kInboxEvent - 1;

absl::Status WatchDescriptor(int epoll_fd, int operation, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{.events = events, .data = {.u64 = data}};
  if (::epoll_ctl(epoll_fd, operation, fd, &event) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GatewayThread>> GatewayThread::Start(GateState& state, const Clock& clock) {
  std::unique_ptr<GatewayThread> thread(new GatewayThread(state, clock));
  REMORA_RETURN_IF_ERROR(thread->Prepare());
  REMORA_ASSIGN_OR_RETURN(thread->thread_,
                          StartThread([&thread] { return std::thread(&GatewayThread::Run, thread.get()); }));
  return thread;
}

absl::Status GatewayThread::Prepare() {
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return absl::ResourceExhaustedError(absl::StrCat("epoll: ", std::strerror(errno)));
  REMORA_ASSIGN_OR_RETURN(inbox_, Inbox::Make());
  const GateOptions& options = state_.options;
  REMORA_ASSIGN_OR_RETURN(servers_, ServerLinks::Connect(state_.topologies, options.client, *inbox_, clock_));
  REMORA_RETURN_IF_ERROR(WatchDescriptor(epoll_fd_, EPOLL_CTL_ADD, inbox_->fd(), EPOLLIN, kInboxEvent));
  for (const int fd : servers_->fds()) {
    REMORA_RETURN_IF_ERROR(WatchDescriptor(epoll_fd_, EPOLL_CTL_ADD, fd, EPOLLIN, kStoreEvent));
  }
  keys_ = std::make_unique<ServerKeys>(*servers_);
  const auto connect = [this] {
    return ClusterClient::Connect(state_.topologies.latest(), state_.options.client, clock_);
  };
  REMORA_ASSIGN_OR_RETURN(blocking_, BlockingCalls::Start(connect, options.client.timeout, *inbox_, clock_));
  return absl::OkStatus();
}

GatewayThread::~GatewayThread() {
  stopping_ = true;
  if (thread_.joinable()) {
    inbox_->Post([] {});
    thread_.join();
  }
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
}

void GatewayThread::Adopt(int fd, std::shared_ptr<ClientRecord> record,
                          std::shared_ptr<const rdma::TlsContext> tls) {
  inbox_->Post([this, fd, record = std::move(record), tls = std::move(tls)]() mutable {
    std::unique_ptr<rdma::TlsStream> stream;
    if (tls != nullptr) {
      auto made = rdma::TlsStream::OfServer(std::move(tls));
      if (!made.ok()) {
        ::close(fd);
        return state_.clients.Remove(record->id);
      }
      stream = *std::move(made);
    }
    WatchNew(std::make_unique<Channel>(fd, std::move(stream)), std::move(record));
  });
}

void GatewayThread::Ask() {
  has_answered_.store(false, std::memory_order_relaxed);
  inbox_->Post([this] { has_answered_.store(true, std::memory_order_relaxed); });
}

// --- The loop -------------------------------------------------------------------------------------------

void GatewayThread::Run() {
  int idle_polls = 0;
  while (!stopping_) {
    const bool has_worked = Step();
    if (has_worked) {
      idle_polls = 0;
      Await(0);
    } else if (servers_->has_in_flight() && ++idle_polls < kPollsBeforeSleep) {
      continue;
    } else {
      servers_->Arm();
      // Events before Arm make no descriptor readable.
      Await(Step() ? 0 : TimeoutMs());
      servers_->Disarm();
    }
  }
  End();
}

bool GatewayThread::Step() {
  bool has_worked = servers_->Poll();
  std::vector<std::uint64_t> replied;
  replied.swap(replied_);
  for (const std::uint64_t id : replied) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    Connection& connection = *found->second.connection;
    connection.has_input() ? connection.Receive() : connection.Work();
    Settle(connection);
    has_worked = true;
  }
  if (!gathering_.empty() && (!has_worked || ++gathering_steps_ >= kMostGatheringSteps)) SendGathered();
  return has_worked;
}

void GatewayThread::SendGathered() {
  gathering_steps_ = 0;
  std::vector<std::uint64_t> gathering;
  gathering.swap(gathering_);
  for (const std::uint64_t id : gathering) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    found->second.connection->SendGathered();
    Settle(*found->second.connection);
  }
}

int GatewayThread::TimeoutMs() const {
  const std::optional<TimePoint> deadline = servers_->next_deadline();
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock_.Now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, servers_->is_dialling() ? 1 : 0, 1000));
}

void GatewayThread::Await(int timeout_ms) {
  std::array<epoll_event, kMostEvents> events;
  const int count = ::epoll_wait(epoll_fd_, events.data(), kMostEvents, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kInboxEvent) {
      inbox_->Drain();
    } else if (event.data.u64 != kStoreEvent) {
      Serve(event.data.u64, event.events);
    }
  }
}

// --- Connections ----------------------------------------------------------------------------------------

void GatewayThread::WatchNew(std::unique_ptr<Channel> channel, std::shared_ptr<ClientRecord> record) {
  const int fd = channel->fd();
  const auto id = static_cast<std::uint64_t>(record->id);
  auto connection = std::make_unique<Connection>(
      std::move(channel), std::move(record), Services{*servers_, *keys_, *blocking_, state_, clock_},
      [this, id](Connection&) {
        if (replied_.empty() || replied_.back() != id) replied_.push_back(id);
      },
      [this, id] { inbox_->Post([this, id] { replied_.push_back(id); }); });
  if (!WatchDescriptor(epoll_fd_, EPOLL_CTL_ADD, fd, EPOLLIN, id).ok()) {
    return state_.clients.Remove(static_cast<std::int64_t>(id));
  }
  connections_.emplace(id, Watched{std::move(connection), EPOLLIN});
}

void GatewayThread::Serve(std::uint64_t id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second.connection;
  if ((events & EPOLLERR) != 0) connection.Abandon();
  if ((events & (EPOLLIN | EPOLLHUP)) != 0) connection.Receive();
  if ((events & EPOLLOUT) != 0) connection.Work();
  Settle(connection);
}

void GatewayThread::Settle(Connection& connection) {
  const auto found = connections_.find(static_cast<std::uint64_t>(connection.id()));
  if (connection.is_over()) {
    state_.clients.Remove(connection.id());
    connections_.erase(found);
    return;
  }
  if (connection.gathers()) gathering_.push_back(found->first);
  // Bytes that TLS has decrypted make no socket readable.
  if (connection.has_input()) replied_.push_back(found->first);
  const std::uint32_t wanted =
      (connection.wants_input() ? EPOLLIN : 0u) | (connection.wants_output() ? EPOLLOUT : 0u);
  const std::uint32_t watched = std::exchange(found->second.events, wanted);
  if (watched == wanted) return;
  // A socket that is watched for nothing would report that its peer is gone, again and again.
  const int operation = wanted == 0 ? EPOLL_CTL_DEL : watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (!WatchDescriptor(epoll_fd_, operation, connection.fd(), wanted, found->first).ok()) {
    connection.Abandon();
    replied_.push_back(found->first);  // settles it again
  }
}

void GatewayThread::End() {
  for (auto& [id, watched] : connections_) watched.connection->Abandon();
  // Each of them resumes coroutines, which may await the others.
  servers_->owners().Stop();
  blocking_->Stop();
  servers_->StopDialling();
  inbox_->Drain();
  servers_.reset();
  for (auto& [id, watched] : connections_) state_.clients.Remove(static_cast<std::int64_t>(id));
  connections_.clear();
}

}  // namespace remora::kvgate
