// Histories that are linearizable because a store in one piece has made them; for tests of the checker.
#pragma once

#include <cstdint>
#include <random>

#include "tests/linearizability/operation.h"

namespace remora::linear {

struct RandomHistoryOptions {
  std::uint64_t seed = 1;
  std::size_t operations = 200;  // about
  std::uint32_t clients = 4;
  std::uint32_t keys = 2;
  std::uint32_t unknown_percent = 0;  // of writes
  bool late =
      false;  // there are others of unknown outcome, done behind what their clients did next, or never
  bool ttls = false;
};

History MakeHistory(const RandomHistoryOptions& options);

}  // namespace remora::linear
