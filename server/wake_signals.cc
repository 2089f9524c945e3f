#include "server/wake_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "rdma/local/futex.h"

namespace remora {
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

void WakeSignals::Signal(int fd) {
  // Fails only when the eventfd is readable already, which is what is wanted.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
  news_.fetch_add(1, std::memory_order_seq_cst);
  notifiers_.fetch_add(1, std::memory_order_seq_cst);
  std::atomic<std::uint32_t>* const word = brief_word_.load(std::memory_order_seq_cst);
  if (word != nullptr) rdma::FutexNotify(*word);
  notifiers_.fetch_sub(1, std::memory_order_release);
}

bool WakeSignals::SleepBriefly(rdma::Listener& listener, std::uint32_t seen, Duration longest) {
  std::atomic<std::uint32_t>* const word = listener.brief_word();
  if (word == nullptr) return false;
  brief_word_.store(word, std::memory_order_seq_cst);
  const bool came = news() != seen || listener.SleepBriefly(longest);
  // The word ends with its connection, so no thread may use it from here on.
  brief_word_.store(nullptr, std::memory_order_seq_cst);
  while (notifiers_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  return came;
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
