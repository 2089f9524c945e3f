#include "rdma/address_list.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace remora::rdma {
namespace {

std::vector<std::string> TextsOf(const std::string& text) {
  const auto addresses = ParseAddresses(text);
  if (!addresses.ok()) return {std::string(addresses.status().message())};
  std::vector<std::string> texts;
  for (const Address& one : *addresses) texts.push_back(one.ToString());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(AddressList, OneAddressIsAList) {
  EXPECT_EQ(TextsOf("tcp://kv:1"), Texts{"tcp://kv:1"});
  EXPECT_EQ(TextsOf("auto:tcp://kv:1"), Texts{"tcp://kv:1"});
}

TEST(AddressList, TheOrderIsTheGivenOne) {
  EXPECT_EQ(TextsOf("tls://kv:1,local:///a,tcp://[::1]:2,verbs://kv:3"),
            (Texts{"tls://kv:1", "local:///a", "tcp://[::1]:2", "verbs://kv:3"}));
}

TEST(AddressList, AutoPutsVerbsBeforeLocalBeforeTcp) {
  EXPECT_EQ(TextsOf("auto:tcp://b:1,tls://a:1,local:///b,verbs://b:1,local:///a,verbs://a:1"),
            (Texts{"verbs://b:1", "verbs://a:1", "local:///b", "local:///a", "tcp://b:1", "tls://a:1"}));
}

TEST(AddressList, PathsMayContainCommas) {
  EXPECT_EQ(TextsOf("local:///a,b,c"), Texts{"local:///a,b,c"});
  EXPECT_EQ(TextsOf("local:///a,b,,tcp://kv:1"), (Texts{"local:///a,b,", "tcp://kv:1"}));
}

TEST(AddressList, EachAddressIsChecked) {
  for (const std::string text :
       {"", "auto:", ",", "tcp://kv:1,", "tcp://kv:1,tcp://kv", ",tcp://kv:1", "tcp://kv:1,udp://kv:2",
        "auto:auto:tcp://kv:1", "tcp://kv:1,auto:tcp://kv:2", "auto://kv:1"}) {
    const auto addresses = ParseAddresses(text);
    EXPECT_FALSE(addresses.ok()) << text;
    EXPECT_EQ(addresses.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(AddressList, ItIsBounded) {
  std::string text = "tcp://kv:1";
  for (std::size_t i = 1; i < kMaxAddresses; ++i) text += ",tcp://kv:1";
  EXPECT_EQ(TextsOf(text).size(), kMaxAddresses);
  const auto more = ParseAddresses(text + ",tcp://kv:1");
  EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(more.status().message()).find("more than 16"), std::string::npos);
}

TEST(AddressList, DescriptionsSayWhoServesReads) {
  EXPECT_EQ(DescriptionOf(*ParseAddress("tcp://kv:1")), "tcp (READs are served by the server's CPU)");
  EXPECT_EQ(DescriptionOf(*ParseAddress("tls://kv:1")), "tls (READs are served by the server's CPU)");
}

}  // namespace
}  // namespace remora::rdma
