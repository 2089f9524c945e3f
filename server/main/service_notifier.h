// The protocol of sd_notify(3): how a service tells its manager, systemd or another one, how it is. Each
// message is one datagram of lines NAME=VALUE.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace remora {

/// Sends the state of the service to its manager.
///
/// Thread safety: any thread.
class ServiceNotifier {
 public:
  /// `socket`: $NOTIFY_SOCKET, the path of a Unix socket, or @ and an abstract name; null or empty: it
  /// sends nothing. `warn` gets a line when the first message cannot be sent. A message that the service
  /// manager does not take is dropped.
  ServiceNotifier(const char* socket, std::function<void(std::string_view)> warn);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  bool has_manager() const { return !socket_.empty(); }
  /// Tells the manager that the service is ready, and waits some time for it to take that.
  void Ready();
  void Stopping();
  void Beat();
  /// `status`: one line for people.
  void Status(std::string_view status);

 private:
  void Send(const std::string& message, int patience_ms);

  const std::string socket_;
  const std::function<void(std::string_view)> warn_;
  std::atomic<bool> has_warned_ = false;
};

/// Returns how often the service is to call Beat: half of $WATCHDOG_USEC, but a millisecond at least. Zero:
/// never, as where `usec` is null, or `pid` ($WATCHDOG_PID) is another process. `warn` gets a line about a
/// value that is no number.
std::chrono::milliseconds BeatInterval(const char* usec, const char* pid,
                                       const std::function<void(std::string_view)>& warn);

}  // namespace remora
