// Values that say whose they are and which write made them, so that a reader can tell any wrong byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace remora {

/// "KEY NUMBER " and then letters that follow from both, `size` in all (at least what the head takes).
inline std::string MakeValue(std::string_view key, std::uint64_t number, std::size_t size) {
  std::string value = std::string(key) + " " + std::to_string(number) + " ";
  std::size_t at = value.size();
  value.resize(std::max(at, size));
  std::uint64_t state = number * 0x9e3779b97f4a7c15u + key.size();
  // Eight at a time: tests make gigabytes of these, in builds that optimise nothing.
  while (at < value.size()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t letters = ((state ^ state >> 32) & 0x0f0f0f0f0f0f0f0fu) + 0x6161616161616161u;
    const std::size_t length = std::min(sizeof(letters), value.size() - at);
    std::memcpy(value.data() + at, &letters, length);
    at += length;
  }
  return value;
}

/// The number with which MakeValue(key, number, value.size()) made `value`; nothing when it did not.
inline std::optional<std::uint64_t> NumberOf(std::string_view key, std::string_view value) {
  if (value.substr(0, key.size()) != key || value.size() < key.size() + 3) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = key.size() + 1; i < value.size() && value[i] >= '0' && value[i] <= '9'; ++i) {
    number = number * 10 + static_cast<std::uint64_t>(value[i] - '0');
  }
  if (MakeValue(key, number, value.size()) != value) return std::nullopt;
  return number;
}

}  // namespace remora
