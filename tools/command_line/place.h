// Whether two names on a command line are those of one file or directory.
#pragma once

#include <string>

namespace remora::command_line {

/// Follows links as far as they lead, also where nothing is there yet. An empty name is that of no place.
bool IsSamePlace(const std::string& one, const std::string& other);

}  // namespace remora::command_line
