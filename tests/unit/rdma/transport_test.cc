// The transport contract (rdma/transport.h), on each transport. The contract after the loss of a
// peer: transport_failure_test.cc.
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

// Each end has its own functions: a call for the other one does not compile.
template <typename End>
concept Connects = requires(End& end) {
  end.Connect({}, TimePoint());
};
template <typename End>
concept Accepts = requires(End& end) {
  end.Accept({});
};
static_assert(Connects<ClientConnection> && !Connects<ServerConnection>);
static_assert(Accepts<ServerConnection> && !Accepts<ClientConnection>);

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(On, TransportTest, ::testing::Values("local", "tcp", "tls", "verbs"),
                         [](const auto& test) { return test.param; });

std::string RandomText(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(text.data() + at, &word, std::min<std::size_t>(8, size - at));
  }
  return text;
}

// --- Set-up ----------------------------------------------------------------------------------------

TEST_P(TransportTest, AcceptCarriesTheMostDataBothWays) {
  StartService();
  const std::string tail = RegionText(17, kMaxConnectData - 1);
  const auto client = Open({.request_tail = tail});
  const std::span<const std::byte> data = client->connection().peer_data();
  EXPECT_TRUE(std::ranges::equal(data.subspan(sizeof(Welcome) + 1, tail.size()), BytesOf(tail)));
  const std::size_t rest = sizeof(Welcome) + kMaxConnectData;
  EXPECT_TRUE(std::ranges::equal(data.subspan(rest, kMaxAcceptData - rest),
                                 BytesOf(RegionText(rest, kMaxAcceptData - rest))));
}

TEST_P(TransportTest, RejectSaysWhy) {
  StartService();
  const TimePoint deadline = clock_.Now() + std::chrono::minutes(1);
  const auto connection = DialAt(service_->address(), deadline);
  ASSERT_THAT(connection, IsOk());
  const std::byte mode{static_cast<unsigned char>(ServiceMode::kReject)};
  EXPECT_THAT((*connection)->Connect({&mode, 1}, deadline), HasCode(absl::StatusCode::kFailedPrecondition));
  const std::span<const std::byte> data = (*connection)->peer_data();
  ASSERT_GE(data.size(), kMaxRejectData);
  EXPECT_TRUE(std::ranges::equal(data.first(kMaxRejectData), BytesOf(RegionText(0, kMaxRejectData))));
}

