// A program's command line: flags, options, positional arguments and commands, which are read into variables.
//
//   CommandLine line("greet: says hello.");
//   std::string name;
//   int times = 1;
//   line.Add("NAME", name, "Whom to greet").Required();
//   line.Add("--times", times, "How often").Range(1, 10).ShowDefault();
//   if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
//
// Syntax: --flag=VALUE or --flag VALUE, -f VALUE or -fVALUE; `--flag=` is an empty value. A flag without a
// value also takes =true, which is the same, or =false, which is as if it were not given. The words of a
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

#include "tools/command_line/config_file.h"
#include "tools/command_line/declared.h"

namespace remora::command_line {

/// Refers to one option, flag or positional argument. It is copied freely, and is valid as long as its
/// CommandLine.
class Option {
 public:
  explicit Option(DeclaredOption* option) : option_(option) {}

  Option Required();
  /// Another name of it, with its dashes, that the help does not show: one of an earlier release.
  Option Alias(const std::string& name);
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
  /// The flag may stand alone, and then has an empty value; a value of it stands behind `=`.
  Option ValueIsOptional();
  /// Is no key of a file; see CommandLine::ReadsConfigFile.
  Option OnlyOnCommandLine();
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

  /// How many values the command line had for it, false among them. REQUIRES: CommandLine::Parse was called.
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
  /// `variable` becomes true, or with --NAME=false, false.
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

  /// Its name in an earlier release, which is now an error that says the present name.
  void FormerName(const std::string& name) { declared_->former_name = name; }
  /// One of them must be given.
  void RequireOneOf(std::initializer_list<Option> options);

 private:
  DeclaredOption* Declare(const std::string& name, const std::string& help);
  Option AddChoice(const std::string& name, const std::vector<std::pair<std::string, int>>& values,
                   std::function<void(int)> take, const std::string& help);

  DeclaredCommand* declared_;
};

/// The origin of an option's value.
enum class Source { kDefault, kFile, kCommandLine };
/// Returns "default", "file" or "command line".
const char* SourceName(Source source);

struct Setting {
  std::string key;    // the name of the option, without its dashes
  std::string value;  // as text; of a flag, "true" or "false"; empty: none was given, and there is no default
  Source source = Source::kDefault;
  bool is_flag = false;  // it takes no other values than these two
};

/// Returns a file for --config that says the same. A default stands there as a comment.
std::string ConfigText(const std::vector<Setting>& settings);

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
  /// --config=FILE reads options of the line from a file, whose syntax config_file.h describes: the name of
  /// an option, without its dashes, is its key. An option that the command line has, too, is the command
  /// line's alone, and so is one that an option of the command line excludes. A function of AddFunction may
  /// get the values of the command line twice. --print_config, which it
  /// returns, is for the program to obey: see asks_for_config.
  Option ReadsConfigFile(const std::string& help);
  /// Adds a command. One of the commands must then be given; options of the line may stand behind it.
  Command AddCommand(const std::string& name, const std::string& help);

  /// Reads the arguments into the variables. Returns nothing, or a status if the program is to end now:
  /// - 0: --help or --version was asked for, and was printed to standard output;
  /// - EX_USAGE (64): an error, which is printed to standard error;
  /// - EX_NOINPUT (66), EX_NOPERM (77), EX_CONFIG (78), EX_IOERR: so is an error of the file of --config;
  /// - EX_IOERR (74): standard output fails.
  std::optional<int> Parse(int argc, const char* const* argv);
  /// Prints an error as Parse does, and returns EX_USAGE.
  int Fail(const std::string& error) const;

  /// Returns the name of the command that was given. REQUIRES: Parse returned nothing.
  const std::string& command() const { return command_->name; }
  /// Returns whether this option was given, and not as false. REQUIRES: Parse returned nothing.
  bool Has(const std::string& option) const;
  /// Returns whether the ConfigText of the settings is to be printed. REQUIRES: Parse returned nothing.
  bool asks_for_config() const { return print_config_asked_; }
  /// Returns the options that may be keys of a file, with one Setting for each value that was given.
  /// REQUIRES: Parse returned nothing.
  std::vector<Setting> Settings() const;
  /// Hands errors to `report`, without the program's name, instead of printing them.
  void ReportTo(std::function<void(const std::string& error)> report) { report_ = std::move(report); }
  /// Prints to standard output. Returns 0, or EX_IOERR after an error that it prints.
  int Print(const std::string& text) const;

 private:
  // Each returns what is wrong; empty: nothing.
  std::string TakeWords(const std::vector<std::string>& words);
  std::string TakeArgument(const std::string& word);
  /// `next`: the word behind this one, or null. *next becomes null if it was taken for the value.
  std::string TakeFlag(const std::string& word, const std::string** next);
  std::string TakeEnvironment();
  std::string FindContradiction() const;

  /// Reads the file of --config, and the words once more, which win. Returns a status after an error.
  std::optional<int> TakeConfigFile(const std::vector<std::string>& words);
  /// `given`: the options that the words have. A line does nothing if one of them excludes it.
  std::string TakeConfigLine(const ConfigLine& line, const std::vector<const DeclaredOption*>& given);

  void Report(const std::string& error) const;
  DeclaredOption* Find(std::string name);
  /// Calls with each option that may be given, those of the command first.
  void ForEach(const std::function<void(DeclaredOption&)>& visit);
  /// The long names of all options that may be given, without their dashes. `keys_only`: of those that may be
  /// keys of a file.
  std::vector<std::string> LongNames(bool keys_only);
  void ForgetCounts();

  DeclaredCommand line_;
  std::deque<DeclaredCommand> commands_;
  std::string footer_;
  std::string version_;
  std::string config_file_;
  std::function<void(const std::string& error)> report_;  // empty: they are printed
  DeclaredCommand* command_ = nullptr;                    // that was given
  bool help_asked_ = false;
  bool version_asked_ = false;
  bool print_config_asked_ = false;
};

}  // namespace remora::command_line
