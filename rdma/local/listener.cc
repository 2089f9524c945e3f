#include "rdma/local/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/local/local.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Bounds of the clients that have connected and sent no hello: their number, and their time. The server drops
// a client that sends none in this time.
constexpr std::size_t kMaxHalfOpen = 64;
constexpr std::chrono::seconds kHalfOpenTime(5);
// Requests that wait here for NextRequest; more wait in the kernel's backlog.
constexpr std::size_t kMaxReady = 16;
// Calls between two checks of the sockets (for new clients and for killed ones) by a server that
// never sleeps. The checks are some tens of microseconds apart, and their system call is divided by
// this number.
constexpr std::uint32_t kPollsPerEventCheck = 256;
// A brief sleep counts as so many calls, so that every eighth one comes with a check.
constexpr std::uint32_t kPollsOfBriefSleep = kPollsPerEventCheck / 8;
// A brief sleep costs some time for each connection. More of them make it slower than a sleep at the sockets.
constexpr std::size_t kMaxBriefConnections = 8;
static_assert(kMaxBriefConnections <= kMaxFutexWords);
// So none is parked behind ArmBriefly.
static_assert(kMaxBriefConnections <= PolledConnections::kAlwaysPolled);
// Events that one check handles; the others wait for the next check.
constexpr std::size_t kMaxEvents = 256;
// Half-open and new clients that one check serves; the others wait for the next check. So a
// connected client never waits for many new ones.
constexpr std::size_t kMaxPendingServed = 2;
// After a check, the connected clients get this multiple of the time that it took.
constexpr int kPendingPauseFactor = 4;

absl::Status WatchFd(int epoll, int fd, void* whose) {
  epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = whose}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "epoll_ctl");
}

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> ListenLocal(const Address& address, const QueueLimits& limits,
                                                      const Clock& clock, const LocalAccess& access) {
  REMORA_RETURN_IF_ERROR(CheckLimits(limits));
  return LocalListener::Make(address, limits, clock, access);
}

Descriptors DescriptorsOfLocal() {
  // Counts the lock, the page, the spare, the socket, and two epolls. It adds the half-open and
  // ready clients. Memory that is made in advance or is in flight has a descriptor for the staging
  // buffer and each of the two rings.
  constexpr std::size_t kOwn = 6;
  constexpr std::size_t kMemories = 3;
  return {.listener = kOwn + kMaxHalfOpen + kMaxReady + kMemories * (SharedMemoryPool::kAhead + 1),
          .connection = 1};
}

absl::StatusOr<std::unique_ptr<Listener>> LocalListener::Make(const Address& address,
                                                              const QueueLimits& limits, const Clock& clock,
                                                              const LocalAccess& access) {
  std::unique_ptr<LocalListener> listener(new LocalListener(address, limits, clock, access));
  REMORA_RETURN_IF_ERROR(listener->Start());
  return listener;
}

absl::Status LocalListener::Start() {
  REMORA_RETURN_IF_ERROR(pool_.Start());
  REMORA_ASSIGN_OR_RETURN(lock_, LockSocketPath(address_.path));
  REMORA_ASSIGN_OR_RETURN(alive_, ServerLiveness::Create());
  spare_ = OpenSpare();
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  pending_epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !pending_epoll_) return absl::ErrnoToStatus(errno, "epoll_create1");
  REMORA_ASSIGN_OR_RETURN(listening_, ListenAt(address_.path, access_, &file_));
  REMORA_RETURN_IF_ERROR(WatchFd(pending_epoll_.get(), listening_.get(), nullptr));
  return WatchFd(epoll_.get(), pending_epoll_.get(), nullptr);
}

LocalListener::~LocalListener() {
  half_open_.clear();
  ready_.clear();
  REMORA_CHECK(connection_count_ == 0);  // connections are destroyed before their listener
  alive_.reset();                        // the first that clients get to know (A1)
  if (listening_) RemoveSocket(address_.path, file_);
}

absl::StatusOr<RemoteRegion> LocalListener::RegisterRead(SharedMemory& memory) {
  if (memory.writers() != SharedMemory::Writers::kOwnerOnly) {
    return absl::InvalidArgumentError(
        "register: memory for clients to READ must be made with Writers::kOwnerOnly");
  }
  if (reads_.size() == kLocalMaxReads) {
    return absl::ResourceExhaustedError(
        absl::StrCat("register: a listener has at most ", kLocalMaxReads, " regions to READ"));
  }
  reads_.push_back(&memory);
  return RemoteRegion{.size = memory.bytes().size(), .key = static_cast<std::uint32_t>(reads_.size())};
}

