// The secret of a token as text: hexadecimal digits, or else base64, of at least kMinSecretSize bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace remora {

/// Least size of a secret. Guessing never finds random bytes of this size.
inline constexpr std::size_t kMinSecretSize = 16;
inline constexpr std::size_t kMaxSecretSize = 64;

/// The value of a digit of base 16 or of base 64; negative: it is none.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
constexpr int Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;  // or as in URLs
  if (c == '/' || c == '_') return 63;
  return -1;
}

/// The bytes. Nothing: it is no secret, and *why says so to a person, without showing it.
inline std::optional<std::string> DecodeSecret(std::string_view text, std::string* why) {
  std::string_view digits = text;
  bool is_hex = digits.size() % 2 == 0;
  for (const char c : digits) is_hex = is_hex && HexDigit(c) >= 0;
  if (!is_hex) {
    while (digits.ends_with('=') && text.size() - digits.size() < 2) digits.remove_suffix(1);
  }
  const int bits_each = is_hex ? 4 : 6;
  std::string bytes;
  std::uint32_t buffer = 0;
  int bits = 0;
  for (const char c : digits) {
    const int digit = is_hex ? HexDigit(c) : Base64Digit(c);
    if (digit < 0) {
      *why = "a secret is written in hexadecimal digits or in base64";
      return std::nullopt;
    }
    buffer = buffer << bits_each | static_cast<std::uint32_t>(digit);
    bits += bits_each;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(buffer >> bits & 0xff));
  }
  // A secret that was cut off, or pasted twice, leaves bits over.
  if (bits >= 6 || (buffer & ((1u << bits) - 1)) != 0) {
    *why = "the secret's last digit is missing or wrong";
    return std::nullopt;
  }
  // A copy: of a moved string, gcc 12 warns where it is inlined (array-bounds).
  if (bytes.size() >= kMinSecretSize && bytes.size() <= kMaxSecretSize)
    return std::optional(std::as_const(bytes));
  *why = "a secret has 16 to 64 bytes, and this one " + std::to_string(bytes.size());
  return std::nullopt;
}
static_assert(kMinSecretSize == 16 && kMaxSecretSize == 64, "the text above says so");

}  // namespace remora
