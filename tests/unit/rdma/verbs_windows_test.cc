// Rights to WRITE over verbs: memory windows bind the memory of one client to its connection.
#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

class WindowsTest : public TransportTest {
 protected:
  static RemoteRegion Grant(Client& client, std::uint64_t offset, std::uint64_t size) {
    const absl::StatusOr<std::string> reply = client.Call(CommandText(ServiceOp::kGrant, offset, size));
    RemoteRegion region;
    EXPECT_THAT(reply, IsOk());
    if (reply.ok()) std::memcpy(&region, reply->data(), std::min(reply->size(), sizeof(region)));
    EXPECT_EQ(region.size, size);
    return region;
  }
  /// The WRITE is done, or it has broken the client's connection: "", or why.
  static std::string WriteTo(Client& client, const RemoteRegion& region, std::uint64_t offset,
                             std::string_view bytes) {
    EXPECT_THAT(client.WriteTo(region, offset, bytes), IsOk());
    if (client.Call(CommandText(ServiceOp::kEcho)).ok()) return "";
    const absl::StatusOr<absl::Status> cause = client.AwaitDisconnect();
    EXPECT_THAT(cause, IsOk());
    return absl::StatusCodeToString(cause.value_or(absl::OkStatus()).code());
  }
  static std::uint64_t StagingHash(Client& client) {
    return NumberIn(client.Call(CommandText(ServiceOp::kHashStaging, 0, kTestStagingSize)).value_or(""));
  }
};

INSTANTIATE_TEST_SUITE_P(On, WindowsTest, ::testing::Values("verbs"),
                         [](const auto& test) { return test.param; });

TEST_P(WindowsTest, AStagingBufferIsItsOwnClientsAlone) {
  StartService();
  service_->Do([](Service& service) { EXPECT_TRUE(service.binds_writes()); });
  const auto owner = Open();
  const auto bystander = Open();
  ASSERT_EQ(WriteTo(*owner, owner->welcome().staging, 0, "mine"), "");
  std::uint64_t before = StagingHash(*owner);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{kTestStagingSize - 4}}) {
    const auto thief = Open();
    ASSERT_EQ(WriteTo(*thief, thief->welcome().staging, offset, "fine"), "");
    EXPECT_EQ(WriteTo(*thief, owner->welcome().staging, offset, "evil"), "PERMISSION_DENIED");
    EXPECT_EQ(StagingHash(*owner), before);
    ASSERT_EQ(WriteTo(*owner, owner->welcome().staging, offset, "good"), "");
    EXPECT_NE(StagingHash(*owner), before);
    before = StagingHash(*owner);
  }
  EXPECT_EQ(WriteTo(*bystander, bystander->welcome().staging, 0, "well"), "");
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 2; }));
}

