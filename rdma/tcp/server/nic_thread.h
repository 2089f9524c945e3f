// A thread that does the work of a network card for its connections: it takes frames, and answers READs.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/adaptive_poll.h"
#include "rdma/tcp/server/acceptor.h"
#include "rdma/tcp/server/events.h"
#include "rdma/tcp/server/link.h"
#include "rdma/tcp/server/read_reporter.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// Thread that serves links, and accepts clients if it has the acceptor.
///
/// Thread safety: the server thread alone calls its public functions.
class NicThread {
 public:
  /// Starts a thread, which reports to `events`. `acceptor` may be null; else this thread also handles the
  /// acceptor's events.
  static absl::StatusOr<std::unique_ptr<NicThread>> Start(const Clock& clock, TcpEvents& events,
                                                          std::unique_ptr<TcpAcceptor> acceptor);
  ~NicThread();
  NicThread(const NicThread&) = delete;
  NicThread& operator=(const NicThread&) = delete;

  /// Serves the link until Forget. False: the system has no memory for that.
  bool Serve(const std::shared_ptr<TcpLink>& link, Connection* connection);
  /// Stops serving the link. REQUIRES: TcpLink::End was called.
  void Forget(const TcpLink* link);

  TcpAcceptor* acceptor() const { return acceptor_.get(); }
  /// Implements Listener::CountReads for this thread. Before Serve.
  void CountReads(std::function<void(const ServedReads&)> count) { reads_.SetCallback(std::move(count)); }
  /// Implements Listener::ServeBy for this thread. Before Serve.
  void ServeBy(std::function<bool()> serve) { serving_.serve = std::move(serve); }

 private:
  /// A link that was given up and stays open until its peer has received the reason.
  struct Ending {
    std::shared_ptr<TcpLink> link;
    TimePoint deadline;
  };

  /// Serves requests for a server thread that sleeps.
  struct Serving {
    std::function<bool()> serve;  // set before any link is served; may be empty
    Backoff backoff;
  };

  NicThread(const Clock& clock, TcpEvents& events, std::unique_ptr<TcpAcceptor> acceptor)
      : clock_(clock), tcp_events_(events), acceptor_(std::move(acceptor)) {}
  void Run();
  /// Waits for events: polls for a while where that pays, then sleeps. Returns their number.
  int WaitForEvents(std::span<epoll_event> events, int timeout_ms);
  void HandleEvents(int timeout_ms);
  /// `is_alone`: no other link has an event now.
  void HandleLink(TcpLink& link, std::uint32_t events, bool is_alone);
  /// Serves a link that was reported, in place of the server thread. False: that is to be woken.
  bool ServeForSleeper();
  int TimeoutMs() const;
  void CloseEndings();
  /// Drops the links in forgotten_. False: the thread must stop.
  bool ForgetLinks();

  const Clock& clock_;
  TcpEvents& tcp_events_;
  const std::unique_ptr<TcpAcceptor> acceptor_;
  UniqueFd wake_fd_;
  UniqueFd epoll_;  // event data: null for wake_fd_, else the address of the acceptor or of a link

  Mutex mutex_;
  std::unordered_map<const TcpLink*, std::shared_ptr<TcpLink>> links_ ABSL_GUARDED_BY(mutex_);
  // The thread takes these out of links_ between two batches of events, so no event names a destroyed link.
  std::vector<const TcpLink*> forgotten_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the thread alone.
  ReadReporter reads_;
  std::deque<Ending> endings_;  // by deadline
  Backoff polling_;             // polls for the next event
  Serving serving_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);

  std::thread thread_;
};

}  // namespace remora::rdma
