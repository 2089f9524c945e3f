// Commands of channels.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/cluster/redis_slot.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/pubsub/change_watcher.h"
#include "tools/kvgate/pubsub/subscriptions.h"

namespace remora::kvgate {
namespace {

constexpr std::string_view kTooManyNames =
    "ERR a connection subscribes to up to 4096 channels and patterns, of up to 8192 bytes each and 1048576 "
    "bytes together; unsubscribe from others, or use another connection";
static_assert(Subscriptions::kMostNames == 4096 && Subscriptions::kLongestName == 8192 &&
                  Subscriptions::kMostNameBytes == 1048576,
              "the error names them");

void ShowCounts(Call& call) {
  const Subscriptions& subscriptions = *call.session.subscriptions;
  call.session.record->channels = static_cast<int>(subscriptions.names(NameKind::kChannel).size());
  call.session.record->patterns = static_cast<int>(subscriptions.names(NameKind::kPattern).size());
  call.session.record->shard_channels = static_cast<int>(subscriptions.names(NameKind::kShardChannel).size());
}

/// Adds what confirms a command for one name. Channels of shards are counted apart.
void Confirm(Call& call, NameKind kind, std::string_view word, std::optional<std::string_view> name) {
  call.is_silent = false;  // as in Redis: CLIENT REPLY does not hold for messages
  call.reply.Push(3);
  call.reply.Bulk(word);
  name ? call.reply.Bulk(*name) : call.reply.Null();
  const std::size_t of_shards = call.session.subscriptions->names(NameKind::kShardChannel).size();
  const bool is_of_shard = kind == NameKind::kShardChannel;
  const std::size_t count = is_of_shard ? of_shards : call.session.subscriptions->size() - of_shards;
  call.reply.Integer(static_cast<std::int64_t>(count));
}

/// Adds the messages that came before: none comes behind the reply that ends a subscription.
void AddMail(Call& call) {
  Mailbox& mailbox = call.session.subscriptions->mailbox();
  while (std::optional<Delivery> delivery = mailbox.Take()) {
    if (delivery->kind == DeliveryKind::kInvalidation) {
      call.invalidations.push_back(*std::move(delivery));
    } else {
      AppendDelivery(*delivery, &call.reply);
    }
  }
}

/// Subscribes. Behind the reply, all changes have their notifications, unless the server is away.
Task<void> SubscribeTo(Call& call, NameKind kind, std::string_view word) {
  Subscriptions& subscriptions = *call.session.subscriptions;
  bool is_of_keys = false;
  for (std::size_t i = 1; i < call.request.size(); ++i) {
    const std::string_view name = call.argument(i);
    if (!subscriptions.Subscribe(kind, name)) {
      call.is_silent = false;
      call.reply.Error(kTooManyNames);
      break;
    }
    is_of_keys |= MayBeginWith(kind, name, kKeyspacePrefix) || MayBeginWith(kind, name, kKeyeventPrefix);
    Confirm(call, kind, word, name);
  }
  ShowCounts(call);
  if (!is_of_keys) co_return;
  ChangeWatchers& watchers = *call.services.gate.watchers;
  watchers.Update();
  if (watchers.flags().empty()) co_return;
  const auto timeout = call.services.gate.options.client.timeout;
  // Without the server, the subscription holds all the same.
  const auto begun = co_await call.services.blocking.Run<bool>([&watchers, timeout](ClusterClient&) {
    watchers.AwaitBegin(timeout);
    return true;
  });
  static_cast<void>(begun);
}

Task<void> UnsubscribeFrom(Call& call, NameKind kind, std::string_view word) {
  Subscriptions& subscriptions = *call.session.subscriptions;
  std::vector<std::string> names;
  for (std::size_t i = 1; i < call.request.size(); ++i) names.emplace_back(call.argument(i));
  if (names.empty()) names.assign(subscriptions.names(kind).begin(), subscriptions.names(kind).end());
  if (names.empty()) Confirm(call, kind, word, std::nullopt);
  for (const std::string& name : names) {
    subscriptions.Unsubscribe(kind, name);
    AddMail(call);
    Confirm(call, kind, word, name);
  }
  ShowCounts(call);
  call.services.gate.watchers->Update();
  co_return;
}

Task<void> Subscribe(Call& call) { return SubscribeTo(call, NameKind::kChannel, "subscribe"); }
Task<void> PSubscribe(Call& call) { return SubscribeTo(call, NameKind::kPattern, "psubscribe"); }
Task<void> Unsubscribe(Call& call) { return UnsubscribeFrom(call, NameKind::kChannel, "unsubscribe"); }
Task<void> PUnsubscribe(Call& call) { return UnsubscribeFrom(call, NameKind::kPattern, "punsubscribe"); }

void Publish(Call& call) {
  const std::size_t count = call.services.gate.hub.Publish(call.argument(1), call.argument(2));
  call.reply.Integer(static_cast<std::int64_t>(count));
}

// --- Channels of shards ---------------------------------------------------------------------------------

/// Returns the error for channels of another node, or of several; empty: they are of this gate. All clients
/// of a channel meet at the node of its slot, so the gates need no link.
std::string Redirection(const Call& call, std::size_t channels) {
  const std::optional<RedisCluster>& cluster = call.services.gate.options.cluster;
  if (!cluster || channels == 0) return "";
  const std::uint32_t slot = RedisSlotOf(call.argument(1));
  for (std::size_t i = 2; i <= channels; ++i) {
    if (RedisSlotOf(call.argument(i)) != slot) return kCrossSlot;
  }
  if (cluster->IsOwn(call.argument(1))) return "";
  const ClusterNode& node = cluster->NodeOf(slot);
  return absl::StrCat("MOVED ", slot, " ", node.host, ":", node.port);
}

Task<void> SSubscribe(Call& call) {
  const std::string error = Redirection(call, call.request.size() - 1);
  if (!error.empty()) co_return call.reply.Error(error);
  co_await SubscribeTo(call, NameKind::kShardChannel, "ssubscribe");
}

Task<void> SUnsubscribe(Call& call) {
  const std::string error = Redirection(call, call.request.size() - 1);
  if (!error.empty()) co_return call.reply.Error(error);
  co_await UnsubscribeFrom(call, NameKind::kShardChannel, "sunsubscribe");
}

void SPublish(Call& call) {
  const std::string error = Redirection(call, 1);
  if (!error.empty()) return call.reply.Error(error);
  const std::size_t count = call.services.gate.hub.PublishInShard(call.argument(1), call.argument(2));
  call.reply.Integer(static_cast<std::int64_t>(count));
}

// --- PUBSUB ---------------------------------------------------------------------------------------------

void PubsubChannels(Call& call, NameKind kind) {
  const std::string_view pattern = call.request.size() > 2 ? call.argument(2) : "*";
  const std::vector<std::string> channels = call.services.gate.hub.Channels(kind, pattern);
  call.reply.Array(channels.size());
  for (const std::string& channel : channels) call.reply.Bulk(channel);
}

void PubsubNumSub(Call& call, NameKind kind) {
  call.reply.Array(2 * (call.request.size() - 2));
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    const std::size_t count = call.services.gate.hub.CountSubscribers(kind, call.argument(i));
    call.reply.Bulk(call.argument(i));
    call.reply.Integer(static_cast<std::int64_t>(count));
  }
}

void Pubsub(Call& call) {
  if (RepliedHelp(call)) return;
  const std::string_view name = call.argument(1);
  if (IsWord(name, "NUMSUB")) return PubsubNumSub(call, NameKind::kChannel);
  if (IsWord(name, "SHARDNUMSUB")) return PubsubNumSub(call, NameKind::kShardChannel);
  if (IsWord(name, "NUMPAT")) {
    if (call.request.size() != 2) return call.reply.Error(WrongArity("pubsub|numpat"));
    const std::size_t count = call.services.gate.hub.CountNames(NameKind::kPattern);
    return call.reply.Integer(static_cast<std::int64_t>(count));
  }
  const bool is_of_shards = IsWord(name, "SHARDCHANNELS");
  if (!is_of_shards && !IsWord(name, "CHANNELS")) return call.reply.Error(UnknownSubcommand(name, "pubsub"));
  if (call.request.size() <= 3) {
    return PubsubChannels(call, is_of_shards ? NameKind::kShardChannel : NameKind::kChannel);
  }
  call.reply.Error(absl::StrCat("ERR unknown subcommand or wrong number of arguments for '", AbslView(name),
                                "'. Try PUBSUB HELP."));
}

constexpr unsigned kSubscribeFlags =
    kFlagPubsub | kFlagNoScript | kAlwaysFlags | kRunsSubscribed | kFlagNoMulti;

constexpr Command kPubsubCommands[] = {
    {"psubscribe", -2, Order::kExclusive, kSubscribeFlags, 0, 0, 0, "pubsub",
     "Subscribes to all channels that fit a pattern", nullptr, PSubscribe},
    {"publish", 3, Order::kLocal, kFlagPubsub | kAlwaysFlags | kFlagFast | kFlagNoMulti, 0, 0, 0, "pubsub",
     "Sends a message to the subscribers of a channel", Publish, nullptr},
    {"pubsub", -2, Order::kLocal, 0, 0, 0, 0, "pubsub", "Describes channels and their subscribers", Pubsub,
     nullptr},
    {"punsubscribe", -1, Order::kExclusive, kSubscribeFlags, 0, 0, 0, "pubsub",
     "Ends subscriptions to patterns", nullptr, PUnsubscribe},
    {"spublish", 3, Order::kLocal, kFlagPubsub | kAlwaysFlags | kFlagFast | kFlagNoMulti, 1, 1, 1, "pubsub",
     "Sends a message to the subscribers of a channel of a shard", SPublish, nullptr},
    {"ssubscribe", -2, Order::kExclusive, kSubscribeFlags, 1, -1, 1, "pubsub",
     "Subscribes to channels of a shard", nullptr, SSubscribe},
    {"subscribe", -2, Order::kExclusive, kSubscribeFlags, 0, 0, 0, "pubsub", "Subscribes to channels",
     nullptr, Subscribe},
    {"sunsubscribe", -1, Order::kExclusive, kSubscribeFlags, 1, -1, 1, "pubsub",
     "Ends subscriptions to channels of shards", nullptr, SUnsubscribe},
    {"unsubscribe", -1, Order::kExclusive, kSubscribeFlags, 0, 0, 0, "pubsub",
     "Ends subscriptions to channels", nullptr, Unsubscribe},
};

}  // namespace

std::span<const Command> PubsubCommands() { return kPubsubCommands; }

}  // namespace remora::kvgate