TEST_P(TransportTest, TooMuchRequestDataIsRejected) {
  StartService();
  EXPECT_THAT(TryOpen({.request_tail = std::string(kMaxConnectData, 'x')}),
              HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_P(TransportTest, NobodyListens) {
  StartService();
  const Address address = service_->address();
  service_.reset();
  EXPECT_THAT(Client::Open(address, clock_), HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(TransportTest, AddressInUse) {
  StartService();
  EXPECT_THAT(ListenAt(service_->address()), HasCode(absl::StatusCode::kAlreadyExists));
}

TEST_P(TransportTest, ConnectEndsAtItsDeadline) {
  const auto listener = ListenAt(where_);
  ASSERT_THAT(listener, IsOk());
  const auto connection = DialAt((*listener)->address(), clock_.Now() + std::chrono::minutes(1));
  ASSERT_THAT(connection, IsOk());
  const TimePoint deadline = clock_.Now() + std::chrono::milliseconds(50);
  EXPECT_THAT((*connection)->Connect({}, deadline), HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GE(clock_.Now(), deadline);
}

TEST_P(TransportTest, PeersHaveNames) {
  StartService();
  EXPECT_THAT(Open()->connection().peer(), HasSubstr(is_verbs() || is_tcp() ? ":" : "pid"));
}

// --- READ ------------------------------------------------------------------------------------------

TEST_P(TransportTest, ReadsOfAllSizes) {
  StartService();
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  const auto client = Open({.read_buffer_size = kLargest + 64});
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= kLargest; size *= 2) {
    for (const std::size_t near : {size - 1, size, size + 1}) {
      if (near >= 1 && near <= kLargest) sizes.push_back(near);
    }
  }
  for (const std::size_t size : sizes) {
    for (const std::size_t offset : {std::size_t{0}, size % 61, kTestRegionSize - size}) {
      const auto bytes = client->Read(offset, {size});
      ASSERT_THAT(bytes, IsOk());
      ASSERT_TRUE(*bytes == RegionText(offset, size)) << size << " bytes at " << offset;
    }
  }
}

TEST_P(TransportTest, ReadsAreScattered) {
  StartService();
  const auto client = Open();
  std::mt19937_64 random(1);
  for (int i = 0; i < Rounds(1000); ++i) {
    const std::size_t a = 1 + random() % 700, b = 1 + random() % 40, c = 1 + random() % 9000,
                      d = 1 + random() % 8;
    const std::uint64_t offset = random() % (kTestRegionSize - 10000);
    const auto bytes = client->Read(offset, {a, b, c, d});
    ASSERT_THAT(bytes, IsOk());
    ASSERT_TRUE(*bytes == RegionText(offset, a + b + c + d)) << offset << ": " << a << ' ' << b << ' ' << c;
    ASSERT_EQ(client->Read(offset, {a, b}).value_or(""), RegionText(offset, a + b));
  }
}

TEST_P(TransportTest, ReadBeyondTheRegionIsNotPosted) {
  StartService();
  const auto client = Open();
  EXPECT_THAT(client->Read(kTestRegionSize, {1}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client->Read(kTestRegionSize - 7, {4, 4}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client->Read(~std::uint64_t{0} - 3, {8}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client->Read(0, {1, 1, 1, 1, 1}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(client->Read(kTestRegionSize - 8, {4, 4}).value_or(""), RegionText(kTestRegionSize - 8, 8));
}

TEST_P(TransportTest, ForgedRegionsBreakOnlyTheForger) {
  StartService();
  const auto other = Open();
  const RemoteRegion real = other->welcome().region;
  RemoteRegion larger = real, stranger = real;
  larger.size += std::uint64_t{1} << 30;
  stranger.key += 77;
  for (const RemoteRegion& forged : {larger, stranger}) {
    const auto forger = Open();
    EXPECT_THAT(forger->ReadFrom(forged, forged.size - 16, {16}),
                HasCode(absl::StatusCode::kPermissionDenied));
    EXPECT_EQ(forger->AwaitDisconnect().value_or(absl::OkStatus()).code(),
              absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(forger->Read(0, {1}), HasCode(absl::StatusCode::kPermissionDenied));
  }
  EXPECT_EQ(other->Read(5, {100}).value_or(""), RegionText(5, 100));
}

// --- WRITE and messages ----------------------------------------------------------------------------

TEST_P(TransportTest, MessagesOfAllSizes) {
  StartService();
  const auto client = Open();
  for (std::size_t size = 1; size <= kMaxMessageSize; size += size <= kMaxShortMessage + 1 ? 1 : 233) {
    const std::string message = static_cast<char>(ServiceOp::kEcho) + RegionText(size, size - 1);
    ASSERT_EQ(client->Call(message).value_or(""), message);
  }
  const std::string longest = static_cast<char>(ServiceOp::kEcho) + RegionText(7, kMaxMessageSize - 1);
  EXPECT_EQ(client->Call(longest).value_or(""), longest);
  EXPECT_THAT(client->Send(std::string(kMaxMessageSize + 1, 'x')),
              HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_P(TransportTest, AMessageComesAfterTheWritesBeforeIt) {  // O1
  StartService();
  const auto client = Open();
  std::mt19937_64 random(2);
  for (int i = 0; i < Rounds(5000); ++i) {
    const std::size_t size = 1 + random() % (i % 16 == 0 ? 40000 : 600);
    const std::uint64_t offset = random() % (kTestStagingSize - size);
    const std::string bytes = RandomText(random, size);
    ASSERT_THAT(client->Write(offset, bytes), IsOk());
    const auto reply = client->Call(CommandText(ServiceOp::kHashStaging, offset, size));
    ASSERT_THAT(reply, IsOk());
    ASSERT_EQ(NumberIn(*reply), HashOf(BytesOf(bytes)))
        << "round " << i << ", " << size << " bytes at " << offset;
  }
}

TEST_P(TransportTest, AReadSeesTheWritesBeforeIt) {  // O2
  StartService();
  const auto client = Open();
  std::mt19937_64 random(3);
  for (int i = 0; i < Rounds(2000); ++i) {
    const std::string bytes = RandomText(random, 1 + random() % 300);
    const std::uint64_t offset = random() % (kTestStagingSize - bytes.size());
    ASSERT_THAT(client->Write(offset, bytes), IsOk());
    const auto seen = client->ReadFrom(client->welcome().staging, offset, {bytes.size()});
    if (is_verbs()) {
      // The device lets nobody READ memory for WRITE, so what there would be to observe is rejected.
      ASSERT_THAT(seen, HasCode(absl::StatusCode::kPermissionDenied));
      return;
    }
    ASSERT_TRUE(seen.value_or("") == bytes) << "round " << i;
  }
}

TEST_P(TransportTest, WriteBeyondTheRegionIsNotPosted) {
  StartService();
  const auto client = Open();
  EXPECT_THAT(client->Write(kTestStagingSize, "x"), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(client->Write(kTestStagingSize - 3, "four"), HasCode(absl::StatusCode::kInvalidArgument));
  ASSERT_THAT(client->Write(kTestStagingSize - 4, "four"), IsOk());
  EXPECT_EQ(
      NumberIn(client->Call(CommandText(ServiceOp::kHashStaging, kTestStagingSize - 4, 4)).value_or("")),
      HashOf(BytesOf("four")));
}

TEST_P(TransportTest, MessagesKeepTheirOrder) {
  StartService();
  const auto client = Open();
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  const auto total = static_cast<std::uint64_t>(Rounds(20000));
  while (received < total) {
    for (; sent < total && sent - received < QueueLimits().receives; ++sent) {
      ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho, sent)), IsOk());
    }
    ASSERT_EQ(client->Receive().value_or(""), CommandText(ServiceOp::kEcho, received));
    ++received;
  }
}

TEST_P(TransportTest, ManyConnectionsAtOnce) {
  StartService();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Open());
  for (int round = 0; round < Rounds(100); ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      ASSERT_THAT(clients[i]->Write(0, std::string(100, static_cast<char>('a' + i))), IsOk());
      ASSERT_THAT(clients[i]->Send(CommandText(ServiceOp::kHashStaging, 0, 100)), IsOk());
      ASSERT_THAT(clients[i]->PostRead(i, 50), IsOk());
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
      ASSERT_EQ(NumberIn(clients[i]->Receive().value_or("")),
                HashOf(BytesOf(std::string(100, static_cast<char>('a' + i)))));
    }
  }
}

// --- Limits ----------------------------------------------------------------------------------------

TEST_P(TransportTest, ASmallReceiveBreaksOnlyItsConnection) {
  StartService();
  const auto other = Open();
  const auto client = Open({.mode = ServiceMode::kTinyReceives});
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho)), IsOk());
  EXPECT_THAT(client->AwaitDisconnect(), IsOk());
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 1; }));
  EXPECT_EQ(other->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

TEST_P(TransportTest, ASmallReceiveOfTheClientBreaksOnlyItsConnection) {
  StartService();
  const auto other = Open();
  const auto client = Open({.receive_size = 8});
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho)), IsOk());
  EXPECT_EQ(client->AwaitDisconnect().value_or(absl::OkStatus()).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 1; }));
  EXPECT_EQ(other->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

TEST_P(TransportTest, NoMorePostedThanTheLimits) {
  const QueueLimits limits{.sends = 4, .receives = 2, .reads = 2};
  StartService(limits);
  const auto client = Open({.limits = limits});
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < limits.sends; ++i) ASSERT_THAT(client->PostRead(i, 1), IsOk());
    EXPECT_THAT(client->PostRead(0, 1), HasCode(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(client->Send("message"), HasCode(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(client->Write(0, "bytes"), HasCode(absl::StatusCode::kResourceExhausted));
    ASSERT_THAT(client->AwaitReads(limits.sends), IsOk());
  }
  // The client posted all the receives there may be when it connected.
  std::array<std::byte, 8> buffer;
  const auto registration = client->connection().RegisterMessages(buffer);
  ASSERT_THAT(registration, IsOk());
  EXPECT_THAT(client->connection().PostRecv(0, MakeSge(**registration, 0, 8)),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(client->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

// A WRITE counts until a later SEND is done.
TEST_P(TransportTest, WritesCountAgainstTheLimit) {
  const QueueLimits limits{.sends = 4, .receives = 2, .reads = 2};
  StartService(limits);
  const auto client = Open({.limits = limits});
  for (int round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_THAT(client->Write(i, "x"), IsOk());
    ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho)), IsOk());
    EXPECT_THAT(client->Write(3, "x"), HasCode(absl::StatusCode::kResourceExhausted));
    ASSERT_THAT(client->Receive(), IsOk());
    absl::Status posted;
    while (absl::IsResourceExhausted(posted = client->PostRead(0, 1))) client->Poll();
    ASSERT_THAT(posted, IsOk());
    ASSERT_THAT(client->AwaitReads(1), IsOk());
  }
}

// --- Sleeping --------------------------------------------------------------------------------------

TEST_P(TransportTest, WaitEndsAtItsDeadline) {
  StartService();
  const auto client = Open();
  const TimePoint deadline = clock_.Now() + std::chrono::milliseconds(20);
  absl::Status status;
  while (status.ok()) status = client->connection().Wait(deadline);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GE(clock_.Now(), deadline);
  EXPECT_EQ(client->Poll(), 0u);
}

TEST_P(TransportTest, NoWakeUpIsLost) {
  StartService();
  const auto client = Open();
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(Rounds(10000)); ++i) {
    const TimePoint deadline = clock_.Now() + std::chrono::minutes(1);
    ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho, i)), IsOk());
    while (client->receive_count() == 0) {  // no spinning: the service and this side sleep for each other
      if (client->Poll() > 0) continue;
      ASSERT_THAT(client->connection().Wait(deadline), IsOk());
    }
    ASSERT_EQ(client->Receive().value_or(""), CommandText(ServiceOp::kEcho, i));
  }
}

