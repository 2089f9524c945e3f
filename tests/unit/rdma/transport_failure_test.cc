// The transport contract when a peer closes or dies. A process that is to die is another: peer_process.cc.
#include <poll.h>

#include <array>
#include <chrono>
#include <string>

#include "tests/unit/rdma/transport_fixture.h"
#include "tests/unit/rdma/transport_peer.h"

namespace remora::rdma {
namespace {

class TransportFailureTest : public TransportTest {};

INSTANTIATE_TEST_SUITE_P(On, TransportFailureTest, ::testing::Values("local", "tcp", "tls", "verbs"),
                         [](const auto& test) { return test.param; });

/// READs until one fails, a minute at most.
absl::Status ReadUntilFailure(Client& client, const Clock& clock) {
  const TimePoint deadline = clock.Now() + std::chrono::minutes(1);
  absl::Status status;
  while (status.ok() && clock.Now() < deadline) status = client.Read(0, {64}).status();
  return status;
}

/// Polls and Waits until the connection's end is told, as a client does that expects a message.
absl::Status WaitForEnd(ClientConnection& connection, TimePoint deadline) {
  std::array<Completion, 8> completions;
  for (;;) {
    const std::size_t count = connection.Poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].kind == CompletionKind::kDisconnected) return connection.status();
    }
    if (count > 0) continue;
    if (const absl::Status status = connection.Wait(deadline); !status.ok()) return status;
  }
}

TEST_P(TransportFailureTest, TheServiceSeesThatAClientCloses) {
  StartService();
  auto client = Open();
  const auto other = Open();
  ASSERT_THAT(client->Call(CommandText(ServiceOp::kEcho)), IsOk());
  client.reset();
  EXPECT_TRUE(service_->Await([](Service& service) { return service.session_count() == 1; }));
  service_->Do([](Service& service) { EXPECT_EQ(service.disconnects(), 1u); });
  EXPECT_THAT(other->Call(CommandText(ServiceOp::kEcho)), IsOk());
}

TEST_P(TransportFailureTest, TheClientSeesThatTheServiceCloses) {
  StartService();
  const auto client = Open();
  const auto other = Open();
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  EXPECT_EQ(client->AwaitDisconnect().value_or(absl::OkStatus()).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(client->Send(CommandText(ServiceOp::kEcho)), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client->Write(0, "x"), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client->Read(0, {1}), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(other->Call(CommandText(ServiceOp::kEcho)), IsOk());
}

TEST_P(TransportFailureTest, TheSleepingClientSeesThatTheServiceCloses) {
  StartService();
  const auto client = Open();
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  EXPECT_THAT(WaitForEnd(client->connection(), clock_.Now() + std::chrono::minutes(1)),
              HasCode(absl::StatusCode::kUnavailable));
}

/// Waits for the end, asleep on the connection's descriptor.
absl::Status WaitOnDescriptorForEnd(ClientConnection& connection) {
  std::array<Completion, 8> completions;
  for (;;) {
    connection.Arm();
    const std::size_t count = connection.Poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].kind == CompletionKind::kDisconnected) return connection.status();
    }
    pollfd one = {connection.wait_fd(), POLLIN, 0};
    if (count == 0 && poll(&one, 1, 60'000) != 1) return absl::DeadlineExceededError("nobody woke us");
    connection.Disarm();
  }
}

TEST_P(TransportFailureTest, AClientAsleepOnADescriptorSeesThatTheServiceCloses) {
  StartService();
  const auto client = Open();
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  EXPECT_THAT(WaitOnDescriptorForEnd(client->connection()), HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(TransportFailureTest, AClientAsleepOnADescriptorSeesThatTheServerIsKilled) {
  PeerProcess peer("serve", ServeArgument(where_));
  const auto address = ParseAddress(peer.line());
  ASSERT_THAT(address, IsOk()) << peer.line();
  const auto client = OpenAt(*address);
  peer.Kill();
  EXPECT_THAT(WaitOnDescriptorForEnd(client->connection()), HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(TransportFailureTest, ReadsEndWhenTheServiceIsDestroyed) {
  StartService();
  const auto client = Open();
  ASSERT_THAT(client->Read(0, {64}), IsOk());
  service_.reset();
  EXPECT_THAT(ReadUntilFailure(*client, clock_), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client->AwaitDisconnect(), IsOk());
}

TEST_P(TransportFailureTest, WaitEndsWhenTheServiceIsDestroyed) {
  StartService();
  const auto client = Open();
  service_.reset();
  EXPECT_THAT(WaitForEnd(client->connection(), clock_.Now() + std::chrono::minutes(1)),
              HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(TransportFailureTest, AKilledClientIsNoticedAndOthersGoOn) {
  StartService();
  const auto other = Open();
  PeerProcess peer("connect", service_->address().ToString());
  ASSERT_EQ(peer.line(), "connected");
  ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 2; }));
  peer.Kill();
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 1; }));
  EXPECT_THAT(other->Call(CommandText(ServiceOp::kEcho)), IsOk());
}

TEST_P(TransportFailureTest, ReadsEndWhenTheServerIsKilled) {
  PeerProcess peer("serve", ServeArgument(where_));
  const auto address = ParseAddress(peer.line());
  ASSERT_THAT(address, IsOk()) << peer.line();
  const auto client = OpenAt(*address);
  ASSERT_EQ(client->Read(3, {64}).value_or(""), RegionText(3, 64));
  peer.Kill();
  EXPECT_THAT(ReadUntilFailure(*client, clock_), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client->AwaitDisconnect(), IsOk());
}

TEST_P(TransportFailureTest, WaitEndsWhenTheServerIsKilled) {
  PeerProcess peer("serve", ServeArgument(where_));
  const auto address = ParseAddress(peer.line());
  ASSERT_THAT(address, IsOk()) << peer.line();
  const auto client = OpenAt(*address);
  peer.Kill();
  EXPECT_THAT(WaitForEnd(client->connection(), clock_.Now() + std::chrono::minutes(1)),
              HasCode(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace remora::rdma
