#include "tools/command_line/command_line.h"

#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/command_line/nearest.h"
#include "tools/command_line/say.h"

namespace remora::command_line {
namespace {

/// A negative number is none, and a dash alone says standard input to many programs.
bool IsFlag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

template <typename T>
void LetBe(DeclaredOption* option) {
  if constexpr (std::is_same_v<T, std::string>) {
    option->type = "TEXT";
  } else {
    using Limits = std::numeric_limits<T>;
    option->type = "NUMBER";
    option->number.form = std::is_integral_v<T> ? NumberRule::Form::kWhole : NumberRule::Form::kReal;
    option->number.least = Limits::lowest();
    option->number.most = Limits::max();
  }
}

/// Lets the option hand on values of this type.
template <typename T>
void HandOn(DeclaredOption* option, std::function<void(const T&)> take) {
  LetBe<T>(option);
  if constexpr (std::is_same_v<T, std::string>) {
    option->take = [take](const std::string& text) -> std::string {
      take(text);
      return "";
    };
  } else {
    option->take = [option, take](const std::string& text) -> std::string {
      const std::optional<Number> number = option->number.Read(text);
      if (!number) return "'" + text + "' is not " + option->number.Allowed();
      take(static_cast<T>(*number));
      return "";
    };
  }
}

template <typename T>
std::string TextOf(const DeclaredOption& option, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    return NumberText(option.number.form, value);
  }
}

template <typename T>
void HandTo(DeclaredOption* option, T& variable) {
  HandOn<T>(option, [&variable](const T& value) { variable = value; });
  option->show = [option, &variable] { return TextOf(*option, variable); };
}

template <typename T>
void HandTo(DeclaredOption* option, std::optional<T>& variable) {
  HandOn<T>(option, [&variable](const T& value) { variable = value; });
}

template <typename T>
void HandTo(DeclaredOption* option, std::vector<T>& variable) {
  option->repeats = true;
  HandOn<T>(option, [option, &variable](const T& value) {
    if (option->count == 0) variable.clear();  // of what is said without it
    variable.push_back(value);
  });
  option->show = [option, &variable] {
    std::string text;
    for (const T& value : variable) text += (text.empty() ? "" : ",") + TextOf(*option, value);
    return text;
  };
}

}  // namespace

Option Option::Required() {
  option_->is_required = true;
  return *this;
}

Option Option::TypeName(const std::string& name) {
  option_->type = name;
  return *this;
}

Option Option::Placeholder(const std::string& text) {
  option_->placeholder = text;
  return *this;
}

Option Option::ShowDefault() {
  option_->default_text = option_->show();
  return *this;
}

Option Option::DefaultText(const std::string& text) {
  option_->default_text = text;
  return *this;
}

Option Option::Environment(const std::string& variable) {
  option_->environment = variable;
  return *this;
}

Option Option::Separator(char separator) {
  option_->separator = separator;
  return *this;
}

Option Option::MayBeEmpty() {
  option_->may_be_empty = true;
  return *this;
}

Option Option::ValueIsOptional() {
  option_->value_is_optional = option_->may_be_empty = true;
  return *this;
}

Option Option::OnlyOnCommandLine() {
  option_->is_in_config = false;
  return *this;
}

Option Option::Needs(Option other) {
  option_->needs.push_back(other.option_);
  return *this;
}

Option Option::Excludes(Option other) {
  option_->excludes.push_back(other.option_);
  return *this;
}

template <typename T>
Option Option::Range(T least, T most) {
  option_->number.least = static_cast<Number>(least);
  option_->number.most = static_cast<Number>(most);
  option_->number.is_bounded = true;
  return *this;
}

template Option Option::Range(int, int);
template Option Option::Range(unsigned, unsigned);
template Option Option::Range(std::uint64_t, std::uint64_t);
template Option Option::Range(double, double);

