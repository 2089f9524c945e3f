// Patterns of keys, as KEYS and SCAN take them.
#pragma once

#include <string_view>

namespace remora::kvgate {

/// Returns whether all of `text` fits the pattern: * any bytes, ? any byte, [a-z] and [^a-z] a byte of a set
/// or none of it, \ the byte behind it. A set that is not closed ends with the pattern. Time: the product of
/// both sizes, at most.
bool FitsPattern(std::string_view pattern, std::string_view text);

/// Returns the bytes with which each text begins that fits the pattern.
std::string_view PrefixOf(std::string_view pattern);

}  // namespace remora::kvgate
