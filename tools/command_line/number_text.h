// Numbers as people write them in command lines.
//
// All numbers are decimal, whatever they begin with: 010 is ten. A whole number has digits, and a minus sign
// if it is negative. A size is described by kSizeText. Another number may have a fraction and an exponent. No
// blanks, no plus sign, no other base.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace remora::command_line {

/// Holds every number of 64 bits exactly.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64);

/// How a size is written. The manual pages say the same.
inline constexpr char kSizeText[] =
    "a whole number of bytes, or with K, M, G or T behind it, of 1024 each (64M; also 64m, 64MB, 64MiB, 64B)";

/// Which numbers are allowed.
struct NumberRule {
  enum class Form { kWhole, kSize, kReal };
  Form form = Form::kWhole;
  Number least = 0;
  Number most = 0;
  bool without_bounds = false;  // `least` is too little, and `most` too much
  bool is_bounded = false;      // by the program, and not by its type alone

  /// Returns the number that the text says, or nothing: it says none, or one that is not allowed.
  std::optional<Number> Read(std::string_view text) const;
  /// Describes the rule: "a whole number from 1 to 10".
  std::string Allowed() const;
};

/// Writes the number so that NumberRule::Read reads it.
std::string NumberText(NumberRule::Form form, Number number);

}  // namespace remora::command_line
