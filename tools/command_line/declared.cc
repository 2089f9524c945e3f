#include "tools/command_line/declared.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace remora::command_line {
namespace {

std::string TakeOne(DeclaredOption& option, const std::string& text) {
  if (text.empty() && !option.may_be_empty) return "the value is empty";
  if (!option.choices.empty() && std::ranges::find(option.choices, text) == option.choices.end()) {
    std::string allowed;
    for (const std::string& choice : option.choices) allowed += (allowed.empty() ? "" : ", ") + choice;
    return "'" + text + "' is none of " + allowed;
  }
  for (const auto& check : option.checks) {
    if (std::string wrong = check(text); !wrong.empty()) return wrong;
  }
  std::string wrong = option.take(text);
  if (wrong.empty()) ++option.count;
  return wrong;
}

}  // namespace

bool IsOn(const DeclaredOption& option) {
  return option.count > 0 && (option.takes_value || option.given.back() == kTrue);
}

std::string Take(DeclaredOption& option, const std::string& text, const std::string& where) {
  if (option.count > 0 && !option.repeats) return where + ": is given twice";
  if (option.count == 0) option.given.clear();
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = option.separator == '\0' ? std::string::npos : text.find(option.separator, begin);
    const std::string part = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (const std::string wrong = TakeOne(option, part); !wrong.empty()) return where + ": " + wrong;
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  option.given.push_back(text);
  return "";
}

}  // namespace remora::command_line
