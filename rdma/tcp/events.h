// What NIC threads have for the server thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/socket.h"
#include "rdma/tcp/wire.h"
#include "rdma/unique_fd.h"

namespace remora::rdma {

class TcpLink;

/// A client that has said what it wants.
struct TcpRequest {
  UniqueFd socket;
  TcpSocketAddress peer;
  TcpHello hello;  // its sizes are checked
};

/// Thread Safety: Report functions for all threads; the others for the server thread.
class TcpEvents {
 public:
  static absl::StatusOr<std::unique_ptr<TcpEvents>> Create();

  /// The link has completions.
  void Report(const std::shared_ptr<TcpLink>& link);
  /// The NIC thread that is about to report runs on this CPU.
  void NoteCpu(int cpu) {
    if (cpu_.load(std::memory_order_relaxed) != cpu) cpu_.store(cpu, std::memory_order_relaxed);
  }
  /// Where a NIC thread that reported was seen last; -1: nowhere yet.
  int cpu() const { return cpu_.load(std::memory_order_relaxed); }
  void ReportRequest(TcpRequest request);
  std::size_t request_count() const { return request_count_.load(); }

  /// A look at a word where there are none.
  std::shared_ptr<TcpLink> NextLink();
  std::optional<TcpRequest> NextRequest();

  /// From now on, fd() turns readable with each report. No wake-up is lost: a report comes before Arm, and is
  /// seen by who looks behind it, or after it, and is signalled; one mutex orders the two.
  void Arm();
  void Disarm();
  int fd() const { return wake_fd_.get(); }

 private:
  TcpEvents() = default;
  /// REQUIRES: mutex_.
  void Signal();

  UniqueFd wake_fd_;
  std::atomic<int> cpu_ = -1;  // a hint
  std::atomic<bool> has_links_ = false;
  std::atomic<std::size_t> request_count_ = 0;  // seq_cst: beside TcpAcceptor::is_full_, each is stored first
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<TcpLink>> links_;  // each once: TcpLink::is_reported
  std::deque<TcpRequest> requests_;
  bool armed_ = false;
};

}  // namespace remora::rdma