/// Returns whether `fd` turns readable within a minute.
bool SleepOn(int fd) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 60'000) == 1;
}

TEST_P(TransportTest, NoWakeUpOfADescriptorIsLost) {
  StartService();
  const auto client = Open();
  const int fd = client->connection().wait_fd();
  ASSERT_GE(fd, 0);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(Rounds(10000)); ++i) {
    ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho, i)), IsOk());
    while (client->receive_count() == 0) {
      client->connection().Arm();
      if (client->Poll() == 0) {
        ASSERT_TRUE(SleepOn(fd)) << "round " << i;
      }
      client->connection().Disarm();
      client->Poll();
    }
    ASSERT_EQ(client->Receive().value_or(""), CommandText(ServiceOp::kEcho, i));
  }
}

// A client that was woken and has taken all completions sleeps again.
TEST_P(TransportTest, ADescriptorRestsWhenNothingComes) {
  StartService();
  const auto client = Open();
  ASSERT_EQ(client->Call(CommandText(ServiceOp::kEcho, 1)).value_or(""), CommandText(ServiceOp::kEcho, 1));
  pollfd one = {client->connection().wait_fd(), POLLIN, 0};
  bool rests = false;
  for (int i = 0; i < 10 && !rests; ++i) {  // events in flight may wake it a few times
    client->connection().Arm();
    while (client->Poll() > 0) {
    }
    rests = poll(&one, 1, 20) == 0;
    client->connection().Disarm();
  }
  EXPECT_TRUE(rests);
}

