// The keys and values that the killed process writes, and that the test expects afterwards.
#pragma once

#include <cstdint>
#include <string>

namespace remora {

inline constexpr std::uint64_t kCrashBatchKeys = 12;

inline std::string CrashKey(std::uint64_t number) { return "key" + std::to_string(number); }

inline std::string CrashValue(std::uint64_t number) {
  return std::string(number * 37 % 3000, static_cast<char>('a' + number % 26)) + std::to_string(number);
}

inline bool CrashKeyIsDeleted(std::uint64_t number) { return number % 10 == 0; }

}  // namespace remora
