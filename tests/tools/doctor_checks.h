// Plans of servers, and a search of a check by its name, for the tests of kvctl doctor.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tools/kvctl/doctor/check.h"
#include "tools/kvctl/doctor/doctor.h"

namespace remora::doctor {

inline constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
inline constexpr Plan kLocal = {.memory = 256 * kMebi, .needs_rdma = false};
inline constexpr Plan kOverRdma = {.memory = 256 * kMebi, .needs_rdma = true};

/// The check of that name; each that is no `ok` must say what to do.
inline Check Find(const Checks& checks, const std::string& name) {
  for (const Check& check : checks) {
    EXPECT_EQ(check.remedy.empty(), check.verdict == Verdict::kOk) << check.name;
    EXPECT_FALSE(check.found.empty()) << check.name;
  }
  for (const Check& check : checks) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "there is no check " << name;
  return {};
}

}  // namespace remora::doctor
