// The keys that clients of the gate cache, and their invalidations.
#include "tools/kvgate/tracking/tracking_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/manual_clock.h"
#include "tools/kvgate/pubsub/mailbox.h"
#include "tools/kvgate/resp/reply.h"
#include "tools/kvgate/tracking/tracking.h"

namespace remora::kvgate {
namespace {

class TrackingTableTest : public testing::Test {
 protected:
  std::unique_ptr<Tracking> Client(std::int64_t id) {
    mailboxes_[id] = std::make_shared<Mailbox>([] {});
    return std::make_unique<Tracking>(table_, id, mailboxes_[id]);
  }

  /// The keys of all invalidations that wait for a client, a word for each; "all" for all keys.
  std::string Mail(std::int64_t id) {
    std::string all;
    while (const std::optional<Delivery> one = mailboxes_[id]->Take()) {
      EXPECT_EQ(one->kind, DeliveryKind::kInvalidation);
      all += (all.empty() ? "" : " ") + (one->key == nullptr ? "all" : *one->key);
    }
    return all;
  }

  ManualClock clock_;
  TrackingTable table_{clock_};
  std::map<std::int64_t, std::shared_ptr<Mailbox>> mailboxes_;
};

TEST_F(TrackingTableTest, ARegistrationEndsWithOneInvalidation) {
  const auto one = Client(1);
  const auto other = Client(2);
  one->Register("a");
  one->Register("a");
  other->Register("a");
  other->Register("b");
  table_.Invalidate("a");
  table_.Invalidate("a");
  EXPECT_EQ(Mail(1), "a");
  EXPECT_EQ(Mail(2), "a");
  EXPECT_EQ(table_.counts().keys, 1u);
  one->Register("a");
  table_.Invalidate("a");
  EXPECT_EQ(Mail(1), "a");
}

TEST_F(TrackingTableTest, LostChangesTakeAllRegistrations) {
  const auto one = Client(1);
  const auto other = Client(2);
  one->Register("a");
  other->AddPrefix("x");
  table_.InvalidateAll();
  table_.Invalidate("a");
  table_.Invalidate("x1");
  EXPECT_EQ(Mail(1), "all");
  EXPECT_EQ(Mail(2), "all x1");
  EXPECT_EQ(table_.counts().items, 0u);
}

TEST_F(TrackingTableTest, AServerWithoutChangesEndsTheClients) {
  const auto one = Client(1);
  const auto other = Client(2);
  one->Register("a");
  table_.Invalidate("a");
  one->Register("a");
  EXPECT_EQ(mailboxes_[1]->end_reason(), "");
  table_.DisconnectAll("no changes");
  table_.Invalidate("a");
  EXPECT_EQ(table_.counts().items, 0u);
  EXPECT_EQ(Mail(1), "a all");
  EXPECT_EQ(Mail(2), "all");
  EXPECT_TRUE(mailboxes_[1]->has_news()) << "its end";
  EXPECT_EQ(mailboxes_[1]->end_reason(), "no changes");
  mailboxes_[2]->Clear();
  EXPECT_TRUE(mailboxes_[2]->has_news());
}

TEST_F(TrackingTableTest, PrefixesGetEachChange) {
  auto one = Client(1);
  const auto other = Client(2);
  one->AddPrefix("user:");
  one->AddPrefix("job:");
  other->AddPrefix("");
  for (const char* const key : {"user:1", "use", "job:1", "user:1", "user:"}) table_.Invalidate(key);
  EXPECT_EQ(Mail(1), "user:1 job:1 user:1 user:");
  EXPECT_EQ(Mail(2), "user:1 use job:1 user:1 user:");
  EXPECT_EQ(table_.counts().prefixes, 3u);
  one.reset();
  EXPECT_EQ(table_.counts().prefixes, 1u);
  table_.Invalidate("user:1");
  EXPECT_EQ(Mail(1), "");
  EXPECT_EQ(Mail(2), "user:1");
}

TEST_F(TrackingTableTest, TheOldestKeysGoWithoutSpace) {
  const auto client = Client(1);
  table_.SetMaxKeys(2);
  for (const char* const key : {"a", "b", "a", "c", "d"}) client->Register(key);
  EXPECT_EQ(Mail(1), "a b");
  table_.SetMaxKeys(1);
  EXPECT_EQ(Mail(1), "c");
  table_.SetMaxKeys(0);
  for (int i = 0; i < 100; ++i) client->Register(std::to_string(i));
  EXPECT_EQ(Mail(1), "");
  EXPECT_EQ(table_.counts().keys, 101u);
}

TEST_F(TrackingTableTest, BytesAreBounded) {
  const auto client = Client(1);
  const std::string long_part(4000, 'x');
  const std::size_t count = TrackingTable::kMaxBytes / long_part.size() + 100;
  for (std::size_t i = 0; i < count; ++i) client->Register(std::to_string(i) + long_part);
  EXPECT_LT(table_.counts().keys * long_part.size(), TrackingTable::kMaxBytes);
  EXPECT_EQ(Mail(1).substr(0, 5), "0xxxx");
}

TEST_F(TrackingTableTest, AClientThatGoesGetsNothing) {
  auto one = Client(1);
  const auto other = Client(2);
  one->Register("a");
  other->Register("a");
  one.reset();
  table_.Invalidate("a");
  EXPECT_EQ(Mail(1), "");
  EXPECT_EQ(Mail(2), "a");
}

TEST_F(TrackingTableTest, TheLastClientEndsTheWish) {
  EXPECT_FALSE(table_.has_clients());
  auto one = Client(1);
  one->Register("a");
  EXPECT_TRUE(table_.has_clients());
  one.reset();
  EXPECT_FALSE(table_.has_clients());
  EXPECT_EQ(table_.counts().keys, 0u);
}

TEST_F(TrackingTableTest, OptionsChooseTheReads) {
  const auto client = Client(1);
  EXPECT_TRUE(client->takes_keys());
  client->options = {.has_optin = true};
  EXPECT_FALSE(client->takes_keys());
  client->has_caching = true;
  EXPECT_TRUE(client->takes_keys());
  client->options = {.has_optout = true};
  EXPECT_FALSE(client->takes_keys());
  client->options = {.has_broadcast = true};
  EXPECT_FALSE(client->takes_keys());
}

TEST(InvalidationTest, HasTheFormOfTheProtocol) {
  const auto key = std::make_shared<const std::string>("k");
  Reply push(3);
  AppendDelivery({.kind = DeliveryKind::kRedirected, .key = key}, &push);
  AppendDelivery({.kind = DeliveryKind::kInvalidation, .key = nullptr}, &push);
  EXPECT_EQ(push.bytes(), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n");
  Reply message(2);
  AppendDelivery({.kind = DeliveryKind::kRedirected, .key = nullptr}, &message);
  EXPECT_EQ(message.bytes(), "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n");
}

}  // namespace
}  // namespace remora::kvgate
