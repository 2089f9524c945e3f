// Memory for --memory: of the machine, of the control group, and its pages.
#pragma once

#include <cstdint>
#include <string>

#include "server/memory/system_memory.h"
#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

struct PageFacts {
  std::string shared;        // shmem_enabled: huge pages of shared memory; empty: the system has none
  bool can_collapse = true;  // the kernel makes one huge page at a process's request: Linux 6.1
  std::uint64_t reserved_free =
      0;  // bytes that are set aside for programs that ask for hugetlbfs, and unused
};

/// `release`: uname's, as 6.1.0-18-amd64.
PageFacts ReadPages(const std::string& release);
/// Returns whether the kernel of that release knows MADV_COLLAPSE. A text that is no release counts as older.
bool CanCollapse(const std::string& release);

/// Adds memory, memory_available, huge_pages and reserved_pages.
void JudgeMemory(const SystemMemory& system, const PageFacts& pages, const Plan& plan, Checks* checks);

}  // namespace remora::doctor
