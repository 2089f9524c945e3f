#include "tools/kvgate/network/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remora::kvgate {

absl::StatusOr<std::unique_ptr<Inbox>> Inbox::Make() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", std::strerror(errno)));
  return std::unique_ptr<Inbox>(new Inbox(fd));
}

Inbox::~Inbox() { ::close(fd_); }

void Inbox::Post(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    work_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  // It fails only if the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof(one));
}

bool Inbox::Drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof(count));
  std::vector<std::function<void()>> work;
  {
    const MutexLock lock(mutex_);
    work.swap(work_);
  }
  for (std::function<void()>& one : work) one();
  return !work.empty();
}

}  // namespace remora::kvgate
