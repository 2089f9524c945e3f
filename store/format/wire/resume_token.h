// From options to a position in a change feed, and back.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "store/format/memory/record.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_range.h"

namespace remora {

/// RocksDB's sequences are no greater. So the one behind any is a number, too.
inline constexpr std::uint64_t kMaxSequence = (std::uint64_t{1} << 56) - 1;

/// Letters, digits, "-" and "_", 34 of them.
inline std::string MakeChangeToken(const ChangePosition& position) {
  std::array<std::uint64_t, 3> words = {position.incarnation, position.sequence, 0};
  words[2] = HashValue(words.data(), sizeof(position));
  std::string bytes = {scan_token::kVersionOfChanges};
  bytes.append(reinterpret_cast<const char*>(words.data()), sizeof(words));
  return scan_token::Encode64(bytes);
}

/// Reads a resume token. Nothing: MakeChangeToken never returned it.
inline std::optional<ChangePosition> ReadChangeToken(std::string_view token) {
  const std::optional<std::string> bytes = scan_token::Decode64(token);
  ChangePosition position;
  if (!bytes || bytes->size() < 1 + sizeof(position)) return std::nullopt;
  std::memcpy(&position, bytes->data() + 1, sizeof(position));
  if (position.incarnation == 0 || MakeChangeToken(position) != token) return std::nullopt;
  return position;
}

/// Checks options. Null: *range and *position are what they say. Else returns why they make no sense.
inline const char* ResolveWatch(const WatchOptions& options, ScanRange* range, ChangePosition* position) {
  if (!options.resume_token.empty()) {
    const std::optional<ChangePosition> read = ReadChangeToken(options.resume_token);
    if (!read) return "this is no resume token of a change feed, or it was changed or cut";
    *position = *read;
  }
  return ResolveRange({.prefix = options.prefix}, range);
}

}  // namespace remora
