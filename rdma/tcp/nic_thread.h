// A thread that does for its connections what a network card does: it takes frames, and answers READs.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/acceptor.h"
#include "rdma/tcp/link.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Thread Safety: its functions are for the server thread.
class NicThread {
 public:
  /// `acceptor`: null, or what this thread looks after, too.
  static absl::StatusOr<std::unique_ptr<NicThread>> Start(const Clock& clock,
                                                          std::unique_ptr<TcpAcceptor> acceptor);
  ~NicThread();
  NicThread(const NicThread&) = delete;
  NicThread& operator=(const NicThread&) = delete;

  /// Serves the link until Forget. False: as TcpLink::Start.
  bool Serve(const std::shared_ptr<TcpLink>& link, Connection* connection);
  /// REQUIRES: TcpLink::End was called.
  void Forget(const TcpLink* link);

  TcpAcceptor* acceptor() const { return acceptor_.get(); }
  const NicCounters& counters() const { return counters_; }

 private:
  /// Of a peer that hears why it was given up.
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
  /// False: it shall stop.
  bool ForgetLinks();

  const Clock& clock_;
  const std::unique_ptr<TcpAcceptor> acceptor_;
  NicCounters counters_;
  UniqueFd wake_fd_;
  UniqueFd epoll_;  // wake_fd_ (null), the acceptor (its address), links (theirs)

  std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<const TcpLink*, std::shared_ptr<TcpLink>> links_;
  // Its thread takes them out of links_ between two batches of events, so that no event names one that is
  // gone.
  std::vector<const TcpLink*> forgotten_;
  bool stop_ = false;

  // The thread's own.
  std::deque<Ending> endings_;  // by deadline
  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);

  std::thread thread_;
};

}  // namespace remora::rdma
