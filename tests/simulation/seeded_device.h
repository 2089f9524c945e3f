// A program that is linked with this has a std::random_device that follows from a seed. It is for
// simulations, in which the names of clients and the pauses between their attempts are to be the same each
// time.
#pragma once

#include <cstdint>

namespace remora {

void SeedDevice(std::uint64_t seed);

}  // namespace remora
