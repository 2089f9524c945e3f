// The value of one option of a command line that may be wrong elsewhere: the form of errors, for example,
// which is needed for the error of the first word.
#pragma once

#include <optional>
#include <string>

namespace remora::command_line {

/// Returns the value that the words have for an option, else the one of the file of --config; of several, the
/// first. Looks at nothing else, and says nothing of faults. `name`: with its dashes, words joined by `_`.
/// REQUIRES: the option takes a value, and no other one may take text that begins with a dash.
std::optional<std::string> FindValue(int argc, const char* const* argv, const std::string& name);

}  // namespace remora::command_line
