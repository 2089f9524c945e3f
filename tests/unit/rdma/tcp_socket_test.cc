// The sockets that a server listens at: all addresses of a name.
#include <arpa/inet.h>

#include <cstring>
#include <string>
#include <vector>

#include "rdma/tcp/stream/socket.h"
#include "rdma/transport.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Address TcpAddress(const std::string& host, std::uint16_t port) {
  return {.kind = TransportKind::kTcp, .host = host, .port = port, .path = ""};
}

/// Returns the address of a host that is given in numbers.
TcpSocketAddress SocketAddress(const std::string& host, std::uint16_t port) {
  const auto resolved = ResolveTcp(TcpAddress(host, port), true);
  EXPECT_THAT(resolved, IsOk());
  EXPECT_EQ(resolved->size(), 1u);
  return resolved->front();
}

class TcpSocketTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<UniqueFd>> Bind(const std::string& name, const std::vector<std::string>& hosts) {
    std::vector<TcpSocketAddress> own;
    for (const std::string& host : hosts) own.push_back(SocketAddress(host, port_));
    return BindAtAll(TcpAddress(name, port_), own);
  }
  /// Returns the hosts of the sockets that are bound for a name with these addresses.
  std::vector<std::string> Bound(const std::vector<std::string>& hosts) {
    const auto sockets = Bind("server", hosts);
    EXPECT_THAT(sockets, IsOk());
    std::vector<std::string> bound;
    if (!sockets.ok()) return bound;
    for (const UniqueFd& socket : *sockets) {
      bound.push_back(LocalAddressOf(socket.get()).HostToString());
      EXPECT_EQ(LocalAddressOf(socket.get()).port(), port_);
    }
    return bound;
  }
  /// Takes a free port, at 127.0.0.1, until the test ends.
  void SetUp() override {
    auto taken = BindAtTcp(TcpAddress("127.0.0.1", 0));
    ASSERT_THAT(taken, IsOk());
    taken_ = *std::move(taken);
    port_ = LocalAddressOf(taken_.front().get()).port();
  }

  std::vector<UniqueFd> taken_;  // it does not listen, so others may bind the port
  std::uint16_t port_ = 0;
};

// 192.0.2.1 is of the addresses for documents.
TEST_F(TcpSocketTest, AllAddressesOfANameAreBound) {
  EXPECT_THAT(Bound({"127.0.0.2", "127.0.0.3"}), ElementsAre("127.0.0.2", "127.0.0.3"));
  EXPECT_THAT(Bound({"127.0.0.2", "127.0.0.2"}), ElementsAre("127.0.0.2"));
  EXPECT_THAT(Bound({"192.0.2.1", "127.0.0.3"}), ElementsAre("127.0.0.3"));
  EXPECT_THAT(Bound({"127.0.0.2", "192.0.2.1"}), ElementsAre("127.0.0.2"));
  EXPECT_THAT(Bind("server", {"192.0.2.1"}), HasCode(absl::StatusCode::kFailedPrecondition));
  if (!BindAtTcp(TcpAddress("::1", port_)).ok()) GTEST_SKIP() << "this host has no IPv6";
  EXPECT_THAT(Bound({"::1", "127.0.0.2"}), ElementsAre("[::1]", "127.0.0.2"));
}

TEST_F(TcpSocketTest, AnAddressThatIsInUseIsAFault) {
  const auto listening = ListenAtTcp(TcpAddress("127.0.0.3", port_));
  ASSERT_THAT(listening, IsOk());
  EXPECT_THAT(Bind("server", {"127.0.0.2", "127.0.0.3"}), HasCode(absl::StatusCode::kAlreadyExists));
}

TEST_F(TcpSocketTest, LocalhostIsThisHostAlone) {
  EXPECT_THAT(Bind("localhost", {"127.0.0.1", "127.0.0.2"}), IsOk());
  const auto bound = Bind("localhost", {"127.0.0.1", "192.0.2.1"});
  EXPECT_THAT(bound, HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(bound.status().message()), HasSubstr("192.0.2.1"));
  EXPECT_THAT(Bind("localhost", {"0.0.0.0"}), HasCode(absl::StatusCode::kFailedPrecondition));
}

TEST_F(TcpSocketTest, ANameWithTooManyAddressesIsRejected) {
  std::vector<std::string> hosts;
  for (std::size_t i = 1; i <= kMaxTcpSockets; ++i) hosts.push_back("127.0.1." + std::to_string(i));
  EXPECT_EQ(Bound(hosts).size(), kMaxTcpSockets);
  hosts.push_back("127.0.2.1");
  EXPECT_THAT(Bind("server", hosts), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_F(TcpSocketTest, AllOfIpv6TakesIpv4) {
  const auto listening = ListenAtTcp(TcpAddress("::", port_));
  if (!listening.ok()) GTEST_SKIP() << "this host has no IPv6";
  for (const char* const host : {"127.0.0.2", "::1"}) {
    const TcpSocketAddress address = SocketAddress(host, port_);
    const UniqueFd client(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), address.get(), address.size), 0) << host;
  }
}

TEST(TcpSocketAddressTest, OverlapsAreFound) {
  const auto overlap = [](const char* one, const char* other) {
    const bool is = Overlap(SocketAddress(one, 7), SocketAddress(other, 7));
    EXPECT_EQ(Overlap(SocketAddress(other, 7), SocketAddress(one, 7)), is);
    EXPECT_FALSE(Overlap(SocketAddress(one, 7), SocketAddress(other, 8)));
    return is;
  };
  EXPECT_TRUE(overlap("127.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(overlap("127.0.0.1", "127.0.0.2"));
  EXPECT_FALSE(overlap("127.0.0.1", "::1"));
  EXPECT_TRUE(overlap("0.0.0.0", "127.0.0.1"));
  EXPECT_FALSE(overlap("0.0.0.0", "::1"));
  EXPECT_TRUE(overlap("::", "::1"));
  EXPECT_TRUE(overlap("::", "127.0.0.1"));
  EXPECT_TRUE(overlap("::", "0.0.0.0"));
}

TEST_F(TcpSocketTest, AddressesThatOverlapAreRejectedTogether) {
  const std::vector<Address> apart = {TcpAddress("127.0.0.2", port_), TcpAddress("127.0.0.3", port_)};
  EXPECT_THAT(CheckFree(apart), IsOk());
  const std::vector<Address> overlapping = {TcpAddress("127.0.0.2", port_), TcpAddress("0.0.0.0", port_)};
  const absl::Status status = CheckFree(overlapping);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(status.message()), HasSubstr("leave one out"));
}

TEST(TcpSocketAddressTest, LoopbackAndAny) {
  for (const char* const host : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(SocketAddress(host, 1).is_loopback()) << host;
  }
  for (const char* const host : {"128.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(SocketAddress(host, 1).is_loopback()) << host;
  }
  EXPECT_TRUE(SocketAddress("0.0.0.0", 1).is_any());
  EXPECT_TRUE(SocketAddress("::", 1).is_any());
  EXPECT_FALSE(SocketAddress("0.0.0.1", 1).is_any());
  EXPECT_FALSE(SocketAddress("::1", 1).is_any());
}

}  // namespace
}  // namespace remora::rdma
