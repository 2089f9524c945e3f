// The command line.
#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "rdma/address.h"
#include "store/format/layout.h"
#include "store/format/ttl_text.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "   0  done\n"
    "   1  there is no such key; nothing was done. check, restore: damaged; nothing was restored\n"
    "   2  --if-absent: there is such a key; --if-version: it has another version; incr: its value is\n"
    "      no number; nothing was done\n"
    "   3  check: the log ends torn, as a machine leaves it that fails; a server starts, and drops\n"
    "      what is behind that, none of which was synced\n"
    "  64  usage: an unknown flag, a bad address, duration or number, a key out of bounds\n"
    "  65  put: the value is larger than 67108864 bytes; append: it would be larger than 262144;\n"
    "      incr: the sum is no number of 64 bits; nothing was done. import: a line is no record, or\n"
    "      the input was cut off; what stood before it was imported\n"
    "  66  there is no such directory, or no such backup in it\n"
    "  69  the server cannot be reached, refused, or did not answer in time\n"
    "  70  an error inside kvctl or the server\n"
    "  71  the system lacks something, as memory that may be locked\n"
    "  73  the server has no room; nothing was stored\n"
    "  74  standard input or output failed; or what the server has on its disk is damaged\n"
    "  75  a store is open there; another backup is under way, or one is being read;\n"
    "      export: the output was not taken for 30 s, or the connection broke\n"
    "  77  not permitted: another user's local server, no token or a wrong one, or one for reading alone\n"
    "  78  a directory of something else, or not empty, or of a format that this kvctl does not know\n"
    "DURATION: 500ms, 30s, 15m, 12h, 7d (whole numbers), or never\n";
static_assert(kMaxValueSize == 67108864 && kMaxSmallValueSize == 262144, "the help text names them");

/// Reads standard input to its end, and no further than shows that it is too much for a value.
Outcome ReadInput(std::string* value) {
  std::size_t size = 0;
  while (size <= kMaxValueSize) {
    if (size == value->size()) value->resize(std::clamp(2 * size, std::size_t{4096}, kMaxValueSize + 1));
    const ssize_t got = read(STDIN_FILENO, value->data() + size, value->size() - size);
    if (got == 0) break;
    if (got > 0) {
      size += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return {EX_IOERR, absl::StrFormat("standard input: %s", std::strerror(errno))};
    }
  }
  value->resize(size);
  return {};
}

/// CLI11's: what is wrong; empty: nothing.
std::string IsTokenName(const std::string& name) {
  const bool is_one = !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
  return is_one ? "" : "a token's name has 1 to 32 letters, digits, dots, dashes and underscores";
}

bool TakesKey(std::string_view command) {
  for (const std::string_view other :
       {"ping", "stats", "scan", "watch", "count", "drop", "export", "import", "backup"}) {
    if (command == other) return false;
  }
  return true;
}

}  // namespace

Outcome Prepare(Arguments* arguments) {
  if (arguments->is_offline()) return {};
  if (arguments->server.empty()) {
    return {EX_USAGE, "say which server: --server=ADDRESS, or the environment variable REMORA_SERVER"};
  }
  if (absl::Status status = rdma::ParseAddress(arguments->server).status(); !status.ok()) {
    return FromStatus(status);
  }
  if (arguments->command == "drop" && !arguments->yes) {
    return {EX_USAGE, "drop deletes for good: say --yes if that is what you want"};
  }
  if (arguments->idle_text) {
    std::string why;
    arguments->idle = ParseTtl(*arguments->idle_text, &why);
    if (!arguments->idle) return {EX_USAGE, why};
  }
  if (!TakesKey(arguments->command)) return {};
  if (arguments->key.size() < kMinKeySize || arguments->key.size() > kMaxKeySize) {
    return {EX_USAGE, absl::StrFormat("the key has %d bytes; a key has %d to %d", arguments->key.size(),
                                      kMinKeySize, kMaxKeySize)};
  }
  if (arguments->ttl_text) {
    std::string why;
    arguments->ttl = ParseTtl(*arguments->ttl_text, &why);
    if (!arguments->ttl) return {EX_USAGE, why};
  }
  if (arguments->command == "incr") {
    const char* const end = arguments->delta_text.data() + arguments->delta_text.size();
    const auto [parsed, error] = std::from_chars(arguments->delta_text.data(), end, arguments->delta);
    if (error != std::errc() || parsed != end) {
      return {EX_USAGE, absl::StrFormat("%s is no number of 64 bits", arguments->delta_text)};
    }
  }
  if (arguments->if_absent) arguments->condition = Condition::Absent();
  if (arguments->if_present) arguments->condition = Condition::Present();
  if (arguments->if_version != 0) arguments->condition = Condition::Version(arguments->if_version);
  if (arguments->command != "put" && arguments->command != "append") return {};
  if (!arguments->value_given) {
    if (Outcome outcome = ReadInput(&arguments->value); Failed(outcome)) return outcome;
  }
  if (arguments->value.size() > kMaxValueSize) {
    return {EX_DATAERR, absl::StrFormat("the value is larger than %d bytes, the most that a value may have",
                                        kMaxValueSize)};
  }
  return {};
}

