#include "tools/kvgate/commands/pattern.h"

#include <algorithm>
#include <cstddef>

namespace remora::kvgate {
namespace {

bool IsBetween(char c, char one, char other) {
  const auto byte = static_cast<unsigned char>(c);
  const auto first = static_cast<unsigned char>(one);
  const auto last = static_cast<unsigned char>(other);
  return byte >= std::min(first, last) && byte <= std::max(first, last);
}

/// Returns whether the set that begins behind the bracket at *place has the byte. Moves *place to its end.
bool IsInSet(std::string_view pattern, std::size_t* place, char c) {
  std::size_t at = *place + 1;
  const bool excludes = at < pattern.size() && pattern[at] == '^';
  if (excludes) ++at;
  bool found = false;
  while (at < pattern.size() && pattern[at] != ']') {
    const std::size_t left = pattern.size() - at;
    if (pattern[at] == '\\' && left >= 2) {
      found |= pattern[at + 1] == c;
      at += 2;
    } else if (left >= 3 && pattern[at + 1] == '-') {
      found |= IsBetween(c, pattern[at], pattern[at + 2]);
      at += 3;
    } else {
      found |= pattern[at] == c;
      ++at;
    }
  }
  *place = std::min(at + 1, pattern.size());
  return found != excludes;
}

/// Compares one byte with the element at *place, and moves *place behind it.
bool FitsElement(std::string_view pattern, std::size_t* place, char c) {
  const char element = pattern[*place];
  if (element == '[') return IsInSet(pattern, place, c);
  if (element == '\\' && *place + 1 < pattern.size()) ++*place;
  const bool is_any = element == '?';
  return pattern[(*place)++] == c || is_any;
}

}  // namespace

bool FitsPattern(std::string_view pattern, std::string_view text) {
  std::size_t place = 0;
  std::size_t at = 0;
  // Where the last star stands, and where the text goes on behind what it took. A shorter match of earlier
  // stars never helps.
  std::size_t behind_star = std::string_view::npos;
  std::size_t taken = 0;
  while (at < text.size()) {
    if (place < pattern.size() && pattern[place] == '*') {
      behind_star = ++place;
      taken = at;
    } else if (place < pattern.size() && FitsElement(pattern, &place, text[at])) {
      ++at;
    } else if (behind_star != std::string_view::npos) {
      place = behind_star;
      at = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', place) == std::string_view::npos;
}

std::string_view PrefixOf(std::string_view pattern) {
  return pattern.substr(0, pattern.find_first_of("*?[\\"));
}

}  // namespace remora::kvgate
