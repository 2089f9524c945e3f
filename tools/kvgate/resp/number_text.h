// Numbers as Redis reads and writes them in values and arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remora::kvgate {

/// Reads a whole number of 64 bits in its only form: no blanks, no plus sign, no zeros before it, no "-0".
std::optional<std::int64_t> ParseInteger(std::string_view text);

/// Reads a number with or without a fraction and an exponent, also infinity. Nothing: the text has blanks at
/// its start, is empty, has 256 bytes or more, is no number, or its number overflows or underflows.
std::optional<long double> ParseFloat(std::string_view text);

/// Writes up to 17 digits behind the point, without zeros at the end, and without an exponent. REQUIRES: the
/// number is finite.
std::string FormatFloat(long double number);

}  // namespace remora::kvgate