Option Option::Positive() {
  const bool is_whole = option_->number.form != NumberRule::Form::kReal;
  option_->number.least = is_whole ? 1 : 0;
  option_->number.without_bounds = !is_whole;
  option_->number.is_bounded = true;
  return *this;
}

Option Option::NotNegative() {
  option_->number.least = 0;
  option_->number.is_bounded = true;
  return *this;
}

Option Option::IsOneOf(const std::vector<std::string>& texts) {
  option_->choices = texts;
  return *this;
}

Option Option::Check(std::function<std::string(const std::string&)> what_is_wrong) {
  option_->checks.push_back(std::move(what_is_wrong));
  return *this;
}

Option Option::Alias(const std::string& name) {
  option_->aliases.push_back(name);
  return *this;
}

Option Option::Size() {
  option_->number.form = NumberRule::Form::kSize;
  option_->type = "SIZE";
  return *this;
}

std::size_t Option::count() const { return option_->count; }

DeclaredOption* Command::Declare(const std::string& name, const std::string& help) {
  DeclaredOption& option = declared_->options.emplace_back();
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find(',', begin), name.size());
    option.names.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  option.help = help;
  option.is_positional = !name.starts_with('-');
  return &option;
}

template <typename T>
Option Command::Add(const std::string& name, T& variable, const std::string& help) {
  DeclaredOption* const option = Declare(name, help);
  HandTo(option, variable);
  if (option->is_positional) option->type.clear();
  return Option(option);
}

template Option Command::Add(const std::string&, int&, const std::string&);
template Option Command::Add(const std::string&, unsigned&, const std::string&);
template Option Command::Add(const std::string&, std::uint64_t&, const std::string&);
template Option Command::Add(const std::string&, double&, const std::string&);
template Option Command::Add(const std::string&, std::string&, const std::string&);
template Option Command::Add(const std::string&, std::optional<unsigned>&, const std::string&);
template Option Command::Add(const std::string&, std::optional<std::string>&, const std::string&);
template Option Command::Add(const std::string&, std::vector<std::uint64_t>&, const std::string&);
template Option Command::Add(const std::string&, std::vector<std::string>&, const std::string&);

Option Command::AddFlag(const std::string& name, bool& variable, const std::string& help) {
  DeclaredOption* const option = Declare(name, help);
  option->takes_value = false;
  option->take = [&variable](const std::string& text) {
    if (text != kTrue && text != kFalse) return "'" + text + "' is neither true nor false";
    variable = text == kTrue;
    return std::string();
  };
  return Option(option);
}

template <typename T>
Option Command::AddFunction(const std::string& name, std::function<void(const T&)> take,
                            const std::string& help) {
  DeclaredOption* const option = Declare(name, help);
  HandOn<T>(option, std::move(take));
  return Option(option);
}

template Option Command::AddFunction(const std::string&, std::function<void(const int&)>, const std::string&);
template Option Command::AddFunction(const std::string&, std::function<void(const std::string&)>,
                                     const std::string&);

Option Command::AddChoice(const std::string& name, const std::vector<std::pair<std::string, int>>& values,
                          std::function<void(int)> take, const std::string& help) {
  DeclaredOption* const option = Declare(name, help);
  option->type = "NAME";
  for (const auto& [choice, value] : values) option->choices.push_back(choice);
  option->take = [values, take](const std::string& text) {
    for (const auto& [choice, value] : values) {
      if (choice == text) take(value);
    }
    return std::string();
  };
  return Option(option);
}

void Command::RequireOneOf(std::initializer_list<Option> options) {
  for (const Option option : options) declared_->needs_one_of.push_back(option.option_);
}

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : Command(&line_),
      line_{.name = program, .former_name = "", .help = description, .options = {}, .needs_one_of = {}} {
  AddFlag("-h,--help", help_asked_, "Print this and exit").OnlyOnCommandLine();
}

