#include "tools/kvgate/network/admission.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/commands/help.h"

namespace remora::kvgate {
namespace {

/// Returns whether a user for reading alone may not run it.
bool ChangesSomething(const Call& call) {
  if ((call.command->flags & kFlagWrite) != 0) return true;
  const std::string_view name = call.command->name;
  if (name == "publish" || name == "spublish") return true;
  return call.request.size() > 1 && ((name == "config" && IsWord(call.argument(1), "SET")) ||
                                     (name == "client" && IsWord(call.argument(1), "KILL")));
}

/// Returns the name of the command, with that of the subcommand if it has some.
std::string FullName(const Call& call) {
  std::string name = call.command->name;
  if (!HasSubcommands(*call.command) || call.request.size() < 2) return name;
  return absl::StrCat(name, "|", absl::AsciiStrToLower(AbslView(call.argument(1))));
}

}  // namespace

bool IsOfHttp(const Request& request) {
  return request.size() > 0 && (IsWord(request[0], "POST") || IsWord(request[0], "HOST:"));
}

std::string Rejection(const Call& call) {
  if (call.command == nullptr) return UnknownCommand(call.request);
  if (!FitsArity(*call.command, call.request.size())) return WrongArity(call.command->name);
  const unsigned flags = call.command->flags;
  const std::optional<User>& user = call.session.user;
  if (!user && (flags & kFlagNoAuth) == 0) return "NOAUTH Authentication required.";
  if (user && user->is_read_only && ChangesSomething(call)) return NoPermission(call.command->name);
  if (call.session.is_for_messages() && (flags & kRunsSubscribed) == 0) {
    return absl::StrCat("ERR Can't execute '", FullName(call),
                        "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
                        "context");
  }
  const bool is_barred = IsQueued(call) && (flags & kFlagNoMulti) != 0;
  return is_barred ? "ERR Command not allowed inside a transaction" : "";
}

void Reject(Call& call, std::string_view rejection) {
  Transaction& transaction = call.session.transaction;
  if (call.command != nullptr && std::string_view(call.command->name) == "exec") {
    transaction.Reset();
    constexpr std::string_view kPlain = "ERR ";
    if (rejection.starts_with(kPlain)) rejection.remove_prefix(kPlain.size());
    return call.reply.Error(
        absl::StrCat("EXECABORT Transaction discarded because of: ", AbslView(rejection)));
  }
  if (transaction.queue) transaction.queue->Abort();
  call.reply.Error(rejection);
}

bool IsQueued(const Call& call) {
  return call.session.transaction.queue && call.command != nullptr &&
         (call.command->flags & kRunsInMulti) == 0;
}

Order OrderOfCall(const Call& call) {
  return call.command == nullptr || IsQueued(call) ? Order::kLocal : OrderOf(*call.command, call.request);
}

void Enqueue(Call& call) {
  if (call.session.transaction.queue->Add(*call.command, std::move(call.request))) {
    call.reply.Simple("QUEUED");
  } else {
    call.reply.Error(
        "ERR the transaction is too large: up to 65536 commands and 65 MiB, 256 MiB of all clients of the "
        "gate");
  }
  call.request.Clear();
}
static_assert(CommandQueue::kMaxCommands == 65536 && CommandQueue::kMaxBytes >> 20 == 65 &&
                  CommandQueue::kMaxSum >> 20 == 256,
              "the error names them");

}  // namespace remora::kvgate
