// Ranges of keys: the range of a scan, and the rest of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/format/memory/hash_order.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "store/format/types/scan_options.h"

namespace remora {

/// A bound may be one byte longer than a key: the least string behind a key.
inline constexpr std::size_t kMaxBoundSize = kMaxKeySize + 1;

/// Keys [begin, end). An empty end is behind all keys. Not reverse and by_hash.
struct ScanRange {
  std::string begin{};
  std::string end{};
  bool reverse = false;
  bool by_hash = false;  // in the order of hash_order.h
  std::string after{};   // by_hash: those behind this key; empty: all

  bool has_end() const { return !end.empty(); }
  /// No key can be in it.
  bool is_empty() const { return has_end() && begin >= end; }
  bool Contains(std::string_view key) const { return key >= begin && (!has_end() || key < end); }

  /// Leaves out `key`, and all that a scan shows before it.
  void GoBehind(std::string_view key) {
    if (by_hash) {
      after = key;
    } else if (reverse) {
      end = key;
    } else {
      begin.assign(key);
      begin.push_back('\0');
    }
  }
  friend bool operator==(const ScanRange&, const ScanRange&) = default;
};

/// The keys that begin with `prefix`.
inline ScanRange RangeOfPrefix(std::string_view prefix) {
  ScanRange range{.begin = std::string(prefix), .end = std::string(prefix)};
  // The next prefix of this length, or a shorter one; behind 0xff, 0xff... there is none.
  while (!range.end.empty() && range.end.back() == '\xff') range.end.pop_back();
  if (!range.end.empty()) range.end.back() = static_cast<char>(range.end.back() + 1);
  return range;
}

// --- Tokens ---------------------------------------------------------------------------------------------
//
//   letters and digits, "-" and "_": six bits each (base64url, RFC 4648) of
//     version 1, flags 1 (1: reverse, 2: by hash), size of begin 2, size of end 2, begin, end,
//     by hash: the key that it goes on behind,
//     checksum 8 (XXH3 of all before; against mistakes that cut or change it. A forger could as well
//                 ask for the range)

namespace scan_token {

inline constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
inline constexpr char kVersion = 1;
inline constexpr char kVersionOfChanges = 2;  // store/format/types/change.h
inline constexpr int kReverse = 1;
inline constexpr int kByHash = 2;
inline constexpr std::size_t kHeaderSize = 6;
inline constexpr std::size_t kChecksumSize = 8;

inline std::string Encode64(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text.push_back(kDigits[bits >> (count - 6) & 63]);
  }
  if (count > 0) text.push_back(kDigits[bits << (6 - count) & 63]);
  return text;
}

inline std::optional<std::string> Decode64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const std::size_t digit = std::string_view(kDigits).find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  // Each string has one spelling.
  if (count >= 6 || (bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

inline void Append16(std::string* bytes, std::size_t number) {
  bytes->push_back(static_cast<char>(number & 0xff));
  bytes->push_back(static_cast<char>(number >> 8 & 0xff));
}

inline std::size_t Take16(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) | std::size_t{static_cast<unsigned char>(bytes[at + 1])} << 8;
}

}  // namespace scan_token

/// Returns the resume token for the rest of a scan, for ScanOptions::resume_token.
inline std::string MakeScanToken(const ScanRange& rest) {
  std::string bytes = {scan_token::kVersion, static_cast<char>((rest.reverse ? scan_token::kReverse : 0) |
                                                               (rest.by_hash ? scan_token::kByHash : 0))};
  scan_token::Append16(&bytes, rest.begin.size());
  scan_token::Append16(&bytes, rest.end.size());
  bytes += rest.begin;
  bytes += rest.end;
  bytes += rest.after;
  const std::uint64_t checksum = HashValue(bytes.data(), bytes.size());
  for (std::size_t i = 0; i < scan_token::kChecksumSize; ++i) {
    bytes.push_back(static_cast<char>(checksum >> 8 * i & 0xff));
  }
  return scan_token::Encode64(bytes);
}

/// Reads a resume token. Nothing: MakeScanToken never returned it.
inline std::optional<ScanRange> ReadScanToken(std::string_view token) {
  const std::optional<std::string> bytes = scan_token::Decode64(token);
  if (!bytes || bytes->size() < scan_token::kHeaderSize + scan_token::kChecksumSize) return std::nullopt;
  const std::size_t begin_size = scan_token::Take16(*bytes, 2);
  const std::size_t end_size = scan_token::Take16(*bytes, 4);
  const int flags = static_cast<unsigned char>((*bytes)[1]);
  const std::size_t bounds_end = scan_token::kHeaderSize + begin_size + end_size;
  const std::size_t after_end = bytes->size() - scan_token::kChecksumSize;
  if ((*bytes)[0] != scan_token::kVersion || flags > scan_token::kByHash || begin_size > kMaxBoundSize ||
      end_size > kMaxBoundSize || after_end < bounds_end ||
      after_end - bounds_end > (flags == scan_token::kByHash ? kMaxKeySize : 0)) {
    return std::nullopt;
  }
  ScanRange range{.begin = bytes->substr(scan_token::kHeaderSize, begin_size),
                  .end = bytes->substr(scan_token::kHeaderSize + begin_size, end_size),
                  .reverse = flags == scan_token::kReverse,
                  .by_hash = flags == scan_token::kByHash,
                  .after = bytes->substr(bounds_end, after_end - bounds_end)};
  if (MakeScanToken(range) != token) return std::nullopt;
  return range;
}

// --- From options to a range ----------------------------------------------------------------------------

inline constexpr char kNoMoment[] = "what is shown in any order is not of one moment: do not ask for that";

/// Checks options. Null: *range is what they say. Else returns why they make no sense.
inline const char* ResolveScan(const ScanOptions& options, ScanRange* range) {
  if (!options.resume_token.empty()) {
    if (!options.prefix.empty() || !options.begin.empty() || !options.end.empty() || options.reverse ||
        options.any_order) {
      return "a resume token brings its range and order along: give no prefix, begin, end, reverse or "
             "any_order beside it";
    }
    const std::optional<ScanRange> rest = ReadScanToken(options.resume_token);
    if (!rest) return "this is no resume token of a scan, or it was changed or cut";
    if (rest->by_hash && options.one_moment) return kNoMoment;
    *range = *rest;
    return nullptr;
  }
  if (options.any_order && options.reverse) return "any order has no reverse: give one of the two";
  if (options.any_order && options.one_moment) return kNoMoment;
  if (std::max({options.prefix.size(), options.begin.size(), options.end.size()}) > kMaxBoundSize) {
    return "a prefix or bound of a scan is longer than any key";
  }
  *range = RangeOfPrefix(options.prefix);
  if (options.begin > range->begin) range->begin = options.begin;
  if (!options.end.empty() && (!range->has_end() || options.end < range->end)) range->end = options.end;
  range->reverse = options.reverse;
  range->by_hash = options.any_order;
  return nullptr;
}
inline const char* ResolveRange(const RangeOptions& options, ScanRange* range) {
  return ResolveScan({.prefix = options.prefix, .begin = options.begin, .end = options.end}, range);
}

/// Resolves the range of a deletion. It rejects a range without a bound, which may be a mistake.
inline const char* ResolveDelete(const RangeOptions& options, ScanRange* range) {
  if (options.prefix.empty() && options.begin.empty() && options.end.empty()) {
    return "a range to delete needs a prefix, a begin or an end; a bound that is left out, empty or None is "
           "open; to delete all keys, call DeleteAll (delete_all)";
  }
  return ResolveRange(options, range);
}

}  // namespace remora
