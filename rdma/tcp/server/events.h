// Reports of NIC threads for the server thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/tcp/stream/wire.h"
#include "rdma/unique_fd.h"
#include "store/base/mutex.h"

namespace remora::rdma {

class TcpLink;

/// A client whose hello is complete.
struct TcpRequest {
  UniqueFd socket;
  TcpSocketAddress peer;
  TcpHello hello;                  // the acceptor has checked its sizes
  std::unique_ptr<TlsStream> tls;  // null for a plain socket
};

/// Queue of links with completions, and of requests, from NIC threads to the server thread.
///
/// Thread safety: any thread may call Report, ReportWithoutWake, Wake, ReportRequest, ReportRejection,
/// NoteCpu, cpu and request_count. The server thread alone calls the other functions.
class TcpEvents {
 public:
  static absl::StatusOr<std::unique_ptr<TcpEvents>> Create();

  /// Reports that the link has completions.
  void Report(const std::shared_ptr<TcpLink>& link);
  /// Reports it without signalling fd(). True: the server thread is awake, or was told before. False: it has
  /// called Arm, and the caller calls Wake, or serves the link in its stead.
  bool ReportWithoutWake(const std::shared_ptr<TcpLink>& link);
  /// Signals fd() if the server thread has called Arm.
  void Wake();
  /// Notes the CPU on which a NIC thread runs that is about to report; -1 for one that serves the link
  /// itself.
  void NoteCpu(int cpu) {
    if (cpu_.load(std::memory_order_relaxed) != cpu) cpu_.store(cpu, std::memory_order_relaxed);
  }
  /// Returns the CPU on which a NIC thread last reported; -1 before the first report.
  int cpu() const { return cpu_.load(std::memory_order_relaxed); }
  void ReportRequest(TcpRequest request);
  /// Reports a client that was rejected before it became a request, with a line for the log. Drops the line
  /// if kMaxRejections wait.
  void ReportRejection(std::string line);
  static constexpr std::size_t kMaxRejections = 16;
  std::size_t request_count() const { return request_count_.load(); }

  /// Takes the next link, or the next request. Null or nothing: there is none. Cost: a load if there is none.
  std::shared_ptr<TcpLink> NextLink();
  std::optional<TcpRequest> NextRequest();
  /// Takes the next line about a rejected client. Nothing: there is none. Cost: a load if there is none.
  std::optional<std::string> NextRejection();

  /// Makes fd() turn readable with each report from now on. No wake-up is lost, because a mutex orders Arm
  /// and each report. The server thread sees a report before Arm when it polls after Arm. A report after Arm
  /// signals fd().
  void Arm();
  void Disarm();
  int fd() const { return wake_fd_.get(); }

 private:
  TcpEvents() = default;
  /// Returns whether the link was not in the queue before.
  bool Add(const std::shared_ptr<TcpLink>& link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Signal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  UniqueFd wake_fd_;
  std::atomic<int> cpu_ = -1;  // a hint
  std::atomic<bool> has_links_ = false;
  std::atomic<bool> has_rejections_ = false;
  // seq_cst, like TcpAcceptor::is_full_: each thread stores its own word first, and then loads the other's.
  std::atomic<std::size_t> request_count_ = 0;
  Mutex mutex_;
  std::deque<std::shared_ptr<TcpLink>> links_
      ABSL_GUARDED_BY(mutex_);  // each link once: TcpLink::is_reported
  std::deque<TcpRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> rejections_ ABSL_GUARDED_BY(mutex_);
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;  // fd() is readable
};

}  // namespace remora::rdma
