#include "server/http/http_server.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>
#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/http/cpu_allowance.h"
#include "store/base/clock.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Bytes that a client may send behind its last request, for which the connection stays so that the client can
// read the response. Bytes that nobody reads make the system discard what was sent.
constexpr std::size_t kMaxDrained = std::size_t{4} << 20;

/// Lets the server thread go first where there is no CPU for both.
void YieldToServer() {
  constexpr int kNicerHttp = 5;
  const sched_param none{};
  static_cast<void>(::sched_setscheduler(0, SCHED_BATCH, &none));
  static_cast<void>(::nice(kNicerHttp));  // of this thread alone, in Linux
}

// H5.
constexpr int kCpuDivisor = 20;
constexpr std::chrono::milliseconds kCpuBurst{100};

/// The CPU time of the calling thread.
Duration ThreadCpuTime() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// The threads of this process are started with all signals blocked while this exists.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

class HttpServer::Loop {
 public:
  static absl::StatusOr<std::unique_ptr<Loop>> Create(rdma::UniqueFd listener,
                                                      std::unique_ptr<HttpResponder> responder);

  void Run();
  /// Makes Run return. Any thread.
  void Stop() { ::eventfd_write(stop_.get(), 1); }

 private:
  struct Connection {
    rdma::UniqueFd socket;
    std::string input{};
    std::string output{};
    std::size_t sent = 0;        // of the output
    bool closes = false;         // behind the output
    bool is_shut = false;        // it waits for the client's end
    std::size_t drained = 0;     // of the input since `closes`
    bool waits_to_send = false;  // in epoll
  };
  using Place = std::list<Connection>::iterator;
  enum class Outcome { kWaits, kOver };

  Loop(rdma::UniqueFd listener, std::unique_ptr<HttpResponder> responder)
      : listener_(std::move(listener)), responder_(std::move(responder)) {}

  void Accept();
  /// Pauses while the thread has used up its share of a CPU (H5), or until Stop. Returns whether it goes on.
  bool Pause();
  /// Takes what came, and answers one request; ends the connection if it is over.
  void Serve(Place place);
  Outcome Receive(Connection& connection);
  Outcome Answer(Connection& connection);
  Outcome Send(Connection& connection);
  void Await(Connection& connection, bool to_send);
  void End(Place place);
  bool Watch(int fd, std::uint32_t events) const;

  const rdma::UniqueFd listener_;
  const std::unique_ptr<HttpResponder> responder_;
  rdma::UniqueFd epoll_;
  rdma::UniqueFd stop_;
  const SteadyClock clock_;
  CpuAllowance allowance_{kCpuDivisor, kCpuBurst, clock_.Now(), Duration::zero()};
  std::list<Connection> connections_;              // the one that was idle for longest first
  absl::flat_hash_map<int, Place> of_descriptor_;  // each
};

absl::StatusOr<std::unique_ptr<HttpServer::Loop>> HttpServer::Loop::Create(
    rdma::UniqueFd listener, std::unique_ptr<HttpResponder> responder) {
  std::unique_ptr<Loop> loop(new Loop(std::move(listener), std::move(responder)));
  loop->epoll_ = rdma::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  loop->stop_ = rdma::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // By edges: where no descriptor is left, a connection waits until another one comes, and the loop does not
  // spin.
  if (!loop->epoll_ || !loop->stop_ || !loop->Watch(loop->listener_.get(), EPOLLIN | EPOLLET) ||
      !loop->Watch(loop->stop_.get(), EPOLLIN)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--http: ", std::strerror(errno), "; raise the limit on descriptors (ulimit -n)"));
  }
  return loop;
}

bool HttpServer::Loop::Watch(int fd, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void HttpServer::Loop::Run() {
  ::prctl(PR_SET_NAME, "remora-http");
  YieldToServer();
  std::array<epoll_event, kMaxConnections + 2> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      if (fd == listener_.get()) {
        Accept();
      } else if (const auto found = of_descriptor_.find(fd); found != of_descriptor_.end()) {
        // An event of a connection that this round has ended may meet a new one: there is nothing to receive.
        Serve(found->second);
      }
      if (!Pause()) return;
    }
  }
}

bool HttpServer::Loop::Pause() {
  const Duration pause = allowance_.PauseFor(clock_.Now(), ThreadCpuTime());
  if (pause == Duration::zero()) return true;
  pollfd stop{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&stop, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(pause).count())) <= 0;
}

