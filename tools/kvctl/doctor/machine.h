// The clock, and versions.
#pragma once

#include <string>

#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

struct MachineFacts {
  std::string clock_source;   // empty: the system does not tell
  std::string clock_sources;  // that it has
  std::string release;        // of the kernel
  std::string architecture;
  std::string rocksdb;
};

MachineFacts ReadMachine();

/// Adds clock_source, kernel, program and rocksdb. `version`: of this program.
void JudgeMachine(const MachineFacts& facts, const std::string& version, Checks* checks);

}  // namespace remora::doctor
