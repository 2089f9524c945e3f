// The command line.
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "rdma/address.h"
#include "store/format/memory/layout.h"
#include "store/format/types/duration_text.h"
#include "store/store.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/place.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

using command_line::Command;
using command_line::CommandLine;
using command_line::Option;

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "   0  done\n"
    "   1  there is no such key; nothing was done. check, restore: damaged; nothing was restored.\n"
    "      doctor: it found a problem\n"
    "   2  --if_absent: there is such a key; --if_version: it has another version; incr: its value is\n"
    "      no number; nothing was done\n"
    "   3  check: the log ends torn, as a machine leaves it that fails; a server starts, and drops\n"
    "      what is behind that, none of which was synced\n"
    "  64  usage: an unknown flag, a bad address, duration or number, a key out of bounds; a file of a\n"
    "      token that is missing, or holds none\n"
    "  65  put: the value is larger than 67108864 bytes; append: it would be larger than 262144;\n"
    "      incr: the sum is no number of 64 bits; nothing was done. import: a line is no record, or\n"
    "      the last line is missing; what stood before it was imported\n"
    "  66  there is no such directory, or no such backup in it\n"
    "  69  the server cannot be reached, refused, or did not answer in time\n"
    "  70  an error inside kvctl or the server\n"
    "  71  the system lacks something, as descriptors, memory, or memory that may be locked; or the\n"
    "      server's does\n"
    "  73  the server has no room; nothing was stored\n"
    "  74  standard input or output failed (the line says what was done all the same); or the disk of\n"
    "      the server, or of backups, is full, fails, or has damaged data\n"
    "  75  a store is open there; another backup is under way, or one is being read;\n"
    "      export: the output was not taken for 30 s, or the connection broke\n"
    "  77  not permitted: another user's local server, no token or a wrong one, or one for reading alone;\n"
    "      a file of a token that this user may not read, or that others may\n"
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

/// Returns the fault of the name; empty: none.
std::string IsTokenName(const std::string& name) {
  const bool is_one = !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
  return is_one ? "" : "a token's name has 1 to 32 letters, digits, dots, dashes and underscores";
}

void AddDoctor(Command doctor, Arguments* arguments) {
  doctor.Add("--data_dir", arguments->data_dir, "Check the disk for this data directory, too")
      .TypeName("DIR");
  doctor.Add("--memory", arguments->memory, "The server's --memory; else its default for this machine")
      .Size()
      .Range(std::uint64_t{1}, std::uint64_t{kMaxMemorySize});
  doctor
      .Add("--device", arguments->device,
           "RDMA is to be used: a lack of it is a problem. Try READs, WRITEs and SENDs of the device to "
           "itself")
      .TypeName("NAME")
      .ValueIsOptional();
  doctor.AddFlag("--json", arguments->json, "As one JSON object");
}

void AddTop(Command top, Arguments* arguments) {
  top.Add("--interval", arguments->interval_text, "How often; 10ms to 1h").ShowDefault().TypeName("DURATION");
  top.Add("--count", arguments->limit, "End after so many; 0: never")
      .Range(std::uint64_t{0}, kMaxVersion)
      .ShowDefault();
  top.AddFlag("--json", arguments->json, "As one JSON object a line");
}

/// Reads --interval. Returns its fault; empty: none.
std::string ReadInterval(Arguments* arguments) {
  constexpr std::chrono::milliseconds kLeast{10};
  std::string why;
  arguments->interval = ParseTtl(arguments->interval_text, &why);
  if (!arguments->interval) return absl::StrFormat("--interval: %s", why);
  if (*arguments->interval >= kLeast && *arguments->interval <= std::chrono::hours(1)) return "";
  return absl::StrFormat("--interval: '%s' is not between 10ms and 1h", arguments->interval_text);
}

void AddSize(Command size, Arguments* arguments) {
  size.Add("--records", arguments->records, "How many records")
      .Range(std::uint64_t{1}, std::uint64_t{1} << 40)
      .Required();
  size.Add("--value_size", arguments->value_size, "Bytes of a value, on average: 100, 4K")
      .Size()
      .Range(std::uint64_t{0}, std::uint64_t{kMaxValueSize})
      .Required();
  size.Add("--key_size", arguments->key_size, "Bytes of a key, on average")
      .Size()
      .Range(std::uint64_t{kMinKeySize}, std::uint64_t{kMaxKeySize})
      .ShowDefault();
  size.Add("--clients", arguments->clients, "Clients that are connected at once")
      .Range(std::uint64_t{1}, std::uint64_t{65536})
      .ShowDefault();
}

