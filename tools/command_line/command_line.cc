#include "tools/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace remora::command_line {

Option Option::Required() {
  option_->required();
  return *this;
}

Option Option::TypeName(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option Option::Placeholder(const std::string& text) {
  option_->option_text(text);
  return *this;
}

Option Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Option Option::DefaultText(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option Option::Environment(const std::string& variable) {
  option_->envname(variable);
  return *this;
}

Option Option::Separator(char separator) {
  option_->delimiter(separator);
  return *this;
}

Option Option::OneValueEach() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::Needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::Excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

template <typename T>
Option Option::Range(T least, T most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

template Option Option::Range(int, int);
template Option Option::Range(unsigned, unsigned);
template Option Option::Range(std::uint64_t, std::uint64_t);
template Option Option::Range(double, double);

Option Option::Positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option Option::NotNegative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::IsOneOf(const std::vector<std::string>& texts) {
  option_->check(CLI::IsMember(texts));
  return *this;
}

Option Option::Check(std::function<std::string(const std::string&)> what_is_wrong) {
  option_->check(std::move(what_is_wrong), "");
  return *this;
}

Option Option::Size() {
  option_->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  return *this;
}

std::size_t Option::count() const { return option_->count(); }

template <typename T>
Option Command::Add(const std::string& name, T& variable, const std::string& help) {
  return Option(app_->add_option(name, variable, help));
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
  return Option(app_->add_flag(name, variable, help));
}

template <typename T>
Option Command::AddFunction(const std::string& name, std::function<void(const T&)> take,
                            const std::string& help) {
  return Option(app_->add_option_function<T>(name, take, help));
}

template Option Command::AddFunction(const std::string&, std::function<void(const int&)>, const std::string&);
template Option Command::AddFunction(const std::string&, std::function<void(const std::string&)>,
                                     const std::string&);

Option Command::AddChoice(const std::string& name, const char* type,
                          const std::vector<std::pair<std::string, int>>& values,
                          std::function<void(int)> take, const std::string& help) {
  return Option(
      app_->add_option_function<int>(name, take, help)
          ->transform(CLI::CheckedTransformer(std::map<std::string, int>(values.begin(), values.end())))
          ->type_name(type));
}

void Command::RequireOptions(std::size_t least, std::size_t most) { app_->require_option(least, most); }

CommandLine::CommandLine(std::unique_ptr<CLI::App> owned) : Command(owned.get()), owned_(std::move(owned)) {}

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : CommandLine(std::make_unique<CLI::App>(description, program)) {}

CommandLine::~CommandLine() = default;

void CommandLine::Footer(const std::string& text) { owned_->footer(text); }

void CommandLine::Version(const std::string& text) { owned_->set_version_flag("--version", text); }

void CommandLine::HelpFlag(const std::string& help) { owned_->set_help_flag("--help", help); }

Command CommandLine::AddCommand(const std::string& name, const std::string& help) {
  owned_->require_subcommand(1);
  owned_->fallthrough();  // is inherited by commands that are added behind it
  return Command(owned_->add_subcommand(name, help));
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv,
                                      const std::function<int(const std::string&)>& fail) {
  try {
    owned_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (!fail || error.get_exit_code() == 0) return owned_->exit(error);
    return fail(error.what());
  }
}

void CommandLine::PrintError(const std::string& error) const {
  owned_->exit(CLI::ParseError(error, CLI::ExitCodes::ValidationError));
}

std::string CommandLine::command() const { return owned_->get_subcommands().front()->get_name(); }

bool CommandLine::Has(const std::string& option) const { return owned_->count(option) > 0; }

}  // namespace remora::command_line
