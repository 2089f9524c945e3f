// A thread that does the work of a network card for its connections: it takes frames, and answers READs.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/server/acceptor.h"
#include "rdma/tcp/server/link.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// Thread that serves links, and accepts clients if it has the acceptor.
///
/// Thread safety: the server thread alone calls its public functions.
class NicThread {
 public:
  /// Starts a thread. `acceptor` may be null; else this thread also handles the acceptor's events.
  static absl::StatusOr<std::unique_ptr<NicThread>> Start(const Clock& clock,
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
  void CountReads(std::function<void(const ServedReads&)> count) { count_reads_ = std::move(count); }

 private:
  /// A link that was given up and stays open until its peer has received the reason.
  struct Ending {
    std::shared_ptr<TcpLink> link;
    TimePoint deadline;
  };

  NicThread(const Clock& clock, std::unique_ptr<TcpAcceptor> acceptor)
      : clock_(clock), acceptor_(std::move(acceptor)) {}
  void Run();
  void HandleEvents(int timeout_ms);
  int TimeoutMs() const;
  void CloseEndings();
  void ReportReads();
  /// Drops the links in forgotten_. False: the thread must stop.
  bool ForgetLinks();

  const Clock& clock_;
  const std::unique_ptr<TcpAcceptor> acceptor_;
  UniqueFd wake_fd_;
  UniqueFd epoll_;  // event data: null for wake_fd_, else the address of the acceptor or of a link

  Mutex mutex_;
  std::unordered_map<const TcpLink*, std::shared_ptr<TcpLink>> links_ ABSL_GUARDED_BY(mutex_);
  // The thread takes these out of links_ between two batches of events, so no event names a destroyed link.
  std::vector<const TcpLink*> forgotten_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // Set before any link is served, and used behind that.
  std::function<void(const ServedReads&)> count_reads_;

  // Used by the thread alone.
  ServedReads served_;  // since the last call of count_reads_
  TimePoint cpu_time_read_at_{};
  Duration cpu_time_{};         // of the thread, at that time
  std::deque<Ending> endings_;  // by deadline
  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);

  std::thread thread_;
};

}  // namespace remora::rdma
