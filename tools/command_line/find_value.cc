#include "tools/command_line/find_value.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/config_file.h"

namespace remora::command_line {
namespace {

std::optional<std::string> FindWord(int argc, const char* const* argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return std::nullopt;
    const std::size_t end = std::min(word.find('='), word.size());
    std::string flag(word.substr(0, end));
    if (!flag.starts_with("--")) continue;
    std::replace(flag.begin() + 2, flag.end(), '-', '_');
    if (flag != name) continue;
    if (end < word.size()) return std::string(word.substr(end + 1));
    if (i + 1 < argc && argv[i + 1][0] != '-') return argv[i + 1];
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> FindLine(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string error;
    const std::optional<std::vector<ConfigLine>> line = ParseConfig(text.substr(0, end), &error);
    if (line && !line->empty() && line->front().key == key) return line->front().value;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindValue(int argc, const char* const* argv, const std::string& name) {
  if (std::optional<std::string> given = FindWord(argc, argv, name)) return given;
  const std::optional<std::string> path = FindWord(argc, argv, "--config");
  if (!path) return std::nullopt;
  std::string error;
  int status = 0;
  const std::optional<std::string> text = ReadConfigFile(*path, &error, &status);
  return text ? FindLine(*text, name.substr(2)) : std::nullopt;
}

}  // namespace remora::command_line