TEST_P(WindowsTest, AGrantIsItsOwnClientsAlone) {
  StartService();
  const auto owner = Open();
  const RemoteRegion grant = Grant(*owner, 4096 + 17, 100'000);
  ASSERT_EQ(WriteTo(*owner, grant, 0, "mine"), "");
  const auto seen = [&] { return owner->Read(4096 + 17, {4}).value_or(""); };
  EXPECT_EQ(seen(), "mine");
  for (const bool has_a_grant : {false, true}) {
    const auto thief = Open();
    if (has_a_grant) Grant(*thief, 1 << 20, 4096);
    EXPECT_EQ(WriteTo(*thief, grant, 0, "evil"), "PERMISSION_DENIED");
    EXPECT_EQ(seen(), "mine");
  }
  ASSERT_EQ(WriteTo(*owner, grant, 0, "good"), "");
  EXPECT_EQ(seen(), "good");
}

// On most devices a region's own key is the same for both sides.
TEST_P(WindowsTest, TheRegionBehindAWindowIsClosed) {
  StartService();
  const auto owner = Open();
  const RemoteRegion grant = Grant(*owner, 0, 4096);
  std::vector<std::uint32_t> keys;
  service_->Do([&](Service& service) { keys = service.LocalKeys(); });
  ASSERT_EQ(keys.size(), 2u);
  const std::uint64_t before = StagingHash(*owner);
  for (const std::uint32_t key : keys) {
    for (RemoteRegion region : {owner->welcome().staging, grant}) {
      region.key = key;
      EXPECT_EQ(WriteTo(*Open(), region, 0, "evil"), "PERMISSION_DENIED");
    }
  }
  EXPECT_EQ(StagingHash(*owner), before);
  EXPECT_EQ(owner->Read(0, {4096}).value_or(""), RegionText(0, 4096));
  EXPECT_EQ(WriteTo(*owner, grant, 0, "good"), "");
}

// All of a region is bound, as some devices look no closer.
TEST_P(WindowsTest, NothingBesideAGrantCanBeWritten) {
  StartService();
  for (const bool before : {true, false}) {
    const auto client = Open();
    RemoteRegion wider = Grant(*client, 8192 + 64, 5000);
    wider.size += 16;
    if (before) wider.address -= 16;
    EXPECT_EQ(WriteTo(*client, wider, before ? 0 : 5000, "evil"), "PERMISSION_DENIED");
    EXPECT_EQ(Open()->Read(8192, {64 + 5000 + 64}).value_or(""), RegionText(8192, 64 + 5000 + 64));
  }
}

TEST_P(WindowsTest, ARevokedGrantIsNotWritable) {
  StartService();
  const auto owner = Open();
  const RemoteRegion first = Grant(*owner, 0, 4096);
  const RemoteRegion second = Grant(*owner, 0, 4096);
  EXPECT_NE(first.key, second.key);
  ASSERT_EQ(WriteTo(*owner, second, 0, "good"), "");
  EXPECT_EQ(WriteTo(*owner, first, 0, "evil"), "PERMISSION_DENIED");
  EXPECT_EQ(Open()->Read(0, {4}).value_or(""), "good");
}

// A client that leaves, with all that it had registered, fails as unavailable, and not as rejected.
TEST_P(WindowsTest, ADisconnectedClientIsUnavailable) {
  StartService();
  const auto writer = Open(), large_writer = Open(), asker = Open(), idle = Open();
  const RemoteRegion grant = Grant(*large_writer, 0, 4096);
  service_->Do([](Service& service) { service.DisconnectAll(); });
  ASSERT_EQ(WriteTo(*writer, writer->welcome().staging, 0, "late"), "UNAVAILABLE");
  EXPECT_EQ(WriteTo(*large_writer, grant, 0, "late"), "UNAVAILABLE");
  EXPECT_THAT(asker->Call(CommandText(ServiceOp::kEcho)), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(idle->AwaitDisconnect().value_or(absl::OkStatus()), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  EXPECT_EQ(WriteTo(*Open(), Open()->welcome().staging, 0, "others'"), "PERMISSION_DENIED");
}

// The client looks only once both are there: the completions, of which the last one failed, and the event
// that the server has disconnected. The READs are more than the client keeps between two polls.
TEST_P(WindowsTest, ARejectionIsTheReasonAlsoBehindOtherCompletions) {
  constexpr std::size_t kReads = 24;
  StartService();
  const auto client = Open();
  RemoteRegion forged = Open()->welcome().staging;  // of a client that has left
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 1; }));
  for (std::size_t i = 0; i < kReads; ++i) ASSERT_THAT(client->PostRead(i, 8), IsOk());
  ASSERT_THAT(client->WriteTo(forged, 0, "evil"), IsOk());
  EXPECT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  client->connection().Disarm();  // so that from here on only the event makes wait_fd readable
  pollfd event = {client->connection().wait_fd(), POLLIN, 0};
  poll(&event, 1, 1000);  // or Disarm has taken it
  client->connection().Disarm();
  EXPECT_THAT(client->AwaitReads(kReads), IsOk());
  EXPECT_THAT(client->AwaitDisconnect().value_or(absl::OkStatus()),
              HasCode(absl::StatusCode::kPermissionDenied));
}

