#include "rdma/tcp/server/nic_thread.h"

#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Time for a rejected peer to receive the reason. Then the link is closed.
constexpr std::chrono::seconds kEndingPatience(1);
// Maximum of links that stay open for that.
constexpr std::size_t kMaxEndings = 64;
// Looks for the next event before the thread sleeps. Each is a system call, so they take some 30 us in all:
// about as long as falling asleep and being woken.
constexpr int kPolls = 100;
// If serving a request takes longer, READs of other connections wait too long behind it.
constexpr std::chrono::microseconds kLongServe(200);

}  // namespace

absl::StatusOr<std::unique_ptr<NicThread>> NicThread::Start(const Clock& clock, TcpEvents& events,
                                                            std::unique_ptr<TcpAcceptor> acceptor) {
  std::unique_ptr<NicThread> nic(new NicThread(clock, events, std::move(acceptor)));
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
  if (link->Start(epoll_.get(), reads_.served(), connection)) return true;
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
    reads_.Report(clock_.Coarse());
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

int NicThread::WaitForEvents(std::span<epoll_event> events, int timeout_ms) {
  const auto wait = [&](int timeout) {
    return epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  };
  // A client that has its answer often asks again at once. It cannot if it shares this CPU.
  if (timeout_ms != 0 && polling_.IsDue()) {
    int count = 0;
    for (int i = 0; i < kPolls && count == 0; ++i) count = wait(0);
    if (polling_.Note(count > 0)) return count;
  }
  return wait(timeout_ms);
}

void NicThread::HandleEvents(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = WaitForEvents(events, timeout_ms);
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
    HandleLink(*static_cast<TcpLink*>(event.data.ptr), event.events, count == 1);
  }
  // New clients come after the connected ones.
  if (acceptor_ == nullptr) return;
  const std::optional<TimePoint> next = acceptor_->NextDeadline();
  if (has_pending_client || (next && *next <= clock_.Now())) acceptor_->HandleEvents();
}

void NicThread::HandleLink(TcpLink& link, std::uint32_t events, bool is_alone) {
  const TcpLink::Handled handled = link.Handle(events, buffer_);
  if (handled.is_new_end) endings_.push_back({link.shared_from_this(), clock_.Now() + kEndingPatience});
  if (!handled.has_completions) return;
  if (!is_alone || !serving_.serve || !serving_.backoff.IsDue()) {
    tcp_events_.NoteCpu(sched_getcpu());
    return tcp_events_.Report(link.shared_from_this());
  }
  if (tcp_events_.ReportWithoutWake(link.shared_from_this()) || ServeForSleeper()) return;
  tcp_events_.NoteCpu(sched_getcpu());
  tcp_events_.Wake();
}

bool NicThread::ServeForSleeper() {
  tcp_events_.NoteCpu(-1);
  const TimePoint begun = clock_.Now();
  if (!serving_.serve()) return false;
  serving_.backoff.Note(clock_.Now() - begun <= kLongServe);
  return true;
}

void NicThread::CloseEndings() {
  while (!endings_.empty() && (endings_.size() > kMaxEndings || endings_.front().deadline <= clock_.Now())) {
    endings_.front().link->CloseIfEnding();
    endings_.pop_front();
  }
}

}  // namespace remora::rdma
