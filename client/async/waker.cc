#include "client/async/waker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {

Waker::~Waker() {
  if (fd_ >= 0) close(fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status Waker::Open() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (fd_ < 0) return absl::ErrnoToStatus(errno, "epoll_create1");
  return Watch(wake_fd_);
}

absl::Status Waker::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "epoll_ctl");
}

void Waker::Unwatch(int fd) { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }

void Waker::Disarm() {
  armed_ = false;
  if (!signalled_) return;
  signalled_ = false;
  eventfd_t ignored;
  REMORA_CHECK(eventfd_read(wake_fd_, &ignored) == 0);
}

void Waker::Signal() {
  if (!armed_ || signalled_) return;
  signalled_ = true;
  REMORA_CHECK(eventfd_write(wake_fd_, 1) == 0);
}

}  // namespace remora