void CommandLine::Version(const std::string& text) {
  version_ = text;
  AddFlag("--version", version_asked_, "Print the version and exit").OnlyOnCommandLine();
}

Command CommandLine::AddCommand(const std::string& name, const std::string& help) {
  return Command(&commands_.emplace_back(
      DeclaredCommand{.name = name, .former_name = "", .help = help, .options = {}, .needs_one_of = {}}));
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (line_.name.empty() && argc > 0) {
    const std::string_view path = argv[0];
    line_.name = path.substr(path.rfind('/') + 1);
  }
  command_ = nullptr;  // forgets the result of an earlier call
  help_asked_ = version_asked_ = print_config_asked_ = false;
  config_file_.clear();
  ForgetCounts();
  std::string wrong = TakeWords(words);
  if (!wrong.empty()) return Fail(wrong);
  if (help_asked_) return Print(HelpText(line_, commands_, command_, footer_));
  if (version_asked_) return Print(version_ + "\n");
  if (!config_file_.empty()) {
    if (const std::optional<int> status = TakeConfigFile(words)) return status;
  }
  wrong = TakeEnvironment();
  if (wrong.empty()) wrong = FindContradiction();
  if (!wrong.empty()) return Fail(wrong);
  return std::nullopt;
}

std::string CommandLine::TakeWords(const std::vector<std::string>& words) {
  bool only_arguments = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!only_arguments && words[i] == "--") {
      only_arguments = true;
      continue;
    }
    std::string wrong;
    if (only_arguments || !IsFlag(words[i])) {
      wrong = TakeArgument(words[i]);
    } else {
      const std::string* next = i + 1 < words.size() ? &words[i + 1] : nullptr;
      const bool is_last = next == nullptr;
      wrong = TakeFlag(words[i], &next);
      if (!is_last && next == nullptr) ++i;
    }
    if (!wrong.empty() || help_asked_ || version_asked_) return wrong;
  }
  return "";
}

std::string CommandLine::TakeArgument(const std::string& word) {
  if (command_ == nullptr && !commands_.empty()) {
    std::vector<std::string> names;
    std::string name = word;
    std::ranges::replace(name, '-', '_');
    for (DeclaredCommand& command : commands_) {
      if (!name.empty() && command.former_name == name)
        return "the command '" + word + "' is " + command.name + " now";
      if (command.name == name) command_ = &command;
      names.push_back(command.name);
    }
    if (command_ != nullptr) return "";
    return "there is no command '" + word + "'" + SayNearest(word, names);
  }
  DeclaredCommand& taker = command_ == nullptr ? line_ : *command_;
  for (DeclaredOption& option : taker.options) {
    if (option.is_positional && (option.count == 0 || option.repeats))
      return Take(option, word, option.name());
  }
  return "the argument '" + word + "' is one too many";
}

std::string CommandLine::TakeFlag(const std::string& word, const std::string** next) {
  const bool is_long = word.starts_with("--");
  const std::size_t end = is_long ? std::min(word.find('='), word.size()) : 2;
  const std::string name = word.substr(0, end);
  DeclaredOption* const option = Find(name);
  if (option == nullptr) {
    const std::string nearest =
        is_long ? SayNearest(name.substr(2), LongNames(/*keys_only=*/false), "--") : "";
    return "there is no flag " + name +
           (nearest.empty() ? "; write arguments that are no flags behind --" : nearest);
  }
  const bool has_value = end < word.size();
  if (!option->takes_value && !has_value) return Take(*option, kTrue, name);
  if (!option->takes_value && !is_long) return name + ": takes no value";
  if (has_value) return Take(*option, word.substr(is_long ? end + 1 : end), name);
  if (option->value_is_optional) return Take(*option, "", name);
  if (*next == nullptr || IsFlag(**next)) {
    return name + ": there is no value behind it; write " + option->name() +
           "=VALUE, also where that begins with a dash";
  }
  return Take(*option, *std::exchange(*next, nullptr), name);
}

