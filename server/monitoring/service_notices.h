// The words of a server to its service manager while it serves.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "store/base/clock.h"

namespace remora {

/// The server's one thread calls these functions. None of them may block.
struct ServiceNotices {
  /// Gets a line when the state of the server changes. May be empty.
  std::function<void(std::string_view)> status{};
  /// Is called once in each interval, as long as the server thread works. Zero: never.
  std::function<void()> beat{};
  std::chrono::milliseconds beat_interval{0};
};

/// Knows when the next beat is due. Thread safety: none; the server's one thread.
class Heartbeat {
 public:
  explicit Heartbeat(const ServiceNotices& notices) : beat_(notices.beat), interval_(notices.beat_interval) {}
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  bool is_on() const { return interval_.count() > 0; }
  /// Returns nothing where no beats are wanted.
  std::optional<TimePoint> next_beat() const { return is_on() ? std::optional(next_) : std::nullopt; }
  void BeatIfDue(TimePoint now) {
    if (!is_on() || now < next_) return;
    beat_();
    next_ = now + interval_;
  }

 private:
  const std::function<void()> beat_;
  const std::chrono::milliseconds interval_;
  TimePoint next_{};  // the first is due at once
};

}  // namespace remora
