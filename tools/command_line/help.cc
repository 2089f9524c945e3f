#include <cstddef>
#include <deque>
#include <sstream>
#include <string>
#include <vector>

#include "tools/command_line/declared.h"

namespace remora::command_line {
namespace {

constexpr std::size_t kIndent = 28;
constexpr std::size_t kWidth = 110;

std::string Joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string Joined(const std::vector<const DeclaredOption*>& options) {
  std::vector<std::string> names;
  for (const DeclaredOption* option : options) names.push_back(option->name());
  return Joined(names, ", ");
}

/// A line that begins with `head`, and as many more as `text` takes beside it, broken between words.
std::string Entry(const std::string& head, const std::string& text) {
  std::string entry = "  " + head;
  std::size_t column = entry.size();
  if (column + 2 > kIndent) column = kWidth;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool is_first = column < kIndent;
    if (!is_first && column + 1 + word.size() > kWidth) {
      entry += '\n';
      column = 0;
    }
    const std::size_t blanks = column < kIndent ? kIndent - column : 1;
    entry += std::string(blanks, ' ') + word;
    column += blanks + word.size();
  }
  return entry + "\n";
}

std::string Notes(const DeclaredOption& option) {
  if (!option.placeholder.empty()) return "";
  std::vector<std::string> notes;
  if (!option.choices.empty()) notes.push_back(Joined(option.choices, ", "));
  if (option.number.is_bounded) notes.push_back(option.number.Allowed());
  if (option.is_required) notes.emplace_back("required");
  if (!option.default_text.empty()) notes.push_back("default: " + option.default_text);
  if (!option.environment.empty()) notes.push_back("environment: " + option.environment);
  if (!option.needs.empty()) notes.push_back("needs " + Joined(option.needs));
  if (!option.excludes.empty()) notes.push_back("excludes " + Joined(option.excludes));
  return notes.empty() ? "" : " (" + Joined(notes, "; ") + ")";
}

std::string Head(const DeclaredOption& option) {
  const std::string value = option.placeholder.empty() ? option.type : option.placeholder;
  if (option.value_is_optional) return Joined(option.names, ",") + "[=" + value + "]";
  return Joined(option.names, ",") + (value.empty() ? "" : " ") + value;
}

void AddOptions(const DeclaredCommand& command, bool positional, const char* title, std::string* text) {
  bool is_first = true;
  for (const DeclaredOption& option : command.options) {
    if (option.is_positional != positional) continue;
    if (is_first) *text += title;
    is_first = false;
    *text += Entry(Head(option), option.help + Notes(option));
  }
}

std::string Usage(const DeclaredCommand& command) {
  std::string text = " [OPTIONS]";
  for (const DeclaredOption& option : command.options) {
    if (!option.is_positional) continue;
    const std::string name = option.name() + (option.repeats ? "..." : "");
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  return text;
}

}  // namespace

std::string HelpText(const DeclaredCommand& line, const std::deque<DeclaredCommand>& commands,
                     const DeclaredCommand* command, const std::string& footer) {
  const DeclaredCommand& shown = command == nullptr ? line : *command;
  std::string text = shown.help + "\nUsage: " + line.name;
  if (command != nullptr) text += " " + command->name;
  text += Usage(shown);
  const bool lists_commands = command == nullptr && !commands.empty();
  text += lists_commands ? " COMMAND\n" : "\n";
  AddOptions(shown, true, "\nArguments:\n", &text);
  AddOptions(shown, false, "\nOptions:\n", &text);
  if (command != nullptr) AddOptions(line, false, "\nOptions of every command:\n", &text);
  if (lists_commands) text += "\nCommands:\n";
  for (const DeclaredCommand& other : commands) {
    if (lists_commands) text += Entry(other.name, other.help);
  }
  return footer.empty() ? text : text + "\n" + footer + (footer.back() == '\n' ? "" : "\n");
}

}  // namespace remora::command_line
