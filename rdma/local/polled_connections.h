// The connections of a listener: those that each poll looks at, and those that are parked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma/local/futex.h"
#include "rdma/transport.h"

namespace remora::rdma {

class LocalServer;

/// A look at an idle connection takes some cache lines, so it would cost the server the more, the more
/// clients are idle. So it parks a connection that was idle for long (A6 of wire.h). The client rings at its
/// next message, and the listener then unparks the connection.
///
/// Thread safety: none.
class PolledConnections {
 public:
  /// So many connections are always polled: a look at them costs less than the wake-ups would.
  static constexpr std::size_t kAlwaysPolled = 16;
  /// After so many polls without a completion, a connection is parked. All these looks take about as long as
  /// its wake-up will.
  static constexpr std::uint32_t kIdlePolls = 1024;

  /// Adds a connection, which is polled.
  void Add(LocalServer* connection) { polled_.push_back(connection); }
  /// Removes a connection, if it was added.
  void Remove(LocalServer* connection);
  /// Polls the connection again.
  void Unpark(LocalServer* connection);

  /// Takes completions. Each call starts at another connection, so that a busy connection does not keep the
  /// others waiting.
  std::size_t Take(std::span<Completion> out);
  /// Returns whether the last Take that took something found one of these clients on the caller's CPU.
  bool has_client_here() const { return has_client_here_; }

  /// Adds to `words` the word by which each polled client wakes a server that sleeps briefly (A4).
  /// REQUIRES: none is parked.
  void AppendWakes(std::vector<SeenWord>& words) const;

  bool empty() const { return polled_.empty() && parked_ == 0; }
  std::size_t size() const { return polled_.size() + parked_; }
  bool has_parked() const { return parked_ > 0; }

 private:
  /// Parks connections that were idle for long.
  void ParkIdle();

  std::vector<LocalServer*> polled_;
  std::size_t parked_ = 0;
  std::size_t first_ = 0;    // in polled_, of the next Take
  std::uint32_t takes_ = 0;  // calls of Take; it may wrap around
  bool has_client_here_ = false;
};

}  // namespace remora::rdma
