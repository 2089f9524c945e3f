// A file of options: lines `key = value`.
//
//   # A comment.
//   memory = 8G                        # also behind a value, after a blank
//   data_dir = "/srv/a folder # one"   # a value with blanks at its ends, with # or with quotes
//
// A key has lower-case letters, digits and underscores. Blanks (space, tab) around keys and values do not
// count, nor does a CR at the end of a line. The file may begin with a byte-order mark of UTF-8. Between
// double quotes, \" is a quote and \\ a backslash, and nothing else stands behind a backslash. Other values
// begin with no quote, of either kind, and are what they are. A file has kMaxConfigBytes at most, and no
// control characters but the tab.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace remora::command_line {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

struct ConfigLine {
  std::size_t number = 0;  // in its file, from 1
  std::string key;
  std::string value;
};

/// Returns the lines that have a key. Otherwise *error names the first bad line. `keys`: a key with another
/// character than those of keys is compared with them, and the error names the nearest.
std::optional<std::vector<ConfigLine>> ParseConfig(std::string_view text, std::string* error,
                                                   const std::vector<std::string>& keys = {});

/// Reads a regular file of at most kMaxConfigBytes. Otherwise *error says what is wrong, and *status is
/// EX_NOINPUT (there is none, or something else), EX_NOPERM, EX_CONFIG (too large) or EX_IOERR.
std::optional<std::string> ReadConfigFile(const std::string& path, std::string* error, int* status);

/// Returns the line, without its end, that ParseConfig reads as this key and value. REQUIRES: the value has
/// no control characters but the tab.
std::string FormatConfigLine(std::string_view key, std::string_view value);

}  // namespace remora::command_line
