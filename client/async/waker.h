// The descriptor by which an event loop learns that an AsyncClient has something to do.
#pragma once

#include "absl/status/status.h"

namespace remora {

/// An epoll of the connection's descriptor and of an eventfd, which Signal makes readable.
///
/// Thread safety: none. Ownership: watched descriptors are somebody else's, and leave it before they are
/// closed or with that.
class Waker {
 public:
  Waker() = default;
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Before all else. Errors are the system's: too many open descriptors.
  absl::Status Open();
  absl::Status Watch(int fd);
  /// At its end, a connection's descriptor would be readable for ever.
  void Unwatch(int fd);

  int fd() const { return fd_; }
  bool is_armed() const { return armed_; }
  void Arm() { armed_ = true; }
  void Disarm();
  /// While armed: fd() turns readable, until Disarm.
  void Signal();

 private:
  int fd_ = -1;
  int wake_fd_ = -1;  // the eventfd
  bool armed_ = false;
  bool signalled_ = false;
};

}  // namespace remora
