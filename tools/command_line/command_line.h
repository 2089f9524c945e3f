// A program's command line: flags, options, positional arguments and commands, which are read into variables.
//
//   CommandLine line("greet: says hello.");
//   std::string name;
//   int times = 1;
//   line.Add("NAME", name, "Whom to greet").Required();
//   line.Add("--times", times, "How often").Range(1, 10).ShowDefault();
//   if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
//
// CLI11 does the work in command_line.cc alone: each source that includes it takes a compiler several
// seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace remora::command_line {

/// Refers to one option, flag or positional argument. It is copied freely, and is valid as long as its
/// CommandLine.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required();
  /// Names what the value is, in the help: SIZE, FILE, ... Notes about its bounds follow it.
  Option TypeName(const std::string& name);
  /// Stands in the help instead of type, bounds and default.
  Option Placeholder(const std::string& text);
  /// Shows the variable's value, as it is now, as the default in the help.
  Option ShowDefault();
  /// Shows this as the default in the help.
  Option DefaultText(const std::string& text);
  /// Takes the value from this environment variable where the command line has none.
  Option Environment(const std::string& variable);
  /// Splits the value of an option that has several.
  Option Separator(char separator);
  /// One value behind each occurrence of an option that has several.
  Option OneValueEach();
  Option Needs(Option other);
  Option Excludes(Option other);

  // Checks of the text; where several are given, all of them hold.

  /// T: int, unsigned, std::uint64_t or double.
  template <typename T>
  Option Range(T least, T most);
  Option Positive();
  Option NotNegative();
  Option IsOneOf(const std::vector<std::string>& texts);
  /// `what_is_wrong` returns an empty string for a good value.
  Option Check(std::function<std::string(const std::string&)> what_is_wrong);
  /// Numbers may have a unit: 64M, 8GiB, ... of 1024 each. To be said before Range.
  Option Size();

  /// How many values the command line had for it. REQUIRES: CommandLine::Parse was called.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

template <typename T>
struct Choice {
  const char* name;
  T value;
};

/// Refers to a command of the command line, as `put` of `kvctl put`, or to the command line itself.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

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
        name, std::is_same_v<T, bool> ? "BOOLEAN" : "ENUM", values,
        [&variable](int value) { variable = static_cast<T>(value); }, help);
  }

  /// Between `least` and `most` of its options must be given.
  void RequireOptions(std::size_t least, std::size_t most);

 protected:
  CLI::App* app() const { return app_; }

 private:
  Option AddChoice(const std::string& name, const char* type,
                   const std::vector<std::pair<std::string, int>>& values, std::function<void(int)> take,
                   const std::string& help);

  CLI::App* app_;
};

class CommandLine : public Command {
 public:
  /// `program`: its name in the help; empty: as it was called.
  explicit CommandLine(const std::string& description, const std::string& program = "");
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Stands at the end of the help.
  void Footer(const std::string& text);
  /// --version prints `text`.
  void Version(const std::string& text);
  /// Names --help alone, with this help, instead of -h and --help.
  void HelpFlag(const std::string& help);
  /// Adds a command. One of the commands must then be given; options of the line may stand behind it.
  Command AddCommand(const std::string& name, const std::string& help);

  /// Reads the arguments into the variables. Returns nothing, or, where the program is to end now, a status:
  /// 0 if --help or --version was asked for, which is printed to standard output, else another one. An error
  /// is printed to standard error, or given to `fail`, which returns the status.
  std::optional<int> Parse(int argc, const char* const* argv,
                           const std::function<int(const std::string& error)>& fail = {});
  /// Prints an error as Parse does.
  void PrintError(const std::string& error) const;

  /// Returns the name of the command that was given. REQUIRES: Parse returned nothing.
  std::string command() const;
  /// Returns whether this option was given. REQUIRES: Parse returned nothing.
  bool Has(const std::string& option) const;

 private:
  explicit CommandLine(std::unique_ptr<CLI::App> owned);

  std::unique_ptr<CLI::App> owned_;
};

}  // namespace remora::command_line
