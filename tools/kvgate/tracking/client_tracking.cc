#include "tools/kvgate/tracking/client_tracking.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/types/bounds.h"
#include "tools/kvgate/pubsub/change_watcher.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

// Of one client. Each change is compared with the prefixes of all clients by their sizes.
constexpr std::size_t kMaxPrefixes = 1024;

/// Returns the error; empty: none.
std::string TakeRedirect(const Call& call, std::string_view text, TrackingOptions* options) {
  if (options->redirect != 0) return "ERR A client can only redirect to a single other client";
  const std::optional<std::int64_t> id = ParseInteger(text);
  if (!id) return std::string(kNotAnInteger);
  options->redirect = *id;
  return call.services.gate.clients.Has(*id) ? "" : "ERR The client ID you want redirect to does not exist";
}

std::string ParseWish(const Call& call, TrackingWish* wish) {
  TrackingOptions& options = wish->options;
  for (std::size_t i = 3; i < call.request.size(); ++i) {
    const std::string_view word = call.argument(i);
    const bool has_more = i + 1 < call.request.size();
    if (IsWord(word, "REDIRECT") && has_more) {
      if (std::string error = TakeRedirect(call, call.argument(++i), &options); !error.empty()) return error;
    } else if (IsWord(word, "PREFIX") && has_more) {
      wish->prefixes.emplace_back(call.argument(++i));
    } else if (IsWord(word, "BCAST")) {
      options.has_broadcast = true;
    } else if (IsWord(word, "OPTIN")) {
      options.has_optin = true;
    } else if (IsWord(word, "OPTOUT")) {
      options.has_optout = true;
    } else if (IsWord(word, "NOLOOP")) {
      options.has_noloop = true;
    } else {
      return std::string(kSyntaxError);
    }
  }
  return "";
}

bool Overlap(std::string_view one, std::string_view other) {
  return one.starts_with(other) || other.starts_with(one);
}

std::string OverlapError(std::string_view prefix, std::string_view relation, std::string_view other) {
  return absl::StrCat("ERR Prefix '", AbslView(prefix), "' overlaps with ", AbslView(relation), " prefix '",
                      AbslView(other), "'. Prefixes for a single client must not overlap.");
}

/// Returns the error of prefixes that overlap, or are too many; empty: none.
std::string CheckPrefixes(const std::vector<std::string>& prefixes, const Tracking* now) {
  if (prefixes.size() + (now == nullptr ? 0 : now->prefixes().size()) > kMaxPrefixes) {
    return absl::StrCat("ERR a client tracks up to ", kMaxPrefixes, " prefixes; use fewer and shorter ones");
  }
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    if (prefixes[i].size() > kMaxKeySize) {
      return absl::StrCat("ERR a prefix has up to ", kMaxKeySize, " bytes, as a key has; use a shorter one");
    }
    if (now != nullptr) {
      for (const std::string& other : now->prefixes()) {
        if (Overlap(prefixes[i], other)) return OverlapError(prefixes[i], "an existing", other);
      }
    }
    for (std::size_t j = i + 1; j < prefixes.size(); ++j) {
      if (Overlap(prefixes[i], prefixes[j])) {
        return OverlapError(prefixes[i], "another provided", prefixes[j]);
      }
    }
  }
  return "";
}

/// Returns the error of options that do not go together; empty: none.
std::string CheckWish(const TrackingWish& wish, const Tracking* now) {
  const TrackingOptions& options = wish.options;
  if (!options.has_broadcast && !wish.prefixes.empty()) {
    return "ERR PREFIX option requires BCAST mode to be enabled";
  }
  if (now != nullptr && now->options.has_broadcast != options.has_broadcast) {
    return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then "
           "re-enabling it with a different mode.";
  }
  if (options.has_broadcast && (options.has_optin || options.has_optout)) {
    return "ERR OPTIN and OPTOUT are not compatible with BCAST";
  }
  if (options.has_optin && options.has_optout) {
    return "ERR You can't specify both OPTIN mode and OPTOUT mode";
  }
  if (now != nullptr &&
      ((options.has_optin && now->options.has_optout) || (options.has_optout && now->options.has_optin))) {
    return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then "
           "re-enabling it with a different mode.";
  }
  return options.has_broadcast ? CheckPrefixes(wish.prefixes, now) : "";
}

/// Returns once the watch of the changes has begun, which goes on while the table has a client.
Task<absl::Status> AwaitWatch(Call& call) {
  ChangeWatchers& watchers = *call.services.gate.watchers;
  const auto timeout = call.services.gate.options.client.timeout;
  const auto begun = co_await call.services.blocking.Run<bool>(
      [&watchers, timeout](ClusterClient& client) -> absl::StatusOr<bool> {
        REMORA_RETURN_IF_ERROR(ChangeWatchers::CanWatch(client));
        watchers.Update();
        return watchers.AwaitBegin(timeout);
      });
  if (!begun.ok()) co_return begun.status();
  if (!*begun) co_return absl::UnavailableError("watch: it has not begun in time; try again");
  co_return absl::OkStatus();
}