int Parse(int argc, char** argv, Arguments* arguments) {
  CLI::App app("Does one operation on a Remora server.", "kvctl");
  app.set_version_flag("--version", absl::StrFormat("kvctl %s, format %d", REMORA_VERSION, kFormatVersion));
  app.set_help_flag("--help", "Print this and exit");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();  // flags may also stand behind the command
  app.add_option("--server", arguments->server, "verbs://HOST:PORT or local:///PATH")
      ->envname("REMORA_SERVER");
  app.add_option("--timeout", arguments->timeout_ms, "For connecting, and for the operation, in milliseconds")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  app.add_option("--token_file", arguments->token_file,
                 "What `kvctl token` printed, for a server that serves only who has a token")
      ->envname("REMORA_TOKEN_FILE")
      ->type_name("FILE");

  CLI::App* get = app.add_subcommand("get", "Write the value to standard output, and nothing else");
  CLI::App* exists = app.add_subcommand("exists", "Print nothing; the exit code says it");
  CLI::App* put = app.add_subcommand("put", "Store a value, from standard input unless VALUE stands there");
  CLI::App* append = app.add_subcommand("append", "Put bytes behind the value, as put; print its new size");
  CLI::App* incr = app.add_subcommand("incr", "Add to the number that the value spells; print the sum");
  CLI::App* remove = app.add_subcommand("delete", "Remove a key");
  CLI::App* touch = app.add_subcommand("touch", "Let a key expire so long from now");
  CLI::App* persist = app.add_subcommand("persist", "Let a key never expire");
  CLI::App* ttl = app.add_subcommand("ttl", "Print for how long the key is there yet, as a DURATION");
  CLI::App* scan = app.add_subcommand(
      "scan", "Print keys and values in the order of the keys, as KEY, tab, VALUE, on a line for each");
  CLI::App* watch = app.add_subcommand(
      "watch", "Print each write as it is done, as put, tab, KEY, tab, VALUE, or delete, tab, KEY");
  CLI::App* count = app.add_subcommand("count", "Print how many keys there are");
  CLI::App* drop = app.add_subcommand("drop", "Delete all keys; print how many they were");
  CLI::App* export_command = app.add_subcommand(
      "export", "Write all records as of one moment to standard output: JSON, one record a line");
  CLI::App* import_command =
      app.add_subcommand("import", "Store the records of an export, which standard input brings");
  CLI::App* backup = app.add_subcommand("backup", "Have the server make a backup; print what became of it");
  CLI::App* backups = app.add_subcommand(
      "backups", "List backups: number, time, last version, bytes, new bytes; tabs in between");
  CLI::App* restore =
      app.add_subcommand("restore", "Make a data directory of a backup, all of it or nothing");
  CLI::App* check =
      app.add_subcommand("check", "Read all of a stopped server's data, or of a backup; print counts");
  CLI::App* ping = app.add_subcommand("ping", "Ask the server for an answer and print the round-trip time");
  CLI::App* token =
      app.add_subcommand("token", "Print a new token: a line for the server's --tokens, and for its clients");
  token->add_option("NAME", arguments->key, "Up to 32 letters, digits, dots, dashes and underscores")
      ->required()
      ->check(IsTokenName, "");
  token->add_option("--role", arguments->role, "read-only or read-write")
      ->check(CLI::IsMember({"read-only", "read-write"}))
      ->capture_default_str()
      ->type_name("ROLE");
  app.add_subcommand("stats", "Print the server's counters, a name and a value on each line");
  for (CLI::App* command : {get, exists, put, append, incr, remove, touch, persist, ttl}) {
    command->add_option("KEY", arguments->key, "1 to 4096 bytes")->required();
  }
  get->add_flag("--version", arguments->show_version, "Write its version and a newline before the value");
  CLI::Option* value =
      put->add_option("VALUE", arguments->value,
                      "Up to 67108864 bytes; write `put -- KEY VALUE` where one of them begins with a dash");
  CLI::Option* more = append->add_option("VALUE", arguments->value, "As for put");
  incr->add_option("DELTA", arguments->delta_text, "A number of 64 bits; an absent key counts as 0")
      ->capture_default_str();
  for (CLI::App* command : {put, append, incr}) {
    command
        ->add_option("--ttl", arguments->ttl_text,
                     "Let it expire so long from now; else by put: as the server's default says")
        ->type_name("DURATION");
    CLI::Option* absent =
        command->add_flag("--if-absent", arguments->if_absent, "Only if there is no such key");
    command->add_flag("--if-present", arguments->if_present, "Only if there is such a key")->excludes(absent);
  }
  for (CLI::App* command : {put, append, incr, remove, touch, persist}) {
    CLI::Option* version =
        command->add_option("--if-version", arguments->if_version, "Only if the key has this version")
            ->check(CLI::Range(std::uint64_t{1}, kMaxVersion - 1));
    if (CLI::Option* other = command->get_option_no_throw("--if-absent")) version->excludes(other);
    if (CLI::Option* other = command->get_option_no_throw("--if-present")) version->excludes(other);
  }
  for (CLI::App* command : {scan, watch, count, drop, export_command}) {
    command->add_option("--prefix", arguments->prefix, "Only of keys that begin with this");
  }
  for (CLI::App* command : {scan, watch}) {
    command->add_option("--limit", arguments->limit, "Show so many, at most; 0: all")
        ->check(CLI::Range(std::uint64_t{0}, kMaxVersion))
        ->capture_default_str();
    command->add_flag("--keys-only", arguments->keys_only, "Without values");
  }
  CLI::Option* reverse = scan->add_flag("--reverse", arguments->reverse, "From the last key to the first");
  for (CLI::App* command : {scan, export_command}) {
    CLI::Option* any_order = command->add_flag("--any-order", arguments->any_order,
                                               "Not as of one moment: for a server that is only in memory");
    if (command == scan) any_order->excludes(reverse);
  }
  watch->add_option("--token", arguments->token,
                    "Go on behind the line that began with it; else from now on");
  watch->add_flag("--tokens", arguments->show_tokens,
                  "Begin each line with a token; print one at the end, too");
  watch->add_option("--idle", arguments->idle_text, "End when nothing has come for so long; else never")
      ->type_name("DURATION");
  import_command->add_flag("--if-absent", arguments->if_absent, "Leave keys alone that are there");
  import_command->add_flag("--skip-bad", arguments->skip_bad, "Leave out lines that are no records");
  drop->add_flag("--yes", arguments->yes, "Yes, delete them");
  const auto directory = [](CLI::App* command, const char* flag, std::string& where, const char* help) {
    return command->add_option(flag, where, help)->type_name("DIR");
  };
  CLI::Option* data =
      directory(backup, "--data", arguments->data, "Without a server: the data directory of a stopped one");
  CLI::Option* to = directory(backup, "--to", arguments->to, "With --data: the directory of backups");
  data->needs(to);
  to->needs(data);
  backup
      ->add_option("--keep", arguments->keep,
                   "With --data: delete older ones but so many of the newest; 0: none")
      ->needs(data);
  directory(restore, "--to", arguments->to, "The data directory to be made: new, or empty")->required();
  directory(check, "--data", arguments->data, "The data directory of a stopped server");
  constexpr char kFrom[] = "The directory of backups";
  directory(backups, "--from", arguments->from, kFrom)->required();
  directory(restore, "--from", arguments->from, kFrom)->required();
  directory(check, "--from", arguments->from, kFrom)->excludes("--data");
  for (CLI::App* command : {restore, check}) {
    command->add_option("--id", arguments->id, "The backup's number; else the newest one")
        ->check(CLI::Range(std::uint32_t{1}, ~std::uint32_t{0}))
        ->needs("--from");
  }
  check->require_option(1, 2);
  touch->add_option("DURATION", arguments->ttl_text, "See below")->required()->type_name("");
  ping->add_option("--wait", arguments->wait_seconds,
                   "Keep trying for so many seconds until a server answers")
      ->check(CLI::Range(0, 86'400));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    absl::FPrintF(stderr, "kvctl: %s; see kvctl --help\n", what);
    return EX_USAGE;
  }
  arguments->command = app.get_subcommands().front()->get_name();
  arguments->value_given = value->count() + more->count() > 0;
  return -1;
}

}  // namespace remora::kvctl
