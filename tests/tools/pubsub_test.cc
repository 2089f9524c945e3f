// Channels and patterns of the gate, and the flags of keyspace notifications.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/manual_clock.h"
#include "tools/kvgate/pubsub/event_flags.h"
#include "tools/kvgate/pubsub/mailbox.h"
#include "tools/kvgate/pubsub/message_hub.h"
#include "tools/kvgate/pubsub/subscriptions.h"
#include "tools/kvgate/resp/reply.h"

namespace remora::kvgate {
namespace {

using namespace std::literals;

// --- Flags ----------------------------------------------------------------------------------------------

std::string Normal(std::string_view text) {
  const std::optional<EventFlags> flags = EventFlags::Parse(text);
  return flags ? flags->ToString() : "unknown";
}

TEST(EventFlagsTest, AreShownInTheOrderOfRedis) {
  EXPECT_EQ(Normal(""), "");
  EXPECT_EQ(Normal("KEA"), "AKE");
  EXPECT_EQ(Normal("Kg"), "gK");
  EXPECT_EQ(Normal("EK$x"), "$xKE");
  EXPECT_EQ(Normal("mn"), "nm");
  EXPECT_EQ(Normal("ggKK"), "gK");
}

TEST(EventFlagsTest, AllClassesAreA) {
  EXPECT_EQ(Normal("g$lshzxetdKE"), "AKE");
  EXPECT_EQ(Normal("g$lshzxetKE"), "g$lshzxetKE");
  EXPECT_EQ(Normal("Anm"), "Am");
}

TEST(EventFlagsTest, AnUnknownLetterIsNone) {
  EXPECT_EQ(Normal("KEq"), "unknown");
  EXPECT_EQ(Normal("K E"), "unknown");
  EXPECT_EQ(Normal("a"), "unknown");
  EXPECT_EQ(Normal("K\0q"sv), "K");
}

TEST(EventFlagsTest, ChooseChannelsAndEvents) {
  const EventFlags all = *EventFlags::Parse("AKE");
  EXPECT_TRUE(all.has_keyspace() && all.has_keyevent() && all.has_sets() && all.has_deletions());
  const EventFlags some = *EventFlags::Parse("K$x");
  EXPECT_TRUE(some.has_keyspace() && some.has_sets());
  EXPECT_FALSE(some.has_keyevent() || some.has_deletions() || some.empty());
  EXPECT_TRUE(EventFlags().empty());
}

// --- Names that may have notifications ------------------------------------------------------------------

bool MayBeOfKeys(NameKind kind, std::string_view name) { return MayBeginWith(kind, name, kKeyspacePrefix); }

TEST(MayBeginWithTest, ChannelsByTheirPrefix) {
  EXPECT_TRUE(MayBeOfKeys(NameKind::kChannel, "__keyspace@0__:key"));
  EXPECT_FALSE(MayBeOfKeys(NameKind::kChannel, "__keyspace@1__:key"));
  EXPECT_FALSE(MayBeOfKeys(NameKind::kChannel, "__key*"));
  EXPECT_FALSE(MayBeOfKeys(NameKind::kChannel, "news"));
  EXPECT_FALSE(MayBeOfKeys(NameKind::kChannel, ""));
}

TEST(MayBeginWithTest, PatternsByTheirFixedBegin) {
  for (const std::string_view pattern :
       {"*", "__key*", "__keyspace@0__:*", "__keyspace@?__:a*", "[_]*", "\\__*"}) {
    EXPECT_TRUE(MayBeOfKeys(NameKind::kPattern, pattern)) << pattern;
  }
  for (const std::string_view pattern : {"__keyevent@0__:*", "news.*", "__keyspace@1*", "__key", ""}) {
    EXPECT_FALSE(MayBeOfKeys(NameKind::kPattern, pattern)) << pattern;
  }
}

// --- Channels -------------------------------------------------------------------------------------------

class HubTest : public testing::Test {
 protected:
  std::unique_ptr<Subscriptions> Client() {
    return std::make_unique<Subscriptions>(hub_, [this] { ++woken_; });
  }

  /// All messages that wait for a client, a word for each: PATTERN=CHANNEL=PAYLOAD.
  static std::string Mail(Subscriptions& client) {
    std::string all;
    while (const std::optional<Delivery> one = client.mailbox().Take()) {
      const std::string pattern = one->pattern == nullptr ? "" : *one->pattern;
      all += (all.empty() ? "" : " ") + pattern + "=" + one->message->channel + "=" + one->message->payload;
    }
    return all;
  }