void Apply(Session& session, const TrackingWish& wish) {
  Tracking& tracking = *session.tracking;
  tracking.options = wish.options;
  tracking.is_broken = false;
  if (wish.options.has_broadcast && wish.prefixes.empty()) tracking.AddPrefix("");
  for (const std::string& prefix : wish.prefixes) tracking.AddPrefix(prefix);
  ClientRecord& record = *session.record;
  record.redirect = wish.options.redirect;
  record.has_broadcast = wish.options.has_broadcast;
  record.is_redirect_broken = false;
}

}  // namespace

Task<void> ClientTracking(Call& call) {
  TrackingWish wish;
  if (const std::string error = ParseWish(call, &wish); !error.empty()) co_return call.reply.Error(error);
  Session& session = call.session;
  GateState& gate = call.services.gate;
  if (IsWord(call.argument(2), "OFF")) {
    EndTracking(session, gate);
    co_return call.reply.Ok();
  }
  if (!IsWord(call.argument(2), "ON")) co_return call.reply.Error(kSyntaxError);
  if (const std::string error = CheckWish(wish, session.tracking.get()); !error.empty()) {
    co_return call.reply.Error(error);
  }
  if (session.tracking == nullptr) {
    auto tracking = std::make_unique<Tracking>(gate.tracking, session.record->id,
                                               session.subscriptions->shared_mailbox());
    if (const absl::Status status = co_await AwaitWatch(call); !status.ok()) {
      tracking.reset();
      gate.watchers->Update();
      co_return call.reply.Error(absl::StrCat(
          "ERR CLIENT TRACKING: the server does not show its changes, so there are no invalidations: ",
          status.message()));
    }
    session.tracking = std::move(tracking);
  }
  Apply(session, wish);
  call.reply.Ok();
}

void EndTracking(Session& session, GateState& gate) {
  if (session.tracking == nullptr) return;
  session.tracking.reset();
  session.record->redirect = -1;
  session.record->has_broadcast = session.record->is_redirect_broken = false;
  gate.watchers->Update();
}

void ClientCaching(Call& call) {
  Tracking* const tracking = call.session.tracking.get();
  if (tracking == nullptr) {
    return call.reply.Error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
        "enabled");
  }
  const bool is_yes = IsWord(call.argument(2), "YES");
  if (!is_yes && !IsWord(call.argument(2), "NO")) return call.reply.Error(kSyntaxError);
  if (is_yes && !tracking->options.has_optin) {
    return call.reply.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
  }
  if (!is_yes && !tracking->options.has_optout) {
    return call.reply.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
  }
  tracking->has_caching = true;
  call.reply.Ok();
}

void ClientGetRedirect(Call& call) {
  call.reply.Integer(call.session.tracking == nullptr ? -1 : call.session.tracking->options.redirect);
}

void ClientTrackingInfo(Call& call) {
  const Tracking* const tracking = call.session.tracking.get();
  std::vector<std::string_view> flags;
  if (tracking == nullptr) {
    flags.emplace_back("off");
  } else {
    const TrackingOptions& options = tracking->options;
    flags.emplace_back("on");
    if (options.has_broadcast) flags.emplace_back("bcast");
    if (options.has_optin) flags.emplace_back("optin");
    if (options.has_optin && tracking->has_caching) flags.emplace_back("caching-yes");
    if (options.has_optout) flags.emplace_back("optout");
    if (options.has_optout && tracking->has_caching) flags.emplace_back("caching-no");
    if (options.has_noloop) flags.emplace_back("noloop");
    if (tracking->is_broken) flags.emplace_back("broken_redirect");
  }
  Reply& reply = call.reply;
  reply.Map(3);
  reply.Bulk("flags");
  reply.Set(flags.size());
  for (const std::string_view flag : flags) reply.Bulk(flag);
  reply.Bulk("redirect");
  ClientGetRedirect(call);
  reply.Bulk("prefixes");
  reply.Array(tracking == nullptr ? 0 : tracking->prefixes().size());
  if (tracking == nullptr) return;
  for (const std::string& prefix : tracking->prefixes()) reply.Bulk(prefix);
}

// --- Keys -----------------------------------------------------------------------------------------------

void RegisterKeys(Tracking& tracking, const Command& command, const Request& request) {
  if ((command.flags & kFlagReadonly) == 0 || command.first_key == 0) return;
  const auto size = static_cast<int>(request.size());
  const int last = command.last_key < 0 ? size + command.last_key : command.last_key;
  for (int i = command.first_key; i <= last && i < size; i += command.key_step) {
    const std::string_view key = request[static_cast<std::size_t>(i)];
    // A key that no store has never changes.
    if (IsKey(key)) tracking.Register(key);
  }
}

void RegisterQueue(Session& session, const CommandQueue& queue) {
  Tracking* const tracking = session.tracking.get();
  if (tracking == nullptr || tracking->options.has_broadcast) return;
  bool takes_keys = tracking->takes_keys();
  for (const QueuedCommand& queued : queue.commands) {
    takes_keys |= std::string_view(queued.command->name) == "client";
  }
  if (!takes_keys) return;
  for (const QueuedCommand& queued : queue.commands) {
    RegisterKeys(*tracking, *queued.command, queued.request);
  }
}

void EndCaching(const Call& call) {
  Tracking* const tracking = call.session.tracking.get();
  if (tracking == nullptr || call.session.transaction.queue) return;
  if (call.command == nullptr || std::string_view(call.command->name) != "client") {
    tracking->has_caching = false;
  }
}

}  // namespace remora::kvgate