// NextRequest, of whatever wakes, takes only what it returns.
TEST_P(TransportTest, AListenerThatIsWokenBetweenItsTwoLooksStaysAwake) {
  const auto listener = ListenAt(where_);
  ASSERT_THAT(listener, IsOk());
  const TimePoint deadline = clock_.Now() + std::chrono::minutes(1);
  std::unique_ptr<ClientConnection> client;
  std::thread connecting([&] {
    auto dialed = DialAt((*listener)->address(), deadline);
    ASSERT_THAT(dialed, IsOk());
    client = *std::move(dialed);
    EXPECT_THAT(client->Connect({}, deadline), IsOk());
  });
  std::array<std::byte, kMaxMessageSize> received{};
  std::array<std::byte, 8> sent{};
  std::unique_ptr<ServerConnection> server;
  while (server == nullptr && clock_.Now() < deadline) server = (*listener)->NextRequest();
  std::unique_ptr<Registration> to;
  if (server != nullptr) {
    auto messages = server->RegisterMessages(received);
    EXPECT_THAT(messages, IsOk());
    to = *std::move(messages);
    EXPECT_THAT(server->PostRecv(1, MakeSge(*to, 0, received.size())), IsOk());
    EXPECT_THAT(server->Accept({}), IsOk());
  }
  connecting.join();
  ASSERT_NE(client, nullptr);
  ASSERT_NE(server, nullptr);
  const auto from = client->RegisterMessages(sent);
  ASSERT_THAT(from, IsOk());

  std::array<Completion, 4> completions;
  (*listener)->Arm();
  while ((*listener)->Poll(completions) > 0) {
  }
  ASSERT_THAT(client->PostSend(1, MakeSge(**from, 0, sent.size())), IsOk());
  ASSERT_TRUE(SleepOn((*listener)->wait_fd()));
  EXPECT_EQ((*listener)->NextRequest(), nullptr);
  pollfd one = {(*listener)->wait_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&one, 1, 0), 1) << "it would sleep, with a message there";
  (*listener)->Disarm();
  std::size_t count = 0;
  while (count == 0 && clock_.Now() < deadline) count = (*listener)->Poll(completions);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(completions[0].kind, CompletionKind::kReceive);
}

