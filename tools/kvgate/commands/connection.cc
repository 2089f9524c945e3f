// Commands of a connection.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/client_kill.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/commands/redis_version.h"
#include "tools/kvgate/commands/subcommands.h"
#include "tools/kvgate/resp/number_text.h"
#include "tools/kvgate/tracking/client_tracking.h"

namespace remora::kvgate {
namespace {

void Ping(Call& call) {
  if (call.request.size() > 2) return call.reply.Error(WrongArity("ping"));
  if (call.session.is_for_messages()) {
    call.reply.Array(2);
    call.reply.Bulk("pong");
    return call.reply.Bulk(call.request.size() == 1 ? "" : call.argument(1));
  }
  call.request.size() == 1 ? call.reply.Simple("PONG") : call.reply.Bulk(call.argument(1));
}

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

void Echo(Call& call) { call.reply.Bulk(call.argument(1)); }

void Select(Call& call) {
  const std::optional<std::int64_t> database = ParseInteger(call.argument(1));
  if (!database) return call.reply.Error(kNotAnInteger);
  if (*database == 0) return call.reply.Ok();
  call.reply.Error(call.services.gate.options.cluster ? "ERR SELECT is not allowed in cluster mode"
                                                      : "ERR DB index is out of range");
}

void Quit(Call& call) {
  call.reply.Ok();
  call.session.closes = true;
}

void NameClient(Call& call, std::string ClientRecord::*name, std::string_view text) {
  call.services.gate.clients.Rename(name, call.session.record.get(), std::string(text));
}

void SetProtocol(Call& call, int protocol) {
  call.session.protocol = protocol;
  call.session.record->protocol = protocol;
  call.reply.set_protocol(protocol);
}

void SetUser(Call& call, User user) {
  NameClient(call, &ClientRecord::user, user.name);
  call.session.user = std::move(user);
}

void Auth(Call& call) {
  if (call.request.size() > 3) return call.reply.Error(kSyntaxError);
  const Users& users = call.services.gate.options.users;
  const bool has_name = call.request.size() == 3;
  if (!has_name && !users.are_required()) {
    return call.reply.Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  std::optional<User> user =
      users.Find(has_name ? std::optional(call.argument(1)) : std::nullopt, call.argument(has_name ? 2 : 1));
  if (!user) return call.reply.Error(kWrongPassword);
  SetUser(call, *std::move(user));
  call.reply.Ok();
}

void Reset(Call& call) {
  SetProtocol(call, 2);
  NameClient(call, &ClientRecord::user, "default");
  call.session.user = call.services.gate.options.users.OfNewClient();
  NameClient(call, &ClientRecord::name, "");
  call.session.transaction.Reset();
  EndTracking(call.session, call.services.gate);
  if (!call.session.subscriptions->empty()) {
    call.session.subscriptions->Reset();
    ClientRecord& record = *call.session.record;
    record.channels = record.patterns = record.shard_channels = 0;
    call.services.gate.watchers->Update();
  }
  call.session.replies = true;
  call.session.skips_next_reply = false;
  call.is_silent = false;
  call.reply.Simple("RESET");
}

/// Returns whether the text has printable characters other than blanks alone, as Redis wants a name.
bool IsName(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '!' && c <= '~'; });
}

constexpr std::string_view kBadName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// --- HELLO ----------------------------------------------------------------------------------------------

void Hello(Call& call) {
  std::optional<std::int64_t> protocol;
  if (call.request.size() > 1) {
    protocol = ParseInteger(call.argument(1));
    if (!protocol) return call.reply.Error("ERR Protocol version is not an integer or out of range");
    if (*protocol != 2 && *protocol != 3) return call.reply.Error("NOPROTO unsupported protocol version");
  }
  std::optional<std::string_view> name;
  std::optional<User> user = call.session.user;
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    const std::size_t behind = call.request.size() - 1 - i;
    if (IsWord(call.argument(i), "AUTH") && behind >= 2) {
      user = call.services.gate.options.users.Find(call.argument(i + 1), call.argument(i + 2));
      if (!user) return call.reply.Error(kWrongPassword);
      i += 2;
      continue;
    }
    if (!IsWord(call.argument(i), "SETNAME") || behind < 1) {
      return call.reply.Error(
          absl::StrCat("ERR Syntax error in HELLO option '", AbslView(call.argument(i)), "'"));
    }
    name = call.argument(++i);
    if (!IsName(*name)) return call.reply.Error(kBadName);
  }
  if (!user) {
    return call.reply.Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> "
        "<pass> "
        "option can be used to authenticate the client and select the RESP protocol version at the same "
        "time");
  }
  SetUser(call, *std::move(user));
  if (name) NameClient(call, &ClientRecord::name, *name);
  if (protocol) SetProtocol(call, static_cast<int>(*protocol));
  Reply& reply = call.reply;
  reply.Map(7);
  reply.Bulk("server");
  reply.Bulk("redis");
  reply.Bulk("version");
  reply.Bulk(kRedisVersion);
  reply.Bulk("proto");
  reply.Integer(call.session.protocol);
  reply.Bulk("id");
  reply.Integer(call.session.record->id);
  reply.Bulk("mode");
  reply.Bulk(call.services.gate.options.mode());
  reply.Bulk("role");
  reply.Bulk("master");
  reply.Bulk("modules");
  reply.Array(0);
}