void HttpServer::Loop::Accept() {
  for (std::size_t accepted = 0; accepted < kMaxConnections; ++accepted) {
    rdma::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && !connections_.empty()) {
        End(connections_.begin());
        continue;
      }
      return;
    }
    if (!Pause()) return;
    if (connections_.size() == kMaxConnections) End(connections_.begin());
    const int fd = socket.get();
    connections_.push_back({.socket = std::move(socket)});
    const Place place = std::prev(connections_.end());
    of_descriptor_[fd] = place;
    // At once: its request is often there, and others may come that would push it out.
    Watch(fd, EPOLLIN) ? Serve(place) : End(place);
  }
  // More may wait, behind the turns of those that are here.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = listener_.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

void HttpServer::Loop::Serve(Place place) {
  connections_.splice(connections_.end(), connections_, place);
  Connection& connection = *place;
  // One request: a client that sends many does not keep others waiting.
  if (Send(connection) == Outcome::kOver || Receive(connection) == Outcome::kOver ||
      Answer(connection) == Outcome::kOver) {
    End(place);
  }
}

HttpServer::Loop::Outcome HttpServer::Loop::Receive(Connection& connection) {
  if (connection.sent < connection.output.size()) return Outcome::kWaits;
  std::array<char, kMaxHead> bytes;
  const std::size_t capacity = connection.closes ? kMaxDrained : kMaxHead - connection.input.size();
  if (capacity == 0) return Outcome::kWaits;  // a request of them is complete
  // With MSG_TRUNC the system discards the bytes, and writes none of them to memory.
  const ssize_t got = connection.closes ? ::recv(connection.socket.get(), nullptr, capacity, MSG_TRUNC)
                                        : ::recv(connection.socket.get(), bytes.data(), capacity, 0);
  if (got == 0) return Outcome::kOver;
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Outcome::kWaits : Outcome::kOver;
  if (connection.closes) {
    connection.drained += static_cast<std::size_t>(got);
    return connection.drained > kMaxDrained ? Outcome::kOver : Outcome::kWaits;
  }
  connection.input.append(bytes.data(), static_cast<std::size_t>(got));
  return Outcome::kWaits;
}

HttpServer::Loop::Outcome HttpServer::Loop::Answer(Connection& connection) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (connection.closes || connection.sent < connection.output.size()) return Outcome::kWaits;
  const std::size_t end = connection.input.find(kEnd);
  HttpResponse response;
  if (end != std::string::npos) {
    response = responder_->Respond(std::string_view(connection.input).substr(0, end + kEnd.size()));
    connection.input.erase(0, end + kEnd.size());
  } else if (connection.input.size() == kMaxHead) {
    response = HttpResponder::TooLong();
  } else {
    return Outcome::kWaits;
  }
  connection.output = std::move(response.text);
  connection.sent = 0;
  connection.closes = response.closes;
  if (Send(connection) == Outcome::kOver) return Outcome::kOver;
  // Its next request may be here already. Once the socket takes more output, it has its turn.
  if (!connection.closes && !connection.input.empty()) Await(connection, true);
  return Outcome::kWaits;
}

HttpServer::Loop::Outcome HttpServer::Loop::Send(Connection& connection) {
  while (connection.sent < connection.output.size()) {
    const ssize_t put = ::send(connection.socket.get(), connection.output.data() + connection.sent,
                               connection.output.size() - connection.sent, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) return Outcome::kOver;
    if (put < 0) {
      Await(connection, true);
      return Outcome::kWaits;
    }
    connection.sent += static_cast<std::size_t>(put);
  }
  Await(connection, false);
  if (connection.closes && !std::exchange(connection.is_shut, true)) {
    connection.input.clear();
    ::shutdown(connection.socket.get(), SHUT_WR);
  }
  return Outcome::kWaits;
}

void HttpServer::Loop::Await(Connection& connection, bool to_send) {
  if (std::exchange(connection.waits_to_send, to_send) == to_send) return;
  epoll_event event{};
  event.events = to_send ? EPOLLOUT : EPOLLIN;
  event.data.fd = connection.socket.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
}

void HttpServer::Loop::End(Place place) {
  // A forked process may hold the socket, too, and its events would go on.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, place->socket.get(), nullptr);
  of_descriptor_.erase(place->socket.get());
  connections_.erase(place);
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(rdma::UniqueFd listener,
                                                              std::unique_ptr<HttpResponder> responder) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop,
                          Loop::Create(std::move(listener), std::move(responder)));
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(loop)));
  const SignalsBlocked blocked;
  REMORA_ASSIGN_OR_RETURN(server->thread_,
                          StartThread([&] { return std::thread(&Loop::Run, server->loop_.get()); }));
  return server;
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
}

}  // namespace remora
