// A program's command line: flags, options, positional arguments and commands, which are read into variables.
//
//   CommandLine line("greet: says hello.");
//   std::string name;
//   int times = 1;
//   line.Add("NAME", name, "Whom to greet").Required();
//   line.Add("--times", times, "How often").Range(1, 10).ShowDefault();
//   if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
//
// Syntax: --flag=VALUE or --flag VALUE, -f VALUE or -fVALUE; `--flag=` is an empty value. The words of a
// flag's name are joined by `_`; `-` means the same. Text that begins with a dash is no value of its own,
// unless it is a dash or a negative number: write --flag=-x. Behind `--` all are arguments. An option is
// given once, unless it repeats. number_text.h describes how numbers are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/command_line/declared.h"

namespace remora::command_line {

/// Refers to one option, flag or positional argument. It is copied freely, and is valid as long as its
/// CommandLine.
class Option {
 public:
  explicit Option(DeclaredOption* option) : option_(option) {}

  Option Required();
  /// Names what the value is, in the help: SIZE, FILE, ...
  Option TypeName(const std::string& name);
  /// Stands in the help instead of the type, and of notes about bounds, default and the like.
  Option Placeholder(const std::string& text);
  /// Shows the variable's value, as it is now, as the default in the help.
  Option ShowDefault();
  /// Shows this as the default in the help.
  Option DefaultText(const std::string& text);
  /// Takes the value from this environment variable where the command line has none, and it is not empty.
  Option Environment(const std::string& variable);
  /// Splits the value of an option that has several.
  Option Separator(char separator);
  /// An empty value is one, too; else it is an error.
  Option MayBeEmpty();
  Option Needs(Option other);
  Option Excludes(Option other);

  // Checks; where several are given, all of them hold.

  /// T: int, unsigned, std::uint64_t or double.
  template <typename T>
  Option Range(T least, T most);
  Option Positive();
  Option NotNegative();
  Option IsOneOf(const std::vector<std::string>& texts);
  /// `what_is_wrong` returns an empty string for a good value.
  Option Check(std::function<std::string(const std::string&)> what_is_wrong);
  /// Numbers may have a unit: 64M, 8GiB, ... of 1024 each.
  Option Size();

  /// How many values the command line had for it. REQUIRES: CommandLine::Parse was called.
  std::size_t count() const;

 private:
  friend class Command;

  DeclaredOption* option_;
};

template <typename T>
struct Choice {
  const char* name;
  T value;
};

/// Refers to a command of the command line, as `put` of `kvctl put`, or to the command line itself.
class Command {
 public:
  explicit Command(DeclaredCommand* declared) : declared_(declared) {}

  /// An option, if the name begins with dashes ("-p,--property"), else a positional argument. The variable
  /// must outlive the CommandLine, and keeps its value where the command line has none. T: int, unsigned,
  /// std::uint64_t, double, std::string, std::optional of unsigned or std::string, or std::vector of
  /// std::uint64_t or std::string.
  template <typename T>
  Option Add(const std::string& name, T& variable, const std::string& help = "");
  /// `variable` becomes true.
  Option AddFlag(const std::string& name, bool& variable, const std::string& help);
  /// Hands the value to `take`, in the order of the command line. T: std::string or int.
  template <typename T>
  Option AddFunction(const std::string& name, std::function<void(const T&)> take, const std::string& help);

  /// One of some values by its name. T: an enumeration or bool.
  template <typename T>
  Option AddChoice(const std::string& name, T& variable,
                   std::initializer_list<Choice<std::type_identity_t<T>>> choices, const std::string& help) {
    std::vector<std::pair<std::string, int>> values;
    for (const Choice<T>& choice : choices) values.emplace_back(choice.name, static_cast<int>(choice.value));
    return AddChoice(
        name, values, [&variable](int value) { variable = static_cast<T>(value); }, help);
  }

  /// One of them must be given.
  void RequireOneOf(std::initializer_list<Option> options);

 private:
  DeclaredOption* Declare(const std::string& name, const std::string& help);
  Option AddChoice(const std::string& name, const std::vector<std::pair<std::string, int>>& values,
                   std::function<void(int)> take, const std::string& help);

  DeclaredCommand* declared_;
};

class CommandLine : public Command {
 public:
  /// `program`: its name in the help and before errors; empty: as it was called, without its folder.
  explicit CommandLine(const std::string& description, const std::string& program = "");
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Stands at the end of the help.
  void Footer(const std::string& text) { footer_ = text; }
  /// --version prints `text`.
  void Version(const std::string& text);
  /// Adds a command. One of the commands must then be given; options of the line may stand behind it.
  Command AddCommand(const std::string& name, const std::string& help);

  /// Reads the arguments into the variables. Returns nothing, or a status if the program is to end now:
  /// - 0: --help or --version was asked for, and was printed to standard output;
  /// - EX_USAGE (64): an error, which is printed to standard error;
  /// - EX_IOERR (74): standard output fails.
  std::optional<int> Parse(int argc, const char* const* argv);
  /// Prints an error as Parse does, and returns EX_USAGE.
  int Fail(const std::string& error) const;

  /// Returns the name of the command that was given. REQUIRES: Parse returned nothing.
  const std::string& command() const { return command_->name; }
  /// Returns whether this option was given. REQUIRES: Parse returned nothing.
  bool Has(const std::string& option) const;

 private:
  // Each returns what is wrong; empty: nothing.
  std::string TakeArgument(const std::string& word);
  /// `next`: the word behind this one, or null. *next becomes null if it was taken for the value.
  std::string TakeFlag(const std::string& word, const std::string** next);
  std::string TakeEnvironment();
  std::string FindContradiction() const;

  DeclaredOption* Find(std::string name);
  /// Calls with each option that may be given, those of the command first.
  void ForEach(const std::function<void(DeclaredOption&)>& visit);
  int Print(const std::string& text) const;

  DeclaredCommand line_;
  std::deque<DeclaredCommand> commands_;
  std::string footer_;
  std::string version_;
  DeclaredCommand* command_ = nullptr;  // that was given
  bool help_asked_ = false;
  bool version_asked_ = false;
};

}  // namespace remora::command_line
