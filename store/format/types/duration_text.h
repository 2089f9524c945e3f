// How people write and read a ttl: 500ms, 30s, 15m, 12h, 7d, never.
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "store/format/types/expiry.h"

namespace remora {

/// Nothing: `text` is none of these, or longer than a record may live; *why says so, for a person.
inline std::optional<std::chrono::milliseconds> ParseTtl(std::string_view text, std::string* why) {
  if (text == "never") return kNeverExpires;
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits = {
      {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  why->clear();  // appended to: of an assignment gcc 12 warns, in a release build (stringop-overflow)
  why->append("'").append(text).append("' ");
  for (const auto& [name, milliseconds] : kUnits) {
    if (parsed.ptr == text.data() || unit != name) continue;
    if (parsed.ec == std::errc() && number == 0) {
      *why += "is no time at all; the least is 1ms";
      return std::nullopt;
    }
    if (parsed.ec != std::errc() || number > static_cast<std::uint64_t>(kMaxTtl.count() / milliseconds)) {
      *why += "is longer than a hundred years; write never";
      return std::nullopt;
    }
    return std::chrono::milliseconds(static_cast<std::int64_t>(number) * milliseconds);
  }
  *why += "is no duration; write a whole number and its unit, as 500ms, 30s, 15m, 12h, 7d, or never";
  return std::nullopt;
}

/// Returns the text from which ParseTtl reads `ttl`.
inline std::string TtlText(std::chrono::milliseconds ttl) {
  return ttl == kNeverExpires ? "never" : std::to_string(ttl.count()) + "ms";
}

}  // namespace remora
