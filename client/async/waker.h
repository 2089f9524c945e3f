// The descriptor by which an event loop learns that an AsyncClient has work to do.
#pragma once

#include "absl/status/status.h"

namespace remora {

/// An epoll descriptor over the connection's descriptor and an eventfd, which Signal makes readable.
///
/// Thread safety: none. Ownership: the caller owns the watched descriptors. It calls Unwatch before it closes
/// one, or closing it ends the watch.
class Waker {
 public:
  Waker() = default;
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Opens the descriptors. Call it before all others. Errors are the system's: too many open descriptors.
  absl::Status Open();
  absl::Status Watch(int fd);
  /// Stops watching a descriptor: that of an ended connection would be readable for ever.
  void Unwatch(int fd);

  int fd() const { return fd_; }
  bool is_armed() const { return armed_; }
  void Arm() { armed_ = true; }
  void Disarm();
  /// Makes fd() readable until Disarm, if armed.
  void Signal();

 private:
  int fd_ = -1;
  int wake_fd_ = -1;  // the eventfd
  bool armed_ = false;
  bool signalled_ = false;
};

}  // namespace remora
