#include "rdma/tcp/server/nic_thread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Time for a rejected peer to receive the reason. Then the link is closed.
constexpr std::chrono::seconds kEndingPatience(1);
// Maximum of links that stay open for that.
constexpr std::size_t kMaxEndings = 64;
// The time between two looks at the thread's CPU time. A look is a system call.
constexpr std::chrono::milliseconds kCpuTimePause(100);

}  // namespace

absl::StatusOr<std::unique_ptr<NicThread>> NicThread::Start(const Clock& clock,
                                                            std::unique_ptr<TcpAcceptor> acceptor) {
  std::unique_ptr<NicThread> nic(new NicThread(clock, std::move(acceptor)));
  nic->wake_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  nic->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!nic->wake_fd_ || !nic->epoll_) return TcpStatus(errno, "eventfd or epoll_create1");
  const auto watch = [&](int fd, void* whose) {
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = whose}};
    return epoll_ctl(nic->epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  if (!watch(nic->wake_fd_.get(), nullptr) ||
      (nic->acceptor_ != nullptr && !watch(nic->acceptor_->fd(), nic->acceptor_.get()))) {
    return TcpStatus(errno, "epoll_ctl");
  }
  REMORA_ASSIGN_OR_RETURN(nic->thread_,
                          StartThread([raw = nic.get()] { return std::thread([raw] { raw->Run(); }); }));
  return nic;
}

NicThread::~NicThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  if (wake_fd_) eventfd_write(wake_fd_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

bool NicThread::Serve(const std::shared_ptr<TcpLink>& link, Connection* connection) {
  {
    const MutexLock lock(mutex_);
    links_.emplace(link.get(), link);
  }
  if (link->Start(epoll_.get(), served_, connection)) return true;
  const MutexLock lock(mutex_);
  links_.erase(link.get());
  return false;
}

void NicThread::Forget(const TcpLink* link) {
  {
    const MutexLock lock(mutex_);
    forgotten_.push_back(link);
  }
  eventfd_write(wake_fd_.get(), 1);
}

void NicThread::Run() {
  while (ForgetLinks()) {
    HandleEvents(TimeoutMs());
    CloseEndings();
    if (served_.reads > 0) ReportReads();
  }
}

bool NicThread::ForgetLinks() {
  const MutexLock lock(mutex_);
  for (const TcpLink* const link : forgotten_) links_.erase(link);
  forgotten_.clear();
  return !stop_;
}

int NicThread::TimeoutMs() const {
  std::optional<TimePoint> next = acceptor_ == nullptr ? std::nullopt : acceptor_->NextDeadline();
  if (!endings_.empty()) next = next ? std::min(*next, endings_.front().deadline) : endings_.front().deadline;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - clock_.Now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

void NicThread::HandleEvents(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
  bool has_pending_client = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == nullptr) {
      eventfd_t ignored;
      eventfd_read(wake_fd_.get(), &ignored);
      continue;
    }
    if (event.data.ptr == acceptor_.get()) {
      has_pending_client = true;
      continue;
    }
    auto* const link = static_cast<TcpLink*>(event.data.ptr);
    if (link->Handle(event.events, buffer_)) {
      endings_.push_back({link->shared_from_this(), clock_.Now() + kEndingPatience});
    }
  }
  // New clients come after the connected ones.
  if (acceptor_ == nullptr) return;
  const std::optional<TimePoint> next = acceptor_->NextDeadline();
  if (has_pending_client || (next && *next <= clock_.Now())) acceptor_->HandleEvents();
}

void NicThread::CloseEndings() {
  while (!endings_.empty() && (endings_.size() > kMaxEndings || endings_.front().deadline <= clock_.Now())) {
    endings_.front().link->CloseIfEnding();
    endings_.pop_front();
  }
}

void NicThread::ReportReads() {
  ServedReads told = std::exchange(served_, {});
  if (!count_reads_) return;
  const TimePoint now = clock_.Coarse();
  if (now - cpu_time_read_at_ >= kCpuTimePause) {
    cpu_time_read_at_ = now;
    timespec spent{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    const Duration before = std::exchange(
        cpu_time_, std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec));
    told.cpu_time = cpu_time_ - before;
  }
  count_reads_(told);
}

}  // namespace remora::rdma
