#include "tools/command_line/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command_line/nearest.h"

namespace remora::command_line {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kMarkOfUtf8 = "\xef\xbb\xbf";

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool IsKey(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// Returns whether nothing but a comment stands there.
bool IsComment(std::string_view text) {
  text = Trimmed(text);
  return text.empty() || text[0] == '#';
}

/// Reads a value of `key` whose first quote has been read. Returns what is wrong; empty: nothing.
std::string ReadQuoted(std::string_view text, const std::string& key, std::string* value) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      return IsComment(text.substr(i + 1)) ? "" : "behind the closing quote may stand a comment only";
    }
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || (text[i] != '"' && text[i] != '\\')) {
        return "between quotes, a backslash stands before a quote or a backslash only: write \\\\ for one";
      }
    }
    *value += text[i];
  }
  return key + ": the closing quote is missing; end the value with one";
}

std::string ReadValue(std::string_view text, const std::string& key, std::string* value) {
  if (text.starts_with('"')) return ReadQuoted(text.substr(1), key, value);
  if (text.starts_with('\'')) return "a value stands between double quotes, or between none";
  std::size_t end = text.find('#');
  while (end != std::string_view::npos && end > 0 && kBlanks.find(text[end - 1]) == std::string_view::npos) {
    end = text.find('#', end + 1);
  }
  *value = Trimmed(text.substr(0, end));
  return "";
}

/// Returns what is wrong with a line that is no comment; empty: nothing.
std::string ReadLine(std::string_view text, const std::vector<std::string>& keys, ConfigLine* line) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return "write key = value, or # before a comment";
  const std::string_view key = Trimmed(text.substr(0, equals));
  if (!IsKey(key)) {
    return "'" + std::string(key) +
           "' is no key, which has lower-case letters, digits and underscores: write key = value" +
           SayNearest(key, keys);
  }
  line->key = key;
  return ReadValue(Trimmed(text.substr(equals + 1)), line->key, &line->value);
}

/// Returns whether the text begins with a byte-order mark of UTF-16.
bool IsUtf16(std::string_view text) { return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"); }

bool IsControl(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

}  // namespace

std::optional<std::vector<ConfigLine>> ParseConfig(std::string_view text, std::string* error,
                                                   const std::vector<std::string>& keys) {
  std::vector<ConfigLine> lines;
  if (IsUtf16(text)) {
    *error = "line 1: the file is in UTF-16; save it in UTF-8";
    return std::nullopt;
  }
  if (text.starts_with(kMarkOfUtf8)) text.remove_prefix(kMarkOfUtf8.size());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.ends_with('\r')) content.remove_suffix(1);
    std::string wrong;
    ConfigLine line{.number = number, .key = {}, .value = {}};
    if (std::ranges::any_of(content, [](char c) { return IsControl(c) && c != '\r'; })) {
      wrong = "there is a control character in it: a file of options is a text";
    } else if (content.find('\r') != std::string_view::npos) {
      wrong = "there is a CR within it: end each line with LF, or with CR and LF";
    } else if (!IsComment(content)) {
      wrong = ReadLine(content, keys, &line);
    }
    if (!wrong.empty()) {
      *error = "line " + std::to_string(number) + ": " + wrong;
      return std::nullopt;
    }
    if (!line.key.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<std::string> ReadConfigFile(const std::string& path, std::string* error, int* status) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // waits for no writer of a pipe
  if (fd < 0) {
    *status = errno == EACCES || errno == EPERM ? EX_NOPERM : EX_NOINPUT;
    *error = errno == ENOENT ? "there is no such file; correct --config" : std::strerror(errno);
    return std::nullopt;
  }
  struct stat file = {};
  std::string text;
  error->clear();
  if (::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
    *status = EX_NOINPUT;
    *error =
        S_ISDIR(file.st_mode) ? "it is a directory; give a file" : "it is no regular file; give one that is";
  }
  std::array<char, 4096> piece;
  while (error->empty()) {
    const ssize_t size = ::read(fd, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      *status = EX_IOERR;
      *error = std::strerror(errno);
    }
    if (size <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(size));
    if (text.size() > kMaxConfigBytes) {
      *status = EX_CONFIG;
      *error = "it has more than 1 MiB; is it a file of options?";
    }
  }
  ::close(fd);
  if (!error->empty()) return std::nullopt;
  return text;
}

std::string FormatConfigLine(std::string_view key, std::string_view value) {
  std::string line = std::string(key) + " = ";
  const bool is_plain = !value.empty() && Trimmed(value) == value && !value.starts_with('\'') &&
                        value.find_first_of("#\"\\") == std::string_view::npos;
  if (is_plain) return line.append(value);
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  return line + '"';
}

}  // namespace remora::command_line