std::string CommandLine::TakeEnvironment() {
  std::string wrong;
  ForEach([&](DeclaredOption& option) {
    if (option.environment.empty() || option.count > 0 || !wrong.empty()) return;
    const char* const text = std::getenv(option.environment.c_str());
    if (text == nullptr || *text == '\0') return;
    wrong = Take(option, text, "the environment variable " + option.environment);
    option.count = 0;  // the command line has none
    option.is_in_environment = true;
  });
  return wrong;
}

std::string CommandLine::FindContradiction() const {
  if (command_ == nullptr && !commands_.empty()) return "say which command";
  std::string wrong;
  const auto look = [&wrong](const DeclaredCommand& declared) {
    for (const DeclaredOption& option : declared.options) {
      if (!wrong.empty()) return;
      const bool is_missing = option.count == 0 && !option.is_in_environment;
      if (is_missing && option.is_required) wrong = option.name() + " is missing";
      if (!IsOn(option)) continue;
      for (const DeclaredOption* other : option.needs) {
        if (!IsOn(*other)) wrong = option.name() + " needs " + other->name();
      }
      for (const DeclaredOption* other : option.excludes) {
        if (IsOn(*other)) wrong = option.name() + " and " + other->name() + " exclude each other";
      }
    }
    bool has_one = declared.needs_one_of.empty();
    std::string names;
    for (const DeclaredOption* option : declared.needs_one_of) {
      has_one = has_one || IsOn(*option);
      names += (names.empty() ? "" : " or ") + option->name();
    }
    if (!has_one && wrong.empty()) wrong = "say " + names;
  };
  if (command_ != nullptr) look(*command_);
  look(line_);
  return wrong;
}

std::vector<std::string> CommandLine::LongNames(bool keys_only) {
  std::vector<std::string> names;
  ForEach([&names, keys_only](const DeclaredOption& known) {
    if (keys_only && !known.is_in_config) return;
    for (const std::string& name : known.names) {
      if (name.starts_with("--")) names.push_back(name.substr(2));
    }
  });
  return names;
}

DeclaredOption* CommandLine::Find(std::string name) {
  if (name.starts_with("--")) std::replace(name.begin() + 2, name.end(), '-', '_');
  const auto has = [&name](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  DeclaredOption* found = nullptr;
  ForEach([&](DeclaredOption& option) {
    if (found == nullptr && (has(option.names) || has(option.aliases))) found = &option;
  });
  return found;
}

void CommandLine::ForEach(const std::function<void(DeclaredOption&)>& visit) {
  if (command_ != nullptr) std::ranges::for_each(command_->options, visit);
  std::ranges::for_each(line_.options, visit);
}

int CommandLine::Fail(const std::string& error) const {
  const std::string of = command_ == nullptr ? "" : " " + command_->name;
  Report(error + "; see " + line_.name + of + " --help");
  return EX_USAGE;
}

void CommandLine::Report(const std::string& error) const {
  if (report_) return report_(error);
  SayError(line_.name + ": " + error);
}

void CommandLine::ForgetCounts() {
  const auto forget = [](DeclaredOption& option) {
    option.count = 0;
    option.is_from_file = false;
  };
  for (DeclaredOption& option : line_.options) forget(option);
  for (DeclaredCommand& command : commands_) {
    for (DeclaredOption& option : command.options) forget(option);
  }
}

int CommandLine::Print(const std::string& text) const {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return EX_OK;
  Report(std::string("standard output: ") + std::strerror(errno));
  return EX_IOERR;
}

bool CommandLine::Has(const std::string& option) const {
  const auto is_given = [&option](const DeclaredOption& declared) {
    return IsOn(declared) && std::ranges::find(declared.names, option) != declared.names.end();
  };
  return std::ranges::any_of(line_.options, is_given) ||
         (command_ != nullptr && std::ranges::any_of(command_->options, is_given));
}

}  // namespace remora::command_line
