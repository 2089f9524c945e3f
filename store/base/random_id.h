// Random numbers that name something, for example an incarnation of a store or a client.
#pragma once

#include <cstdint>
#include <random>

namespace remora {

/// Returns a random number from the system that is not 0. Thread safety: any thread.
inline std::uint64_t RandomId() {
  std::random_device device;
  std::uint64_t id = 0;
  while (id == 0) id = std::uint64_t{device()} << 32 | device();
  return id;
}

}  // namespace remora
