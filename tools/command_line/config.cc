// The options of a command line that a file has, and the file that a command line would be.
#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/command_line/command_line.h"
#include "tools/command_line/config_file.h"
#include "tools/command_line/declared.h"
#include "tools/command_line/nearest.h"

namespace remora::command_line {
namespace {

bool Exclude(const DeclaredOption& one, const DeclaredOption& other) {
  return std::ranges::find(one.excludes, &other) != one.excludes.end() ||
         std::ranges::find(other.excludes, &one) != other.excludes.end();
}

/// The first line of a key.
struct KeyLine {
  std::size_t number = 0;
  const DeclaredOption* option = nullptr;  // null: there is no such key
};

/// Returns the fault of an option that was taken from the file beside one that it excludes; empty: none.
std::string FaultOfExclusion(const DeclaredOption& taken, const std::map<std::string, KeyLine>& lines) {
  if (!IsOn(taken)) return "";  // a flag that is false, or one that the command line displaces
  for (const auto& [key, line] : lines) {
    if (!IsOn(*line.option) || !Exclude(taken, *line.option)) continue;
    return taken.name().substr(2) + ": excludes " + key + " of line " + std::to_string(line.number) +
           "; leave one out";
  }
  return "";
}

}  // namespace

Option CommandLine::ReadsConfigFile(const std::string& help) {
  Add("--config", config_file_, help).TypeName("FILE").OnlyOnCommandLine();
  return AddFlag("--print_config", print_config_asked_,
                 "Check the form of the flags, print the file for --config that says the same, and exit")
      .OnlyOnCommandLine();
}

std::optional<int> CommandLine::TakeConfigFile(const std::vector<std::string>& words) {
  const std::string path = config_file_;
  const auto fail = [&](const std::string& wrong, int status) {
    Report(path + ": " + wrong);
    return status;
  };
  std::string error;
  int status = EX_OK;
  const std::optional<std::string> text = ReadConfigFile(path, &error, &status);
  if (!text) return fail(error, status);
  const std::optional<std::vector<ConfigLine>> lines =
      ParseConfig(*text, &error, LongNames(/*keys_only=*/true));
  if (!lines) return fail(error, EX_CONFIG);
  std::vector<const DeclaredOption*> given;  // on the command line
  ForEach([&given](const DeclaredOption& option) {
    if (IsOn(option)) given.push_back(&option);
  });
  ForgetCounts();
  std::map<std::string, KeyLine> first_lines;
  for (const ConfigLine& line : *lines) {
    const DeclaredOption* const option = Find("--" + line.key);
    const auto [first, is_first] = first_lines.emplace(line.key, KeyLine{line.number, option});
    std::string wrong;
    if (!is_first && option != nullptr && !option->repeats) {
      wrong = line.key + ": stands in line " + std::to_string(first->second.number) + ", too; leave one out";
    } else {
      wrong = TakeConfigLine(line, given);
      if (wrong.empty()) wrong = FaultOfExclusion(*option, first_lines);
    }
    if (!wrong.empty()) return fail("line " + std::to_string(line.number) + ": " + wrong, EX_CONFIG);
  }
  std::vector<std::pair<DeclaredOption*, std::size_t>> counts;
  ForEach([&counts](DeclaredOption& option) { counts.emplace_back(&option, option.count); });
  ForgetCounts();
  command_ = nullptr;
  const std::string wrong = TakeWords(words);  // again: nothing was wrong with them
  if (!wrong.empty()) return Fail(wrong);
  for (const auto& [option, count] : counts) {
    option->is_from_file = option->count == 0 && count > 0;
    if (option->count == 0) option->count = count;
  }
  return std::nullopt;
}

std::string CommandLine::TakeConfigLine(const ConfigLine& line,
                                        const std::vector<const DeclaredOption*>& given) {
  DeclaredOption* const option = Find("--" + line.key);
  if (option == nullptr)
    return "there is no key " + line.key + SayNearest(line.key, LongNames(/*keys_only=*/true));
  if (!option->is_in_config) return line.key + ": stands on the command line only";
  const bool is_displaced =
      std::ranges::any_of(given, [option](const DeclaredOption* other) { return Exclude(*option, *other); });
  if (is_displaced) return "";
  return Take(*option, line.value, line.key);
}

std::vector<Setting> CommandLine::Settings() const {
  std::vector<Setting> settings;
  for (const DeclaredOption& option : line_.options) {
    if (option.is_positional || !option.is_in_config) continue;
    const std::string key = option.name().substr(2);
    const bool is_flag = !option.takes_value;
    if (option.count == 0) {
      settings.push_back({key, is_flag ? kFalse : option.default_text, Source::kDefault, is_flag});
      continue;
    }
    const Source source = option.is_from_file ? Source::kFile : Source::kCommandLine;
    for (const std::string& value : option.given) settings.push_back({key, value, source, is_flag});
  }
  return settings;
}

std::string ConfigText(const std::vector<Setting>& settings) {
  std::string text;
  for (const auto& [key, value, source, is_flag] : settings) {
    if (source == Source::kDefault) text += "# ";
    text += (value.empty() && source == Source::kDefault ? key + " =" : FormatConfigLine(key, value)) + "\n";
  }
  return text;
}

const char* SourceName(Source source) {
  switch (source) {
    case Source::kDefault:
      return "default";
    case Source::kFile:
      return "file";
    case Source::kCommandLine:
      return "command line";
  }
  return "";
}

}  // namespace remora::command_line