// --- CLIENT ---------------------------------------------------------------------------------------------

/// Returns the letters of Redis.
std::string FlagsOf(const ClientRecord& client) {
  std::string flags;
  if (client.is_subscriber()) flags += 'P';
  if (client.redirect >= 0) flags += 't';
  if (client.is_redirect_broken) flags += 'R';
  if (client.has_broadcast) flags += 'B';
  return flags.empty() ? "N" : flags;
}

std::string Describe(const ClientRecord& client, std::int64_t now_ms) {
  return absl::StrFormat(
      "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=-1 "
      "cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s\n",
      client.id, client.address, client.local_address, client.fd, client.name,
      (now_ms - client.connected_ms) / 1000, (now_ms - client.active_ms) / 1000, FlagsOf(client),
      client.channels.load(), client.patterns.load(), client.shard_channels.load(), client.command.load(),
      client.user, client.redirect.load(), client.protocol.load(), client.library, client.library_version);
}

void ClientInfo(Call& call) {
  const std::int64_t now_ms = call.services.clock.UnixMillis();
  std::string text;
  call.services.gate.clients.ForEach([&](const ClientRecord& client) {
    if (client.id == call.session.record->id) text = Describe(client, now_ms);
  });
  call.reply.Verbatim(text);
}

void ClientList(Call& call) {
  std::optional<std::set<std::int64_t>> wanted;
  std::optional<std::string_view> type;
  if (call.request.size() == 4 && IsWord(call.argument(2), "TYPE")) {
    type = call.argument(3);
    if (!IsClientType(*type)) {
      return call.reply.Error(absl::StrCat("ERR Unknown client type '", AbslView(*type), "'"));
    }
  } else if (call.request.size() > 3 && IsWord(call.argument(2), "ID")) {
    wanted.emplace();
    for (std::size_t i = 3; i < call.request.size(); ++i) {
      const std::optional<std::int64_t> id = ParseInteger(call.argument(i));
      if (!id) return call.reply.Error("ERR Invalid client ID");
      wanted->insert(*id);
    }
  } else if (call.request.size() != 2) {
    return call.reply.Error(kSyntaxError);
  }
  const std::int64_t now_ms = call.services.clock.UnixMillis();
  std::string text;
  call.services.gate.clients.ForEach([&](const ClientRecord& client) {
    if (type && !IsWord(*type, client.type())) return;
    if (!wanted || wanted->contains(client.id)) text += Describe(client, now_ms);
  });
  call.reply.Verbatim(text);
}

void ClientReply(Call& call) {
  if (call.is_within_transaction()) {
    return call.reply.Error("ERR CLIENT REPLY is not allowed inside a transaction");
  }
  const std::string_view mode = call.argument(2);
  Session& session = call.session;
  if (IsWord(mode, "ON")) {
    session.replies = true;
    call.is_silent = false;
    call.reply.Ok();
  } else if (IsWord(mode, "OFF")) {
    session.replies = false;
    call.is_silent = true;
  } else if (IsWord(mode, "SKIP")) {
    if (session.replies) session.skips_next_reply = true;
    call.is_silent = true;
  } else {
    call.reply.Error(kSyntaxError);
  }
}