TEST_P(TransportTest, ReadsDoNotWakeTheServer) {
  StartService();
  const auto client = Open();
  const std::uint64_t before = NumberIn(client->Call(CommandText(ServiceOp::kCountWakeUps)).value_or(""));
  ASSERT_TRUE(service_->AwaitSleep());
  for (int i = 0; i < 1000; ++i) ASSERT_THAT(client->Read(0, {64}), IsOk());
  const std::uint64_t after = NumberIn(client->Call(CommandText(ServiceOp::kCountWakeUps)).value_or(""));
  EXPECT_LE(after - before, 4u) << "the two messages may wake it, and the ends of its replies";
}

// --- Resources -------------------------------------------------------------------------------------

struct Held {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t mappings = 0;
};
Held CountHeld() {
  Held held;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  held.descriptors = std::distance(begin(descriptors), end(descriptors));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    held.mappings += line.find("/memfd:") != std::string::npos;
  return held;
}

/// Mappings of memory that a connection has to itself.
int CountOfConnections() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    for (const char* const name :
         {"/memfd:remora-to-client ", "/memfd:remora-to-server ", "/memfd:remora-test-staging "}) {
      count += line.find(name) != std::string::npos;
    }
  }
  return count;
}

TEST_P(TransportTest, ResourcesAreGivenBack) {
  StartService();
  const auto connect_some = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_THAT(Open()->Read(0, {1}), IsOk());
    ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  };
  // rdma/memory_pool.h: so many of each of three kinds are made ahead, and what is left of others is taken
  // apart, by and by. Here nobody is connected, so what there is of them is what is ready.
  const int ready = is_verbs() || is_tcp() ? 0 : 3 * 4;
  // A thread of the service, which may have no CPU just now, closes the last descriptors.
  const auto rests = [&](std::ptrdiff_t most) {
    for (int i = 0; i < 6000 && (CountOfConnections() != ready || CountHeld().descriptors > most); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(CountOfConnections(), ready);
    return CountHeld();
  };
  connect_some(3);  // libraries keep some for good
  const Held before = rests(/*most=*/1'000'000);
  connect_some(Rounds(200));
  const Held after = rests(before.descriptors);
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_LE(after.mappings, before.mappings);
}

}  // namespace
}  // namespace remora::rdma