std::unique_ptr<ServerConnection> LocalListener::NextRequest() {
  if (armed_ || ++polls_ >= kPollsPerEventCheck) HandleEvents();
  if (ready_.empty()) return nullptr;
  std::unique_ptr<ServerConnection> connection = std::move(ready_.front());
  ready_.pop_front();
  return connection;
}

std::size_t LocalListener::Poll(std::span<Completion> out) {
  if (++polls_ >= kPollsPerEventCheck) HandleEvents();
  const std::size_t count = connections_.Take(out);
  // A client whose connection is parked waits for the next check. So work counts, too.
  if (connections_.has_parked()) polls_ += static_cast<std::uint32_t>(1 + count);
  return count;
}

void LocalListener::Arm() {
  armed_ = true;
  // A4: before the Poll that the contract demands next.
  alive_->page().sleeping.FallAsleep();
}

void LocalListener::Disarm() {
  alive_->page().sleeping.WakeUp();
  if (std::exchange(armed_, false)) return HandleEvents();
  alive_->page().cpu.Publish();
  polls_ += kPollsOfBriefSleep;  // the sockets are looked at now and then
}

bool LocalListener::ArmBriefly() {
  // The client of a parked connection sends a byte, which ends no brief sleep.
  const std::size_t most = has_futex_wait_any_ ? kMaxBriefConnections : 1;
  if (connections_.has_parked() || connections_.size() > most) return false;
  wakes_.clear();
  connections_.AppendWakes(wakes_);
  if (wakes_.empty()) return false;
  // A4: before the Poll that the contract demands next, and behind the look at the words.
  alive_->page().sleeping.FallAsleep(WakeBy::kFutex);
  return true;
}

std::atomic<std::uint32_t>* LocalListener::brief_word() {
  return wakes_.empty() ? nullptr : wakes_.front().word;
}

void LocalListener::Add(LocalServer*) { ++connection_count_; }

void LocalListener::Remove(LocalServer* connection) {
  --connection_count_;
  wakes_.clear();  // its word ends with it
  connections_.Remove(connection);
  Unwatch(connection);
}

absl::Status LocalListener::Watch(LocalServer* connection) {
  REMORA_RETURN_IF_ERROR(WatchFd(epoll_.get(), connection->socket(), connection));
  connections_.Add(connection);
  wakes_.clear();  // its word is not among them
  return absl::OkStatus();
}

void LocalListener::Unwatch(LocalServer* connection) {
  // Ignores the error if the socket is not watched: then there is nothing to do.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->socket(), nullptr);
}

void LocalListener::HandleEvents() {
  polls_ = 0;
  alive_->page().cpu.Publish();
  std::array<epoll_event, kMaxEvents> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  bool has_pending_client = false;
  for (int i = 0; i < count; ++i) {
    // No connection is destroyed in here, so the pointers of one batch stay good.
    auto* connection = static_cast<LocalServer*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (connection == nullptr) {
      has_pending_client = true;
    } else if (!armed_) {
      // A server that is about to sleep has polled for messages already. It would miss the message whose
      // wake-up byte this call reads.
      connection->OnSocketEvent();
    }
  }
  if (has_pending_client && (connections_.empty() || clock_.Now() >= pending_pause_until_))
    ServePendingClients();
  while (!half_open_.empty() && half_open_.front().since <= clock_.Now() - kHalfOpenTime) DropOldest();
}

void LocalListener::ServePendingClients() {
  const TimePoint start = clock_.Now();
  std::array<epoll_event, kMaxPendingServed> events;
  const int count = epoll_wait(pending_epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const auto* client = static_cast<const HalfOpen*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (client == nullptr) {
      AcceptSocket();
      continue;
    }
    // Not found: DropOldest removed it in favour of the client accepted just before.
    const auto it = std::ranges::find(half_open_, client, [](const HalfOpen& other) { return &other; });
    if (it != half_open_.end() && ReadHello(*it)) Forget(it);
  }
  const TimePoint end = clock_.Now();
  pending_pause_until_ = end + kPendingPauseFactor * (end - start);
}