// A client writes as fast as it can while its grant ends: nothing changes behind the end.
TEST_P(WindowsTest, NothingLandsBehindTheEndOfAGrant) {
  constexpr std::size_t kSize = kTestStagingSize;
  StartService();
  for (int round = 0; round < 10; ++round) {
    const auto writer = Open();
    const RemoteRegion grant = Grant(*writer, 0, kSize);
    std::atomic<int> written = 0;
    std::jthread writing([&] {
      for (int i = 0;; ++i) {
        const std::string bytes(kSize, static_cast<char>('a' + i % 26));
        if (!writer->WriteTo(grant, 0, bytes).ok()) return;
        if (!writer->Call(CommandText(ServiceOp::kEcho)).ok()) return;
        written = i + 1;
      }
    });
    while (written < 2) std::this_thread::yield();
    std::uint64_t at_the_end = 0;
    service_->Do([&](Service& service) {
      service.RevokeGrants();
      at_the_end = HashOf(service.region_bytes().first(kSize));
    });
    writing.join();
    EXPECT_THAT(writer->connection().status(), HasCode(absl::StatusCode::kPermissionDenied));
    service_->Do(
        [&](Service& service) { EXPECT_EQ(HashOf(service.region_bytes().first(kSize)), at_the_end); });
  }
}

// The server's device is asked to bind each staging buffer while others are served.
TEST_P(WindowsTest, ConnectionsThatComeDisturbNobody) {
  StartService();
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 2; ++i) busy.push_back(Open());
  std::atomic<bool> done = false;
  std::vector<std::jthread> threads;
  for (const auto& client : busy) {
    threads.emplace_back([&done, &client] {
      for (std::uint64_t i = 0; !done; ++i) {
        ASSERT_EQ(client->Call(CommandText(ServiceOp::kEcho, i)).value_or(""),
                  CommandText(ServiceOp::kEcho, i));
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto client = Open();
    EXPECT_EQ(WriteTo(*client, client->welcome().staging, 0, "here"), "");
  }
  done = true;
  threads.clear();
  EXPECT_THAT(busy[0]->connection().status(), IsOk());
  EXPECT_THAT(busy[1]->connection().status(), IsOk());
}

// Its binding may still be in flight: then that may break the connection over which it was asked for, no
// other.
TEST_P(WindowsTest, GrantsThatAreReplacedAtOnceHarmNobodyElse) {
  StartService();
  const auto bystander = Open();
  const RemoteRegion grant = Grant(*bystander, 0, 4096);
  for (int round = 0; round < 10; ++round) {
    const auto hasty = Open();
    for (std::uint64_t i = 0; i < 16; ++i) {
      ASSERT_THAT(hasty->Send(CommandText(ServiceOp::kGrant, 8192 * i, 4096)), IsOk());
    }
    int answers = 0;
    while (answers < 16 && hasty->Receive().ok()) ++answers;
    EXPECT_TRUE(answers == 16 || !hasty->connection().status().ok());
  }
  EXPECT_EQ(WriteTo(*bystander, grant, 0, "good"), "");
}

// A region cannot be deregistered while a window to it is left, and what is registered is counted.
TEST_P(WindowsTest, AThousandGrantsLeaveNothingBehind) {
  StartService();
  const auto client = Open();
  Grant(*client, 0, 4096);
  const std::string before = HeldAtRest();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const RemoteRegion grant = Grant(*client, i * 64, 4096);
    if (i % 100 == 0) {
      ASSERT_EQ(WriteTo(*client, grant, 0, "good"), "");
    }
  }
  EXPECT_EQ(HeldAtRest(), before);
}

// Where windows are off, or the device has none, keys are all that keeps clients apart.
TEST_P(WindowsTest, WithoutWindowsWhoKnowsAKeyCanWrite) {
  StartService({}, MemoryWindows::kOff);
  service_->Do([](Service& service) { EXPECT_FALSE(service.binds_writes()); });
  const auto owner = Open();
  const RemoteRegion grant = Grant(*owner, 0, 4096);
  const std::uint64_t before = StagingHash(*owner);
  const auto other = Open();
  EXPECT_EQ(WriteTo(*other, owner->welcome().staging, 0, "evil"), "");
  EXPECT_NE(StagingHash(*owner), before);
  EXPECT_EQ(WriteTo(*other, grant, 0, "evil"), "");
  EXPECT_EQ(owner->Read(0, {4}).value_or(""), "evil");
  service_->Do([](Service& service) { service.RevokeGrants(); });
  EXPECT_EQ(WriteTo(*owner, grant, 0, "evil"), "PERMISSION_DENIED");
}

}  // namespace
}  // namespace remora::rdma
