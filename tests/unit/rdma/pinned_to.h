// Threads of a test on CPUs that the test chooses.
#pragma once

#include <sched.h>

#include <vector>

#include "gtest/gtest.h"

namespace remora::rdma {

/// Lets the calling thread run on this CPU alone, until it is destroyed.
class PinnedTo {
 public:
  explicit PinnedTo(int cpu) {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~PinnedTo() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  cpu_set_t before_;
};

/// Returns the CPUs that this thread may use.
inline std::vector<int> UsableCpus() {
  cpu_set_t usable;
  EXPECT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace remora::rdma