bool TakesKey(std::string_view command) {
  for (const std::string_view other : {"ping", "stats", "config", "top", "doctor", "scan", "watch", "count",
                                       "drop", "export", "import", "backup"}) {
    if (command == other) return false;
  }
  return true;
}

}  // namespace

Outcome Prepare(Arguments* arguments) {
  if (arguments->command == "backup" && command_line::IsSamePlace(arguments->data, arguments->to)) {
    return {EX_USAGE, "--data and --to are the same directory; backups need one of their own"};
  }
  if (arguments->command == "restore" && command_line::IsSamePlace(arguments->from, arguments->to)) {
    return {EX_USAGE, "--from and --to are the same directory; name a new one with --to"};
  }
  if (arguments->is_offline()) return {};
  if (arguments->server.empty() && arguments->may_be_without_server()) return {};
  if (arguments->server.empty()) {
    return {EX_USAGE, "say which server: --server=ADDRESS, or the environment variable REMORA_SERVER"};
  }
  if (absl::Status status = rdma::ParseAddress(arguments->server).status(); !status.ok()) {
    return FromStatus(status);
  }
  if (arguments->command == "drop" && !arguments->yes) {
    return {EX_USAGE, "drop deletes for good: confirm it with --yes"};
  }
  if (arguments->command == "top") {
    if (std::string why = ReadInterval(arguments); !why.empty()) return {EX_USAGE, why};
  }
  if (arguments->idle_text) {
    std::string why;
    arguments->idle = ParseTtl(*arguments->idle_text, &why);
    if (!arguments->idle) return {EX_USAGE, absl::StrFormat("--idle: %s", why)};
  }
  if (!TakesKey(arguments->command)) return {};
  if (arguments->key.size() < kMinKeySize || arguments->key.size() > kMaxKeySize) {
    return {EX_USAGE, absl::StrFormat("the key has %d bytes; a key has %d to %d", arguments->key.size(),
                                      kMinKeySize, kMaxKeySize)};
  }
  if (arguments->ttl_text) {
    std::string why;
    arguments->ttl = ParseTtl(*arguments->ttl_text, &why);
    const char* const where = arguments->command == "touch" ? "DURATION" : "--ttl";
    if (!arguments->ttl) return {EX_USAGE, absl::StrFormat("%s: %s", where, why)};
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
  CommandLine line("Does one operation on a Remora server.", "kvctl");
  line.Version(absl::StrFormat("kvctl %s, format %d", REMORA_VERSION, kFormatVersion));
  line.Footer(kExitCodes);
  line.Add("--server", arguments->server,
           "verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH")
      .Environment("REMORA_SERVER");
  line.Add("--timeout", arguments->timeout_ms, "For connecting, and for the operation, in milliseconds")
      .Range(1, 3'600'000)
      .ShowDefault();
  line.Add("--token_file", arguments->token_file,
           "Auth token, as `kvctl create_token` printed it, for a server that requires one")
      .Environment("REMORA_TOKEN_FILE")
      .TypeName("FILE");
  line.Add(
          "--tls_ca", arguments->tls.ca,
          "Over tls://, certificates of the authorities that sign the server's; without, the token has to do")
      .Environment("REMORA_TLS_CA")
      .TypeName("FILE");
  line.Add("--tls_cert", arguments->tls.cert, "This client's certificate, for a server that asks for one")
      .Environment("REMORA_TLS_CERT")
      .TypeName("FILE");
  line.Add("--tls_key", arguments->tls.key, "The key of --tls_cert")
      .Environment("REMORA_TLS_KEY")
      .TypeName("FILE");

  Command get = line.AddCommand("get", "Write the value to standard output, and nothing else");
  Command exists = line.AddCommand("exists", "Say by the exit code alone whether there is the key: 0 or 1");
  Command put = line.AddCommand("put", "Store a value, from standard input unless VALUE stands there");
  Command append = line.AddCommand("append", "Put bytes behind the value, as put; print its new size");
  Command incr = line.AddCommand("incr", "Add to the number that the value spells; print the sum");
  Command remove = line.AddCommand("delete", "Remove a key");
  Command touch = line.AddCommand("touch", "Let a key expire so long from now");
  Command persist = line.AddCommand("persist", "Let a key never expire");
  Command ttl = line.AddCommand("ttl", "Print for how long the key is there yet, as a DURATION");
  Command scan = line.AddCommand(
      "scan", "Print keys and values in the order of the keys, as KEY, tab, VALUE, on a line for each");
  Command watch = line.AddCommand(
      "watch", "Print each write as it is done, as put, tab, KEY, tab, VALUE, or delete, tab, KEY");
  Command count = line.AddCommand("count", "Print how many keys there are");
  Command drop = line.AddCommand("drop", "Delete all keys; print how many they were");
  Command export_command = line.AddCommand(
      "export", "Write all records as of one moment to standard output: JSON, one record a line");
  Command import_command =
      line.AddCommand("import", "Store the records of an export, which standard input brings");
  Command backup = line.AddCommand("backup", "Have the server make a backup; print its number");
  Command backups = line.AddCommand(
      "backups", "List backups: number, time, last version, bytes, new bytes; tabs in between");
  Command restore = line.AddCommand("restore", "Make a data directory of a backup, all of it or nothing");
  Command check =
      line.AddCommand("check", "Read all of a stopped server's data, or of a backup; print counts");
  Command ping = line.AddCommand("ping", "Ask the server for an answer and print the round-trip time");
  Command token = line.AddCommand(
      "create_token", "Print a new auth token: a line for the server's --tokens, and for its clients");
  token.Add("NAME", arguments->key, "Up to 32 letters, digits, dots, dashes and underscores")
      .Required()
      .Check(IsTokenName);
  token.Add("--role", arguments->role, "read-only or read-write")
      .IsOneOf({"read-only", "read-write"})
      .ShowDefault()
      .TypeName("ROLE");
  AddSize(line.AddCommand("size", "Print the memory that a server needs for a number of records"), arguments);
  line.AddCommand("stats", "Print the server's metrics, a name and a value on each line")
      .AddFlag("--json", arguments->json, "As one JSON object");
  line.AddCommand("config", "Print the server's settings in force: key, value, and what each comes from")
      .AddFlag("--json", arguments->json, "As a JSON array of objects");
  AddTop(line.AddCommand("top", "Show operations a second, memory and backlog, again and again"), arguments);
  AddDoctor(line.AddCommand("doctor", "Check this machine, and the server if one is named; say what to do"),
            arguments);
  for (Command command : {get, exists, put, append, incr, remove, touch, persist, ttl}) {
    command.Add("KEY", arguments->key, "1 to 4096 bytes").Required();
  }
  get.AddFlag("--version", arguments->show_version, "Write its version and a newline before the value");
  Option value =
      put.Add("VALUE", arguments->value,
              "Up to 67108864 bytes; write `put -- KEY VALUE` where one of them begins with a dash")
          .MayBeEmpty();
  Option more = append.Add("VALUE", arguments->value, "As for put").MayBeEmpty();
  incr.Add("DELTA", arguments->delta_text, "A number of 64 bits; an absent key counts as 0").ShowDefault();
  const auto add_if_version = [arguments](Command command) {
    return command.Add("--if_version", arguments->if_version, "Only if the key has this version")
        .Range(std::uint64_t{1}, kMaxVersion - 1);
  };
  for (Command command : {put, append, incr}) {
    command
        .Add("--ttl", arguments->ttl_text,
             "Let it expire so long from now; else by put: as the server's default says")
        .TypeName("DURATION");
    const Option absent =
        command.AddFlag("--if_absent", arguments->if_absent, "Only if there is no such key");
    const Option present =
        command.AddFlag("--if_present", arguments->if_present, "Only if there is such a key")
            .Excludes(absent);
    add_if_version(command).Excludes(absent).Excludes(present);
  }
  for (Command command : {remove, touch, persist}) add_if_version(command);
  for (Command command : {scan, watch, count, export_command}) {
    command.Add("--prefix", arguments->prefix, "Only of keys that begin with this; empty: of all")
        .MayBeEmpty();
  }
  // An empty one is that of a variable which is not set, and would delete all keys.
  drop.Add("--prefix", arguments->prefix, "Only keys that begin with this; not empty");
  for (Command command : {scan, watch}) {
    command.Add("--limit", arguments->limit, "Show this number at most; 0: all")
        .Range(std::uint64_t{0}, kMaxVersion)
        .ShowDefault();
    command.AddFlag("--keys_only", arguments->keys_only, "Without values");
  }
  const Option reverse = scan.AddFlag("--reverse", arguments->reverse, "From the last key to the first");
  const auto add_any_order = [arguments](Command command) {
    return command.AddFlag("--any_order", arguments->any_order,
                           "Not as of one moment: for a server that is only in memory");
  };
  add_any_order(scan).Excludes(reverse);
  add_any_order(export_command);
  watch.Add("--resume", arguments->resume_token,
            "Continue behind the line that begins with this resume token; else begin now");
  watch.AddFlag("--show_positions", arguments->show_positions,
                "Begin each line with a resume token; print one at the end, too");
  watch.Add("--idle", arguments->idle_text, "End when nothing has come for so long; else never")
      .TypeName("DURATION");
  import_command.AddFlag("--if_absent", arguments->if_absent, "Leave keys alone that are there");
  import_command.AddFlag("--skip_bad", arguments->skip_bad, "Leave out lines that are no records");
  drop.AddFlag("--yes", arguments->yes, "Yes, delete them");
  const auto directory = [](Command command, const char* flag, std::string& where, const char* help) {
    return command.Add(flag, where, help).TypeName("DIR");
  };
  Option data =
      directory(backup, "--data", arguments->data, "Without a server: the data directory of a stopped one");
  Option to = directory(backup, "--to", arguments->to, "With --data: the directory of backups");
  data.Needs(to);
  to.Needs(data);
  backup
      .Add("--keep", arguments->keep,
           "With --data: delete all but this number of the newest ones; 0: delete none")
      .Needs(data);
  directory(restore, "--to", arguments->to,
            "The data directory to be made: new, or empty, as a mount point may be")
      .Required();
  const Option checked =
      directory(check, "--data", arguments->data, "The data directory of a stopped server");
  constexpr char kFrom[] = "The directory of backups";
  directory(backups, "--from", arguments->from, kFrom).Required();
  const auto add_id = [arguments](Command command, Option from) {
    command.Add("--id", arguments->id, "The backup's number; else the newest one")
        .Range(std::uint32_t{1}, ~std::uint32_t{0})
        .Needs(from);
  };
  add_id(restore, directory(restore, "--from", arguments->from, kFrom).Required());
  const Option from = directory(check, "--from", arguments->from, kFrom).Excludes(checked);
  add_id(check, from);
  check.RequireOneOf({checked, from});
  touch.Add("DURATION", arguments->ttl_text, "See below").Required();
  ping.Add("--wait", arguments->wait_seconds, "Try for this number of seconds until a server answers")
      .Range(0, 86'400);

  if (const std::optional<int> exit_code = line.Parse(argc, argv)) return *exit_code;
  arguments->command = line.command();
  for (const char* const flag :
       {"--server", "--timeout", "--token_file", "--tls_ca", "--tls_cert", "--tls_key"}) {
    if (!arguments->is_offline() || !line.Has(flag)) continue;
    const char* const how = arguments->command == "backup" ? "backup --data" : arguments->command.c_str();
    return line.Fail(
        absl::StrFormat("%s: is for commands that ask a server, and %s asks none; leave it out", flag, how));
  }
  const bool has_tls_flag = line.Has("--tls_ca") || line.Has("--tls_cert") || line.Has("--tls_key");
  // The environment is for all addresses, and some of them have no TLS.
  if (!has_tls_flag && !arguments->server.starts_with("tls://")) arguments->tls = {};
  arguments->value_given = value.count() + more.count() > 0;
  return -1;
}

}  // namespace remora::kvctl
