#include "tools/kvgate/command_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/commands/groups.h"

namespace remora::kvgate {
namespace {

// Bytes of a name, or of the arguments, that an error shows.
constexpr std::size_t kMostShown = 128;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::vector<Command> SortedCommands() {
  std::vector<Command> all;
  for (const std::span<const Command> group :
       {ClusterCommands(), ConnectionCommands(), ConfigCommands(), ServerCommands(), StringCommands(),
        ManyKeyCommands(), NumberCommands(), ExpiryCommands(), KeyCommands(), ObjectCommands(),
        PubsubCommands(), ScanCommands(), TransactionCommands()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  std::ranges::sort(all, [](const Command& one, const Command& other) {
    return std::string_view(one.name) < std::string_view(other.name);
  });
  return all;
}

/// Text of C stops at a zero byte, and so does Redis.
std::string_view Shown(std::string_view text) {
  return text.substr(0, kMostShown).substr(0, text.find('\0'));
}

}  // namespace

std::span<const Command> Commands() {
  static const std::vector<Command> all = SortedCommands();
  return all;
}

const Command* FindCommand(std::string_view name) {
  std::array<char, 32> lower{};
  if (name.size() > lower.size()) return nullptr;
  std::ranges::transform(name, lower.begin(), Lower);
  const std::string_view wanted(lower.data(), name.size());
  const std::span<const Command> all = Commands();
  const auto found = std::ranges::lower_bound(
      all, wanted, {}, [](const Command& command) { return std::string_view(command.name); });
  return found != all.end() && found->name == wanted ? &*found : nullptr;
}

bool IsWord(std::string_view argument, std::string_view word) {
  return std::ranges::equal(argument, word, {}, Lower, Lower);
}

std::string UnknownCommand(const Request& request) {
  std::string shown;
  for (std::size_t i = 1; i < request.size() && shown.size() < kMostShown; ++i) {
    const std::string_view argument = request[i].substr(0, kMostShown - shown.size());
    absl::StrAppend(&shown, "'", AbslView(argument.substr(0, argument.find('\0'))), "' ");
  }
  return absl::StrCat("ERR unknown command '", AbslView(Shown(request[0])),
                      "', with args beginning with: ", shown);
}

std::string WrongArity(std::string_view name) {
  return absl::StrCat("ERR wrong number of arguments for '", AbslView(name), "' command");
}

std::string NoPermission(std::string_view name) {
  return absl::StrCat("NOPERM this user has no permissions to run the '", AbslView(name), "' command");
}

std::string UnknownSubcommand(std::string_view subcommand, std::string_view command) {
  std::string upper(command);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return absl::StrCat("ERR unknown subcommand '", AbslView(Shown(subcommand)), "'. Try ", upper, " HELP.");
}

}  // namespace remora::kvgate
