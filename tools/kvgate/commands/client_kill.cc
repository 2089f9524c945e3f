#include "tools/kvgate/commands/client_kill.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

/// Which clients to end. An unset filter fits all.
struct KillFilter {
  std::optional<std::int64_t> id{};
  std::optional<std::string_view> address{};
  std::optional<std::string_view> local_address{};
  std::optional<std::string_view> user{};
  std::optional<std::string_view> type{};
  bool skips_me = true;

  bool Fits(const ClientRecord& client) const {
    return (!type || IsWord(*type, client.type())) && (!id || *id == client.id) &&
           (!address || *address == client.address) &&
           (!local_address || *local_address == client.local_address) && (!user || *user == client.user);
  }
};

/// Returns false after an error, which it sets.
bool TakeFilter(Call& call, std::string_view name, std::string_view value, KillFilter* filter) {
  if (IsWord(name, "ID")) {
    filter->id = ParseInteger(value);
    if (filter->id && *filter->id > 0) return true;
    call.reply.Error("ERR client-id should be greater than 0");
    return false;
  }
  if (IsWord(name, "TYPE")) {
    filter->type = value;
    if (IsClientType(value)) return true;
    call.reply.Error(absl::StrCat("ERR Unknown client type '", AbslView(value), "'"));
    return false;
  }
  const bool is_yes = IsWord(value, "yes");
  if (IsWord(name, "ADDR")) {
    filter->address = value;
  } else if (IsWord(name, "LADDR")) {
    filter->local_address = value;
  } else if (IsWord(name, "USER")) {
    filter->user = value;
    if (call.services.gate.options.users.Has(value)) return true;
    call.reply.Error(absl::StrCat("ERR No such user '", AbslView(value), "'"));
    return false;
  } else if (IsWord(name, "SKIPME") && (is_yes || IsWord(value, "no"))) {
    filter->skips_me = is_yes;
  } else {
    call.reply.Error(kSyntaxError);
    return false;
  }
  return true;
}

/// Ends the clients. Returns how many.
std::int64_t Kill(Call& call, const KillFilter& filter) {
  const std::int64_t me = call.session.record->id;
  std::int64_t count = 0;
  call.services.gate.clients.ShutDown([&](const ClientRecord& client) {
    if (!filter.Fits(client) || (client.id == me && filter.skips_me)) return false;
    ++count;
    if (client.id == me) call.session.closes = true;  // behind the reply
    return client.id != me;
  });
  return count;
}

}  // namespace

bool IsClientType(std::string_view text) {
  return IsWord(text, "normal") || IsWord(text, "master") || IsWord(text, "replica") ||
         IsWord(text, "slave") || IsWord(text, "pubsub");
}

void ClientKill(Call& call) {
  KillFilter filter;
  if (call.request.size() == 3) {
    filter.address = call.argument(2);
    filter.skips_me = false;
    return Kill(call, filter) > 0 ? call.reply.Ok() : call.reply.Error("ERR No such client");
  }
  for (std::size_t i = 2; i < call.request.size(); i += 2) {
    if (i + 1 == call.request.size()) return call.reply.Error(kSyntaxError);
    if (!TakeFilter(call, call.argument(i), call.argument(i + 1), &filter)) return;
  }
  call.reply.Integer(Kill(call, filter));
}

}  // namespace remora::kvgate
