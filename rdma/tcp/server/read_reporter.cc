#include "rdma/tcp/server/read_reporter.h"

#include <chrono>
#include <ctime>
#include <utility>

namespace remora::rdma {
namespace {

// The time between two looks at the thread's CPU time. A look is a system call.
constexpr std::chrono::milliseconds kCpuTimePause(100);

}  // namespace

void ReadReporter::Report(TimePoint now) {
  if (served_.reads == 0) return;
  ServedReads told = std::exchange(served_, {});
  if (!count_) return;
  if (now - cpu_time_read_at_ >= kCpuTimePause) {
    cpu_time_read_at_ = now;
    timespec spent{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    const Duration before = std::exchange(
        cpu_time_, std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec));
    told.cpu_time = cpu_time_ - before;
  }
  count_(told);
}

}  // namespace remora::rdma
