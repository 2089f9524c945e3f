#include "server/wake_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace remora {
namespace {

/// Makes an eventfd readable. Fails only when it is so already, which is what is wanted.
void Signal(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WakeSignals>> WakeSignals::Create() {
  std::unique_ptr<WakeSignals> signals(new WakeSignals);
  signals->stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  signals->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (signals->stop_fd_ < 0 || signals->wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  return signals;
}

WakeSignals::~WakeSignals() {
  if (stop_fd_ >= 0) ::close(stop_fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void WakeSignals::Stop() {
  // Wakes the server thread, and keeps it from sleeping until it sees the flag.
  Signal(stop_fd_);
  // The last thing: this may be destroyed as soon as the server thread, which acquires it, sees it.
  stop_.store(true, std::memory_order_release);
}

void WakeSignals::RequestReload() {
  reload_.store(true, std::memory_order_release);
  Signal(wake_fd_);
}

void WakeSignals::ReportSynced() {
  synced_.store(true, std::memory_order_release);
  Signal(wake_fd_);
}

void WakeSignals::Wake() { Signal(wake_fd_); }

bool WakeSignals::Sleep(std::vector<pollfd>& fds, int timeout_ms) {
  fds.push_back({stop_fd_, POLLIN, 0});
  fds.push_back({wake_fd_, POLLIN, 0});
  const bool woken = ::poll(fds.data(), fds.size(), timeout_ms) > 0;
  // The flags say what there is to do; the signal is for sleepers.
  if (woken && fds.back().revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_fd_, &count, sizeof(count));
  }
  return woken;
}

}  // namespace remora