void ClientSetName(Call& call) {
  if (!IsName(call.argument(2))) return call.reply.Error(kBadName);
  NameClient(call, &ClientRecord::name, call.argument(2));
  call.reply.Ok();
}

void ClientGetName(Call& call) {
  // This thread alone changes it.
  const std::string& name = call.session.record->name;
  name.empty() ? call.reply.Null() : call.reply.Bulk(name);
}

void ClientSetInfo(Call& call) {
  const std::string_view option = call.argument(2);
  const bool is_name = IsWord(option, "LIB-NAME");
  if (!is_name && !IsWord(option, "LIB-VER")) {
    return call.reply.Error(absl::StrCat("ERR Unrecognized option '", AbslView(option), "'"));
  }
  if (!IsName(call.argument(3))) {
    return call.reply.Error(absl::StrCat("ERR ", is_name ? "lib-name" : "lib-ver",
                                         " cannot contain spaces, newlines or special characters."));
  }
  NameClient(call, is_name ? &ClientRecord::library : &ClientRecord::library_version, call.argument(3));
  call.reply.Ok();
}

/// The gate ends no client to save memory.
void ClientNoEvict(Call& call) {
  const bool is_mode = IsWord(call.argument(2), "ON") || IsWord(call.argument(2), "OFF");
  is_mode ? call.reply.Ok() : call.reply.Error(kSyntaxError);
}

/// Only a transaction gets here.
void RejectTracking(Call& call) {
  call.reply.Error("ERR CLIENT TRACKING is not allowed inside a transaction");
}

void ClientId(Call& call) { call.reply.Integer(call.session.record->id); }

bool IsTracking(const Request& request) { return request.size() > 2 && IsWord(request[1], "TRACKING"); }

/// CLIENT TRACKING waits for the server.
Order OrderOfClient(const Request& request) {
  return IsTracking(request) ? Order::kExclusive : Order::kLocal;
}

void RunClient(Call& call) {
  if (RepliedHelp(call)) return;
  constexpr Subcommand kSubcommands[] = {
      {"caching", 3, ClientCaching},
      {"getredir", 2, ClientGetRedirect},
      {"getname", 2, ClientGetName},
      {"id", 2, ClientId},
      {"info", 2, ClientInfo},
      {"kill", -3, ClientKill},
      {"no-evict", 3, ClientNoEvict},
      {"list", -2, ClientList},
      {"reply", 3, ClientReply},
      {"setinfo", 4, ClientSetInfo},
      {"setname", 3, ClientSetName},
      {"tracking", -3, RejectTracking},
      {"trackinginfo", 2, ClientTrackingInfo},
  };
  if (const Subcommand* const found = FindSubcommand(call, kSubcommands)) found->run(call);
}

constexpr Command kConnectionCommands[] = {
    {"auth", -2, Order::kLocal, kAlwaysFlags | kFlagFast | kFlagNoAuth, 0, 0, 0, "connection",
     "Shows a token of the gate", Auth, nullptr},
    {"client", -2, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "connection",
     "Shows and names connections, and tracks keys", RunClient, ClientTracking, OrderOfClient},
    {"echo", 2, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "connection", "Returns its argument", Echo,
     nullptr},
    {"hello", -1, Order::kLocal, kAlwaysFlags | kFlagFast | kFlagNoAuth, 0, 0, 0, "connection",
     "Sets the version of the protocol", Hello, nullptr},
    {"ping", -1, Order::kLocal, kAlwaysFlags | kFlagFast | kRunsSubscribed, 0, 0, 0, "connection",
     "Returns PONG, or its argument", Ping, nullptr},
    {"quit", -1, Order::kLocal, kAlwaysFlags | kFlagFast | kFlagNoAuth | kRunsInMulti | kRunsSubscribed, 0, 0,
     0, "connection", "Ends the connection", Quit, nullptr},
    {"reset", 1, Order::kLocal, kAlwaysFlags | kFlagFast | kFlagNoAuth | kRunsInMulti | kRunsSubscribed, 0, 0,
     0, "connection", "Makes the connection as new", Reset, nullptr},
    {"select", 2, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "connection",
     "Selects the only database, 0", Select, nullptr},
};

}  // namespace

std::span<const Command> ConnectionCommands() { return kConnectionCommands; }

}  // namespace remora::kvgate
