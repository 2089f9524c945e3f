// The parts of a command line, as its program declared them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tools/command_line/number_text.h"

namespace remora::command_line {

// The values of a flag.
inline constexpr char kTrue[] = "true";
inline constexpr char kFalse[] = "false";

struct DeclaredOption {
  std::vector<std::string> names;    // with their dashes; of a positional argument, its name
  std::vector<std::string> aliases;  // with their dashes; the help does not show them
  std::string help;
  std::string type;         // VALUE, SIZE, ...; empty: of a positional argument, or a flag
  std::string placeholder;  // the help shows this text in place of the type and the notes
  std::string default_text;
  std::string environment;
  char separator = '\0';  // of several values in one; 0: none
  bool is_positional = false;
  bool takes_value = true;
  bool repeats = false;
  bool is_required = false;
  bool may_be_empty = false;
  bool value_is_optional = false;  // without one, it is empty
  bool is_in_config = true;        // it may be a key of a file; false for --help, --version and the like

  NumberRule number;
  std::vector<std::string> choices;  // empty: any
  std::vector<std::function<std::string(const std::string&)>> checks;
  /// Hands on one value. Returns the fault of the value; empty: none.
  std::function<std::string(const std::string& text)> take;
  /// The variable's value, as text.
  std::function<std::string()> show;

  std::vector<const DeclaredOption*> needs;
  std::vector<const DeclaredOption*> excludes;
  std::size_t count = 0;           // of its values on the command line
  bool is_in_environment = false;  // which gives the value
  bool is_from_file = false;       // the values are those of the file of --config
  std::vector<std::string> given;  // the texts of the values, if count > 0; of a flag, kTrue or kFalse

  const std::string& name() const { return names.back(); }
};

struct DeclaredCommand {
  std::string name;         // of the command line itself, the program's
  std::string former_name;  // in an earlier release; empty: it had no other
  std::string help;
  std::deque<DeclaredOption> options;  // a deque leaves them where they are
  std::vector<const DeclaredOption*> needs_one_of;
};

/// Returns whether the option was given, and is no flag that was given as false.
bool IsOn(const DeclaredOption& option);

/// Takes the text, which several values may stand in. `where`: how it is called in an error. Returns what is
/// wrong; empty: nothing.
std::string Take(DeclaredOption& option, const std::string& text, const std::string& where);

/// The text of --help, with a newline at its end. `command`: the one that was given, or null: none. The
/// program's name is line.name.
std::string HelpText(const DeclaredCommand& line, const std::deque<DeclaredCommand>& commands,
                     const DeclaredCommand* command, const std::string& footer);

}  // namespace remora::command_line
