#include "tests/simulation/seeded_device.h"

#include <random>

namespace remora {
namespace {

std::mt19937_64& Numbers() {
  static thread_local std::mt19937_64 numbers;
  return numbers;
}

}  // namespace

void SeedDevice(std::uint64_t seed) { Numbers().seed(seed); }

}  // namespace remora

// Takes the place of the standard library's own, for all of the program.
std::random_device::result_type std::random_device::_M_getval() {
  return static_cast<result_type>(remora::Numbers()());
}
