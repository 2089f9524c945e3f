// The commands of the gate: their names, the sizes of their requests, and the functions that run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "client/coroutine_client.h"
#include "tools/kvgate/call.h"

namespace remora::kvgate {

/// How a command of a connection may run beside others of the same connection. Replies keep the order of the
/// requests in any case.
///   kLocal: beside all but kExclusive, at once; it does not touch the store.
///   kRead: together with other reads. Its outcome does not depend on their order.
///   kWrite: together with other writes. It begins all its writes at once, so the store does them in the
///     order of the requests (client/async_client.h).
///   kExclusive: alone, as it reads and then writes.
enum class Order : std::uint8_t { kLocal = 1, kRead = 2, kWrite = 3, kExclusive = 4 };

/// Flags of COMMAND INFO, as Redis names them.
enum CommandFlag : unsigned {
  kFlagWrite = 1,
  kFlagReadonly = 2,
  kFlagDenyOom = 4,
  kFlagFast = 8,
  kFlagLoading = 16,
  kFlagStale = 32,
  kFlagNoMulti = 64,   // not in a transaction
  kFlagNoAuth = 256,   // also before the client has shown a token
  kRunsInMulti = 128,  // at once, instead of being queued; COMMAND INFO does not show it
  kFlagPubsub = 512,
  kFlagNoScript = 1024,
  kRunsSubscribed = 2048,  // in RESP2, also while the client is a subscriber; COMMAND INFO does not show it
};

inline constexpr unsigned kReadFlags = kFlagReadonly | kFlagFast;
inline constexpr unsigned kWriteFlags = kFlagWrite | kFlagDenyOom | kFlagFast;
inline constexpr unsigned kAlwaysFlags = kFlagLoading | kFlagStale;

struct Command {
  const char* name;  // in lower case
  int arity;         // of the request, with the name; negative: at least so many
  Order order;
  unsigned flags;
  // Places of the keys: the first, the last (negative: from the end), and the step. 0: none.
  int first_key;
  int last_key;
  int key_step;
  const char* group;                            // of COMMAND DOCS
  const char* summary;                          // of COMMAND DOCS
  void (*run)(Call&);                           // kLocal, and such in a transaction; else null
  Task<void> (*begin)(Call&);                   // others; else null
  Order (*order_of)(const Request&) = nullptr;  // where it depends on the options
};

/// Returns all commands, in the order of their names.
std::span<const Command> Commands();
/// Returns the command, whose name may have upper case, or null.
const Command* FindCommand(std::string_view name);

/// `arity`: the number of words of a request; negative: at least so many.
inline bool FitsArity(int arity, std::size_t words) {
  const int count = static_cast<int>(words);
  return arity >= 0 ? count == arity : count >= -arity;
}
inline bool FitsArity(const Command& command, std::size_t words) { return FitsArity(command.arity, words); }
inline Order OrderOf(const Command& command, const Request& request) {
  return command.order_of != nullptr ? command.order_of(request) : command.order;
}

/// Returns whether the words are the same but for upper and lower case of ASCII.
bool IsWord(std::string_view argument, std::string_view word);

// --- Errors that several commands have ------------------------------------------------------------------

/// Returns the text for a command that does not exist, with its first arguments.
std::string UnknownCommand(const Request& request);
/// `name`: of the command, or `command|subcommand`.
std::string WrongArity(std::string_view name);
/// Returns the error of a user for reading alone.
std::string NoPermission(std::string_view name);
std::string UnknownSubcommand(std::string_view subcommand, std::string_view command);

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kTooLargeString =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

}  // namespace remora::kvgate