void LocalListener::AcceptSocket() {
  if (ready_.size() == kMaxReady) return;
  UniqueFd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    AddClient(std::move(socket));
  } else if (errno == EMFILE || errno == ENFILE) {
    RejectOne();
  }
}

// Accepts and closes one client while the process has no free descriptor. Otherwise the listening socket
// would stay readable, and keep the server from sleeping.
void LocalListener::RejectOne() {
  spare_ = UniqueFd();
  {
    const UniqueFd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {  // else the client has hung up, or another thread took the descriptor: no client was
                   // rejected
      SendReply(socket.get(), {.answer = LocalAnswer::kNoSpace}, {}).IgnoreError();
      ++dropped_handshakes_;
      ++without_descriptor_;
    }
  }
  spare_ = OpenSpare();
}

void LocalListener::AddClient(UniqueFd socket) {
  const ucred peer = PeerOf(socket.get());
  if (!Admits(socket.get(), peer)) {
    SendReply(socket.get(), {.answer = LocalAnswer::kWrongUser}, {}).IgnoreError();
    ++dropped_handshakes_;
    return;
  }
  HalfOpen client = {.socket = std::move(socket), .peer = peer, .since = clock_.Now()};
  if (ReadHello(client)) return;
  if (half_open_.size() == kMaxHalfOpen) DropOldest();
  half_open_.push_back(std::move(client));
  if (!WatchFd(pending_epoll_.get(), half_open_.back().socket.get(), &half_open_.back()).ok()) {
    ++dropped_handshakes_;
    half_open_.pop_back();  // the kernel has no memory: the client is dropped
  }
}

bool LocalListener::Admits(int socket, const ucred& peer) const {
  if (peer.uid == geteuid() || peer.uid == 0) return true;
  switch (access_.admits) {
    case LocalAccess::Admits::kOwner:
      return false;
    case LocalAccess::Admits::kGroup:
      return IsInGroup(socket, peer, file_.group);
    case LocalAccess::Admits::kAnyone:
      return true;
  }
  return false;
}

void LocalListener::DropOldest() {
  // A message that it may have sent meanwhile still counts.
  if (!ReadHello(half_open_.front())) ++dropped_handshakes_;
  Forget(half_open_.begin());
}

void LocalListener::Forget(std::list<HalfOpen>::iterator client) {
  // A forked process may hold the socket, too, and its events would go on.
  if (client->socket) epoll_ctl(pending_epoll_.get(), EPOLL_CTL_DEL, client->socket.get(), nullptr);
  half_open_.erase(client);
}

bool LocalListener::ReadHello(HalfOpen& client) {
  const ReceivedHello received = ReceiveHello(client.socket.get());
  if (received.size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (!Take(client, received)) ++dropped_handshakes_;
  return true;
}

bool LocalListener::Take(HalfOpen& client, const ReceivedHello& received) {
  const auto& [size, hello, offered, cut] = received;
  // Magic and version come first in every version.
  if (size < static_cast<ssize_t>(offsetof(LocalHello, data_size)) || hello.magic != kLocalMagic)
    return false;
  if (hello.version != kLocalVersion) {
    SendReply(client.socket.get(), {.answer = LocalAnswer::kWrongVersion}, {}).IgnoreError();
    return false;
  }
  // It offered memory, but this process had no descriptor for it.
  if (cut && offered.empty()) {
    SendReply(client.socket.get(), {.answer = LocalAnswer::kNoSpace}, {}).IgnoreError();
    ++without_descriptor_;
    return false;
  }
  if (size != sizeof(hello) || hello.data_size > kMaxConnectData || cut || offered.size() > 1) return false;
  LocalMapping peer_memory;
  if (!offered.empty()) {
    absl::StatusOr<LocalMapping> mapped = LocalMapping::MapOffered(offered.front().get());
    if (!mapped.ok()) return false;
    peer_memory = *std::move(mapped);
  }
  // The connection watches its socket from now on. Ignores the error if the hello came with the accept: then
  // the socket was never watched.
  epoll_ctl(pending_epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
  ready_.push_back(std::make_unique<LocalServer>(*this, std::move(client.socket), client.peer, hello,
                                                 std::move(peer_memory)));
  return true;
}

}  // namespace remora::rdma
