#include "rdma/tcp/server/events.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "rdma/tcp/server/link.h"

namespace remora::rdma {

absl::StatusOr<std::unique_ptr<TcpEvents>> TcpEvents::Create() {
  std::unique_ptr<TcpEvents> events(new TcpEvents);
  events->wake_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events->wake_fd_) return TcpStatus(errno, "eventfd");
  return events;
}

void TcpEvents::Signal() {
  if (armed_ && !std::exchange(signalled_, true)) eventfd_write(wake_fd_.get(), 1);
}

bool TcpEvents::Add(const std::shared_ptr<TcpLink>& link) {
  if (std::exchange(link->is_reported, true)) return false;
  links_.push_back(link);
  has_links_.store(true, std::memory_order_release);
  return true;
}

void TcpEvents::Report(const std::shared_ptr<TcpLink>& link) {
  const MutexLock lock(mutex_);
  if (Add(link)) Signal();
}

bool TcpEvents::ReportWithoutWake(const std::shared_ptr<TcpLink>& link) {
  const MutexLock lock(mutex_);
  return !Add(link) || !armed_;
}

void TcpEvents::Wake() {
  const MutexLock lock(mutex_);
  Signal();
}

void TcpEvents::ReportRequest(TcpRequest request) {
  const MutexLock lock(mutex_);
  requests_.push_back(std::move(request));
  request_count_.store(requests_.size());
  Signal();
}

void TcpEvents::ReportRejection(std::string line) {
  const MutexLock lock(mutex_);
  if (rejections_.size() == kMaxRejections) return;
  rejections_.push_back(std::move(line));
  has_rejections_.store(true, std::memory_order_release);
  Signal();
}

std::optional<std::string> TcpEvents::NextRejection() {
  // Acquire: as in NextLink.
  if (!has_rejections_.load(std::memory_order_acquire)) return std::nullopt;
  const MutexLock lock(mutex_);
  if (rejections_.empty()) return std::nullopt;
  std::string line = std::move(rejections_.front());
  rejections_.pop_front();
  has_rejections_.store(!rejections_.empty(), std::memory_order_release);
  return line;
}

std::shared_ptr<TcpLink> TcpEvents::NextLink() {
  // Acquire: pairs with Report. The next call finds a report that this load misses, and before the server
  // thread sleeps, it calls Arm.
  if (!has_links_.load(std::memory_order_acquire)) return nullptr;
  const MutexLock lock(mutex_);
  if (links_.empty()) return nullptr;
  std::shared_ptr<TcpLink> link = std::move(links_.front());
  links_.pop_front();
  link->is_reported = false;
  has_links_.store(!links_.empty(), std::memory_order_release);
  return link;
}

std::optional<TcpRequest> TcpEvents::NextRequest() {
  if (request_count_.load() == 0) return std::nullopt;
  const MutexLock lock(mutex_);
  if (requests_.empty()) return std::nullopt;
  TcpRequest request = std::move(requests_.front());
  requests_.pop_front();
  request_count_.store(requests_.size());
  return request;
}

void TcpEvents::Arm() {
  const MutexLock lock(mutex_);
  armed_ = true;
}

void TcpEvents::Disarm() {
  const MutexLock lock(mutex_);
  armed_ = false;
  if (!std::exchange(signalled_, false)) return;
  eventfd_t ignored;
  eventfd_read(wake_fd_.get(), &ignored);
}

}  // namespace remora::rdma
