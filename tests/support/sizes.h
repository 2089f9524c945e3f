// Sizes of memory that many tests name.
#pragma once

#include <cstddef>

namespace remora {

constexpr std::size_t kMiB = std::size_t{1} << 20;  // bytes

}  // namespace remora
