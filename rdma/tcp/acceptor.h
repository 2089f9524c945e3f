// The listening socket, and clients that have connected and not yet said what they want.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/events.h"
#include "rdma/tcp/wire.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Thread Safety: a NIC thread uses it, but for what the server thread is said to use.
class TcpAcceptor {
 public:
  /// So many clients may be half open; one more pushes the oldest out. So many requests may wait for the
  /// server thread; more wait in the system's backlog.
  static constexpr std::size_t kMaxHalfOpen = 64;
  static constexpr std::size_t kMaxWaiting = 16;

  static absl::StatusOr<std::unique_ptr<TcpAcceptor>> Create(UniqueFd listening, TcpEvents& events,
                                                             const Clock& clock);
  TcpAcceptor(const TcpAcceptor&) = delete;
  TcpAcceptor& operator=(const TcpAcceptor&) = delete;

  /// Readable when Look has something to do.
  int fd() const { return epoll_.get(); }
  void HandleEvents();
  /// When Look is to be called at the latest.
  std::optional<TimePoint> NextDeadline() const;

  // --- The server thread ---
  /// A request was taken: there may be room for more.
  void ReturnCapacity();
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  std::uint64_t without_descriptor() const { return without_descriptor_.load(std::memory_order_relaxed); }

 private:
  struct HalfOpen {
    UniqueFd socket;
    TcpSocketAddress peer;
    TimePoint since;
    std::size_t heard = 0;  // bytes of hello
    TcpHello hello;
  };
  enum class HelloState { kWaits, kSpoke, kDropped };

  TcpAcceptor(UniqueFd listening, TcpEvents& events, const Clock& clock)
      : listening_(std::move(listening)), tcp_events_(events), clock_(clock) {}

  /// False: nobody waits, or nobody is to be let in now.
  bool AcceptOne();
  void RejectOne();
  HelloState ReceiveHello(HalfOpen& client);
  void Drop(std::list<HalfOpen>::iterator client);
  bool SetListening(bool on);

  const UniqueFd listening_;
  TcpEvents& tcp_events_;
  const Clock& clock_;
  UniqueFd epoll_;  // the listening socket (null) and half-open clients (their addresses)
  UniqueFd spare_;
  std::list<HalfOpen> half_open_;  // oldest first
  std::atomic<bool> is_full_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::atomic<std::uint64_t> without_descriptor_ = 0;
};

}  // namespace remora::rdma
