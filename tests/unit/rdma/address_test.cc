#include "rdma/address.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace remora::rdma {
namespace {

TEST(Address, Verbs) {
  const auto address = ParseAddress("verbs://kv1.example:7470");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->kind, TransportKind::kVerbs);
  EXPECT_EQ(address->host, "kv1.example");
  EXPECT_EQ(address->port, 7470);
  EXPECT_EQ(address->path, "");
}

TEST(Address, VerbsWithIpv6) {
  const auto address = ParseAddress("verbs://[fe80::1%eth0]:65535");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "fe80::1%eth0");
  EXPECT_EQ(address->port, 65535);
}

TEST(Address, Tcp) {
  const auto address = ParseAddress("tcp://kv1.example:7470");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->kind, TransportKind::kTcp);
  EXPECT_EQ(address->host, "kv1.example");
  EXPECT_EQ(address->port, 7470);
  EXPECT_EQ(ParseAddress("tcp://[::1]:65535")->host, "::1");
}

TEST(Address, Local) {
  const auto address = ParseAddress("local:///run/remora/kv.sock");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->kind, TransportKind::kLocal);
  EXPECT_EQ(address->path, "/run/remora/kv.sock");
}

TEST(Address, TextComesBackUnchanged) {
  for (const std::string text :
       {"verbs://10.0.0.7:1", "verbs://[::1]:7470", "verbs://a:65535", "tcp://10.0.0.7:1", "tcp://[::1]:7470",
        "tcp://a:65535", "local:///a b/c:d"}) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(Address, SocketPathOfAllLengths) {
  EXPECT_TRUE(ParseAddress("local:///" + std::string(106, 'p')).ok());
  EXPECT_FALSE(ParseAddress("local:///" + std::string(107, 'p')).ok());
}

TEST(Address, ErrorsNameTheFault) {
  const std::pair<std::string, std::string> kFaults[] = {
      {"", "there is no scheme"},
      {"kv1:7470", "there is no scheme"},
      {"/run/socket", "there is no scheme"},
      {"udp://kv1:7470", "unknown scheme"},
      {"tcp://", "there is no host"},
      {"tcp://kv1", "there is no port"},
      {"tcp://kv1:0", "the port is not a number from 1 to 65535"},
      {"tcp://::1:7470", "the IPv6 address is not in brackets"},
      {"verbs://", "there is no host"},
      {"verbs:///socket", "'/socket' is no host"},
      {"verbs://:7470", "there is no host"},
      {"verbs://[]:7470", "there is no host"},
      {"verbs://kv1", "there is no port"},
      {"verbs://kv1:", "there is no port"},
      {"verbs://[::1]", "there is no port"},
      {"verbs://[::1]:", "there is no port"},
      {"verbs://[::1]7470", "no port follows the brackets"},
      {"verbs://[::1", "there is no closing bracket"},
      {"verbs://[::1:7470", "there is no closing bracket"},
      {"verbs://::1", "the IPv6 address is not in brackets"},
      {"verbs://::1:7470", "the IPv6 address is not in brackets"},
      {"verbs://[kv1]:7470", "the text in brackets is not an IPv6 address"},
      {"verbs://a b:7470", "'a b' is no host"},
      {"verbs://kv1\n:7470", "'kv1\\n' is no host"},
      {"verbs://kv1:0", "the port is not a number from 1 to 65535"},
      {"verbs://kv1:0x10", "the port is not a number from 1 to 65535"},
      {"verbs://kv1:7470/0", "the port is not a number from 1 to 65535"},
      {"local://run/socket", "the path is not absolute"},
      {"local:///", "the path names a directory, not a socket"},
      {"local:/run/socket", "a local address has three slashes: local:///run/socket"},
      {"local:socket", "a local address has three slashes: local:///socket"},
      {"local:", "a local address has three slashes: local:///PATH"},
      {"local:/\n", "a local address has three slashes: local:///\\n"},
  };
  for (const auto& [text, fault] : kFaults) {
    const std::string message(ParseAddress(text).status().message());
    EXPECT_NE(message.find("': " + fault + "; write "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(ParseAddress("verbs://kv1:07470")->port, 7470);  // decimal, as all numbers
}

TEST(Address, FaultsAreNamedAndAllFormsShown) {
  using namespace std::string_literals;
  for (const std::string& text : {""s,
                                  "kv1:7470"s,
                                  "udp://kv1:7470"s,
                                  "TCP://kv1:7470"s,
                                  "tcp:/kv1:7470"s,
                                  "VERBS://kv1:7470"s,
                                  "verbs://"s,
                                  "verbs://kv1"s,
                                  "verbs://kv1:"s,
                                  "verbs://:7470"s,
                                  "verbs://kv1:0"s,
                                  "verbs://kv1:65536"s,
                                  "verbs://kv1:-1"s,
                                  "verbs://kv1:+1"s,
                                  "verbs://kv1:7470x"s,
                                  "verbs://kv1: 7470"s,
                                  "verbs://kv1:0x1"s,
                                  "verbs://::1:7470"s,
                                  "verbs://[::1]"s,
                                  "verbs://[::1]7470"s,
                                  "verbs://[::1:7470"s,
                                  "verbs://[]:7470"s,
                                  "verbs://kv1/a:7470"s,
                                  "verbs://[kv1]x:7470"s,
                                  "local://"s,
                                  "local://relative/path"s,
                                  "local:/one"s,
                                  "local:///"s,
                                  "local:///a\0b"s,
                                  "verbs://a\0b:1"s,
                                  "verbs://kv1:99999999999999999999"s}) {
    const auto address = ParseAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find("verbs://HOST:PORT"), std::string::npos) << address.status();
    EXPECT_NE(address.status().message().find("tcp://HOST:PORT"), std::string::npos) << address.status();
    EXPECT_NE(address.status().message().find("local:///PATH"), std::string::npos) << address.status();
  }
}

}  // namespace
}  // namespace remora::rdma