  ManualClock clock_;
  MessageHub hub_{clock_};
  int woken_ = 0;
};

TEST_F(HubTest, AMessageGoesToEachNameThatFits) {
  const auto one = Client();
  const auto other = Client();
  one->Subscribe(NameKind::kChannel, "news");
  one->Subscribe(NameKind::kPattern, "n*");
  other->Subscribe(NameKind::kPattern, "n?ws");
  other->Subscribe(NameKind::kPattern, "new");
  EXPECT_EQ(hub_.Publish("news", "text"), 3u);
  EXPECT_EQ(Mail(*one), "=news=text n*=news=text");
  EXPECT_EQ(Mail(*other), "n?ws=news=text");
  EXPECT_EQ(hub_.Publish("other", "text"), 0u);
  EXPECT_EQ(Mail(*one) + Mail(*other), "");
}

TEST_F(HubTest, NoneComesBehindTheEndOfASubscription) {
  const auto client = Client();
  client->Subscribe(NameKind::kChannel, "a");
  client->Subscribe(NameKind::kChannel, "b");
  client->Subscribe(NameKind::kChannel, "b");
  EXPECT_EQ(client->size(), 2u);
  client->Unsubscribe(NameKind::kChannel, "a");
  client->Unsubscribe(NameKind::kPattern, "b");
  EXPECT_EQ(hub_.Publish("a", "1"), 0u);
  EXPECT_EQ(hub_.Publish("b", "2"), 1u);
  EXPECT_EQ(Mail(*client), "=b=2");
  hub_.Publish("b", "3");
  client->Reset();
  EXPECT_EQ(Mail(*client), "");
  EXPECT_EQ(hub_.CountNames(NameKind::kChannel), 0u);
}

TEST_F(HubTest, AClientThatGoesIsForgotten) {
  auto client = Client();
  client->Subscribe(NameKind::kChannel, "__keyspace@0__:key");
  client->Subscribe(NameKind::kPattern, "*");
  EXPECT_TRUE(hub_.wants_keyspace() && hub_.wants_keyevent());
  client.reset();
  EXPECT_EQ(hub_.Publish("__keyspace@0__:key", "set"), 0u);
  EXPECT_FALSE(hub_.wants_keyspace() || hub_.wants_keyevent());
}

TEST_F(HubTest, TheLastSubscriberEndsTheWish) {
  const auto one = Client();
  const auto other = Client();
  one->Subscribe(NameKind::kPattern, "__keyevent@0__:*");
  other->Subscribe(NameKind::kPattern, "__keyevent@0__:*");
  one->Unsubscribe(NameKind::kPattern, "__keyevent@0__:*");
  EXPECT_TRUE(hub_.wants_keyevent());
  EXPECT_FALSE(hub_.wants_keyspace());
  other->Unsubscribe(NameKind::kPattern, "__keyevent@0__:*");
  EXPECT_FALSE(hub_.wants_keyevent());
}

TEST_F(HubTest, ChannelsAndTheirSubscribersAreCounted) {
  const auto one = Client();
  const auto other = Client();
  one->Subscribe(NameKind::kChannel, "a1");
  other->Subscribe(NameKind::kChannel, "a1");
  other->Subscribe(NameKind::kChannel, "b1");
  other->Subscribe(NameKind::kPattern, "a*");
  EXPECT_EQ(hub_.Channels(NameKind::kChannel, "a*"), std::vector<std::string>{"a1"});
  EXPECT_EQ(hub_.CountSubscribers(NameKind::kChannel, "a1"), 2u);
  EXPECT_EQ(hub_.CountSubscribers(NameKind::kChannel, "none"), 0u);
  EXPECT_EQ(hub_.CountNames(NameKind::kChannel), 2u);
  EXPECT_EQ(hub_.CountNames(NameKind::kPattern), 1u);
}

TEST_F(HubTest, ChannelsOfShardsAreApart) {
  const auto client = Client();
  client->Subscribe(NameKind::kChannel, "a");
  client->Subscribe(NameKind::kPattern, "*");
  client->Subscribe(NameKind::kShardChannel, "a");
  client->Subscribe(NameKind::kShardChannel, "__keyspace@0__:key");
  client->Subscribe(NameKind::kShardChannel, "__keyspace@0__:*");
  client->Unsubscribe(NameKind::kPattern, "*");
  EXPECT_FALSE(hub_.wants_keyspace());
  EXPECT_EQ(client->size(), 4u);
  EXPECT_EQ(hub_.PublishInShard("a", "1"), 1u);
  EXPECT_EQ(hub_.PublishInShard("b", "2"), 0u);
  const std::optional<Delivery> one = client->mailbox().Take();
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->kind, DeliveryKind::kShardMessage);
  EXPECT_EQ(hub_.Publish("a", "3"), 1u);
  EXPECT_EQ(Mail(*client), "=a=3");
  EXPECT_EQ(hub_.Channels(NameKind::kShardChannel, "?"), std::vector<std::string>{"a"});
  EXPECT_EQ(hub_.CountSubscribers(NameKind::kShardChannel, "a"), 1u);
  client->Reset();
  EXPECT_EQ(hub_.CountNames(NameKind::kShardChannel), 0u);
}

TEST_F(HubTest, NamesAreBounded) {
  const auto client = Client();
  EXPECT_FALSE(client->Subscribe(NameKind::kChannel, std::string(Subscriptions::kLongestName + 1, 'a')));
  const std::string longest(Subscriptions::kLongestName - 4, 'a');
  std::size_t count = 0;
  while (client->Subscribe(NameKind::kChannel, longest + std::to_string(1000 + count))) ++count;
  EXPECT_EQ(count, Subscriptions::kMostNameBytes / Subscriptions::kLongestName);
  client->Reset();
  for (count = 0; client->Subscribe(NameKind::kPattern, std::to_string(count));) ++count;
  EXPECT_EQ(count, Subscriptions::kMostNames);
  EXPECT_TRUE(client->Subscribe(NameKind::kPattern, "0"));
}

// --- Mailboxes ------------------------------------------------------------------------------------------

TEST_F(HubTest, AClientIsWokenOnceForMessagesThatWait) {
  const auto client = Client();
  client->Subscribe(NameKind::kChannel, "a");
  hub_.Publish("a", "1");
  hub_.Publish("a", "2");
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(Mail(*client), "=a=1 =a=2");
  hub_.Publish("a", "3");
  EXPECT_EQ(woken_, 2);
}

TEST_F(HubTest, AFullMailboxIsOverrun) {
  const auto client = Client();
  client->Subscribe(NameKind::kChannel, "a");
  const std::string payload(std::size_t{1} << 20, 'x');
  for (std::size_t i = 0; i < (Mailbox::kMostBytes >> 20) - 1; ++i) hub_.Publish("a", payload);
  EXPECT_EQ(client->mailbox().end_reason(), "");
  woken_ = 0;
  hub_.Publish("a", payload);
  EXPECT_NE(client->mailbox().end_reason(), "");
  EXPECT_EQ(woken_, 1);
  hub_.Publish("a", "more");
  EXPECT_EQ(Mail(*client), "");
}

TEST_F(HubTest, ManyMessagesHaveTheirTime) {
  const auto slow = Client();
  const auto better = Client();
  slow->Subscribe(NameKind::kChannel, "a");
  better->Subscribe(NameKind::kChannel, "a");
  hub_.Publish("a", std::string(Mailbox::kManyBytes, 'x'));
  clock_.Advance(Mailbox::kPatience - 1s);
  hub_.Publish("a", "1");
  EXPECT_EQ(slow->mailbox().end_reason(), "");
  better->mailbox().Take();
  clock_.Advance(1s);
  hub_.Publish("a", "2");
  EXPECT_NE(slow->mailbox().end_reason(), "");
  EXPECT_EQ(better->mailbox().end_reason(), "");
  EXPECT_EQ(Mail(*better), "=a=1 =a=2");
}

TEST(DeliveryTest, HasTheFormOfTheProtocol) {
  const auto message = std::make_shared<const Message>(Message{"c", "p"});
  const auto pattern = std::make_shared<const std::string>("*");
  for (const auto& [protocol, head] : {std::pair(2, "*"s), std::pair(3, ">"s)}) {
    Reply reply(protocol);
    AppendDelivery({message, nullptr}, &reply);
    EXPECT_EQ(reply.bytes(), head + "3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n");
    reply.Clear();
    AppendDelivery({message, pattern}, &reply);
    EXPECT_EQ(reply.bytes(), head + "4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\np\r\n");
  }
}

}  // namespace
}  // namespace remora::kvgate
