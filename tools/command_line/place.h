// Whether two names on a command line are those of one file or directory.
#pragma once

#include <string>

namespace remora::command_line {

/// Returns whether two names lead to the same file. It follows links, also to a file that does not exist yet.
/// An empty name is equal to no other.
bool IsSamePlace(const std::string& one, const std::string& other);

}  // namespace remora::command_line
