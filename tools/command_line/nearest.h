// The name that was meant by one that is misspelt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remora::command_line {

/// Returns the name that takes the fewest changes of a character (edit distance; V. I. Levenshtein, 1966) to
/// become this one, where upper and lower case are the same; of several, the first. Empty: they are none.
std::string Nearest(std::string_view name, const std::vector<std::string>& names);

/// Returns "; the nearest is NAME", or nothing where none is near enough to be meant. `before` stands before
/// the NAME, and is no part of what is compared.
std::string SayNearest(std::string_view name, const std::vector<std::string>& names,
                       const std::string& before = "");

}  // namespace remora::command_line
