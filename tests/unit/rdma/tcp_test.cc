// Properties of tcp:// beside the transport contract: rights to WRITE, slow peers, and the
// addresses that it listens at.
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rdma/tcp/stream/socket.h"
#include "tests/support/sanitizers.h"
#include "tests/support/waiting_child.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/pinned_to.h"
#include "tests/unit/rdma/raw_tcp.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

class TcpTest : public ::testing::Test {
 protected:
  void StartService(const QueueLimits& limits = {}, const std::string& host = "127.0.0.1",
                    bool with_tls = false) {
    auto service = ServiceThread::Start(
        {.kind = TransportKind::kTcp, .host = host, .port = 0, .path = "", .tls = with_tls}, limits, clock_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
  }
  std::unique_ptr<Client> Open(const ClientOptions& options = {}) {
    auto client = Client::Open(service_->address(), clock_, options);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
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

  const SteadyClock clock_ = {};
  std::unique_ptr<ServiceThread> service_;
};

// --- Who can WRITE where ---------------------------------------------------------------------------

TEST_F(TcpTest, AStagingBufferIsItsOwnClientsAlone) {
  StartService();
  service_->Do([](Service& service) { EXPECT_TRUE(service.binds_writes()); });
  const auto owner = Open();
  ASSERT_EQ(WriteTo(*owner, owner->welcome().staging, 0, "mine"), "");
  const RemoteRegion grant = Grant(*owner, 4096, 100'000);
  const std::uint64_t before = StagingHash(*owner);
  EXPECT_EQ(WriteTo(*Open(), owner->welcome().staging, 0, "evil"), "PERMISSION_DENIED");
  EXPECT_EQ(WriteTo(*Open(), grant, 0, "evil"), "PERMISSION_DENIED");
  EXPECT_EQ(StagingHash(*owner), before);
  EXPECT_EQ(owner->Read(4096, {4}).value_or(""), RegionText(4096, 4));
  ASSERT_EQ(WriteTo(*owner, grant, 0, "good"), "");
  EXPECT_EQ(owner->Read(4096, {4}).value_or(""), "good");
}

TEST_F(TcpTest, NoKeyButOnesOwnIsWritten) {
  StartService();
  const auto owner = Open();
  const RemoteRegion staging = owner->welcome().staging;
  for (std::uint32_t key = 0; key < 2 * staging.key + 4; ++key) {
    if (key == staging.key) continue;
    RemoteRegion forged = staging;
    forged.key = key;
    EXPECT_EQ(WriteTo(*Open(), forged, 0, "evil"), "PERMISSION_DENIED") << key;
  }
  EXPECT_EQ(owner->Read(0, {4096}).value_or(""), RegionText(0, 4096));
}

TEST_F(TcpTest, NothingBesideAGrantCanBeWritten) {
  StartService();
  for (const bool before : {true, false}) {
    const auto client = Open();
    RemoteRegion wider = Grant(*client, 8192 + 64, 5000);
    wider.size += 16;
    if (before) wider.address -= 1;
    EXPECT_EQ(WriteTo(*client, wider, before ? 0 : 4998, "evil"), "PERMISSION_DENIED");
    EXPECT_EQ(Open()->Read(8192, {64 + 5000 + 64}).value_or(""), RegionText(8192, 64 + 5000 + 64));
  }
}

TEST_F(TcpTest, ARevokedGrantIsNotWritable) {
  StartService();
  const auto owner = Open();
  const RemoteRegion first = Grant(*owner, 0, 4096);
  const RemoteRegion second = Grant(*owner, 0, 4096);
  EXPECT_NE(first.key, second.key);
  ASSERT_EQ(WriteTo(*owner, second, 0, "good"), "");
  EXPECT_EQ(WriteTo(*owner, first, 0, "evil"), "PERMISSION_DENIED");
  EXPECT_EQ(Open()->Read(0, {4}).value_or(""), "good");
}

// A client writes as fast as it can while its grant ends: nothing changes behind the end.
TEST_F(TcpTest, NothingLandsBehindTheEndOfAGrant) {
  constexpr std::size_t kSize = kTestStagingSize;
  StartService();
  for (int round = 0; round < 20; ++round) {
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

TEST_F(TcpTest, AClientThatTheServiceDisconnectsIsTold) {
  StartService();
  const auto writer = Open(), asker = Open(), idle = Open();
  const RemoteRegion grant = Grant(*writer, 0, 4096);
  service_->Do([](Service& service) { service.DisconnectAll(); });
  EXPECT_EQ(WriteTo(*writer, grant, 0, "late"), "UNAVAILABLE");
  EXPECT_THAT(asker->Call(CommandText(ServiceOp::kEcho)), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(idle->AwaitDisconnect().value_or(absl::OkStatus()), HasCode(absl::StatusCode::kUnavailable));
}

TEST_F(TcpTest, BothSidesKnowWhyAConnectionWasEnded) {
  StartService();
  const auto client = Open();
  RemoteRegion forged = client->welcome().region;
  forged.key += 77;
  EXPECT_THAT(client->ReadFrom(forged, 0, {8}), HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(std::string(client->connection().status().message()),
              HasSubstr("the server ended the connection: READ: outside the regions"));
}

// --- Who is slow -----------------------------------------------------------------------------------

/// Returns the resident memory of this process, in bytes.
std::size_t ResidentBytes() {
  std::size_t pages = 0, resident = 0;
  FILE* const file = std::fopen("/proc/self/statm", "r");
  REMORA_CHECK(file != nullptr && std::fscanf(file, "%zu %zu", &pages, &resident) == 2);
  std::fclose(file);
  return resident * 4096;
}

// It posts all that it may, of far more than the sockets hold, and does not look: others are served.
TEST_F(TcpTest, AClientThatDoesNotReadItsAnswersHarmsNobody) {
  StartService();
  const auto other = Open();
  const auto slow = Open({.read_buffer_size = std::size_t{1} << 20});
  const std::size_t before = ResidentBytes();
  std::size_t posted = 0;
  while (slow->PostRead(0, 1 << 20).ok()) ++posted;
  EXPECT_EQ(posted, QueueLimits().sends);
  slow->connection().Arm();  // they leave, as far as the socket takes them
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(other->Call(CommandText(ServiceOp::kEcho, i)).value_or(""), CommandText(ServiceOp::kEcho, i));
    ASSERT_EQ(other->Read(i, {100}).value_or(""), RegionText(i, 100));
  }
  EXPECT_LT(ResidentBytes(), before + (std::size_t{32} << 20)) << "answers are held in this process";
  slow->connection().Disarm();
  EXPECT_THAT(slow->AwaitReads(posted), IsOk());
  EXPECT_EQ(slow->Read(77, {1000}).value_or(""), RegionText(77, 1000));
}

// Messages for which there is no receive wait, and READs behind them, until there is one.
TEST_F(TcpTest, MessagesWaitForReceives) {
  const auto listener =
      Listen({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""}, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  auto memory = SharedMemory::Create("remora-test", 4096, SharedMemory::Writers::kOwnerOnly);
  ASSERT_THAT(memory, IsOk());
  std::memset((*memory)->bytes().data(), 'r', 4096);
  const auto region = (*listener)->RegisterRead(**memory);
  ASSERT_THAT(region, IsOk());
  const TimePoint deadline = clock_.Now() + kPatience;
  auto client = Dial((*listener)->address(), {}, clock_, deadline);
  ASSERT_THAT(client, IsOk());
  std::jthread connecting([&] { EXPECT_THAT((*client)->Connect({}, deadline), IsOk()); });
  std::unique_ptr<ServerConnection> server;
  while (server == nullptr && clock_.Now() < deadline) server = (*listener)->NextRequest();
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->Accept({}), IsOk());
  connecting.join();

  std::array<std::byte, 64> sent{}, received{}, read{};
  const auto from = (*client)->RegisterMessages(sent);
  const auto into = (*client)->RegisterMessages(read);
  const auto to = server->RegisterMessages(received);
  for (int i = 0; i < 10; ++i) ASSERT_THAT((*client)->PostSend(1, MakeSge(**from, 0, 64)), IsOk());
  const Sge sge = MakeSge(**into, 0, 64);
  ASSERT_THAT((*client)->PostReadv(2, {&sge, 1}, *region, 0), IsOk());
  std::array<Completion, 16> completions;
  const auto has_read = [&] {
    const std::size_t count = (*client)->Poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].kind == CompletionKind::kRead) return completions[i].ok;
    }
    return false;
  };
  for (int i = 0; i < 10; ++i) {
    for (int look = 0; look < 20; ++look) {
      EXPECT_FALSE(has_read());
      EXPECT_EQ((*listener)->Poll(completions), 0u);
    }
    ASSERT_THAT(server->PostRecv(7, MakeSge(**to, 0, 64)), IsOk());
    std::size_t count = 0;
    while (count == 0 && clock_.Now() < deadline) count = (*listener)->Poll(completions);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(completions[0].kind, CompletionKind::kReceive);
    EXPECT_EQ(completions[0].byte_count, 64u);
  }
  bool done = false;
  while (!done && clock_.Now() < deadline) done = has_read();
  EXPECT_TRUE(done);
  EXPECT_EQ(read[63], std::byte{'r'});
  client->reset();
}

// --- Waiting --------------------------------------------------------------------------------------

/// Returns the CPU time of the calling thread.
std::chrono::nanoseconds ThreadCpuTime() {
  timespec time{};
  REMORA_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST_F(TcpTest, AClientThatWaitsSleeps) {
  StartService();
  const auto client = Open();
  AdaptivePoller spinner;
  std::array<Completion, 4> completions;
  const std::chrono::nanoseconds before = ThreadCpuTime();
  const auto waited =
      PollUntil(client->connection(), completions, clock_.Now() + std::chrono::seconds(2), spinner);
  EXPECT_THAT(waited, HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(ThreadCpuTime() - before, std::chrono::milliseconds(500));
}

// The threads of a service run where its starter did.
TEST_F(TcpTest, EachSideKnowsWhetherTheOtherRunsOnItsCpu) {
  const std::vector<int> cpus = UsableCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
  const std::string echo = CommandText(ServiceOp::kEcho);
  for (const int other : {cpus[0], cpus[1]}) {
    {
      const PinnedTo service_cpu(other);
      StartService();
    }
    for (const int own : {cpus[0], cpus[1]}) {
      const PinnedTo client_cpu(own);
      const auto client = Open();
      ASSERT_THAT(client->Call(echo), IsOk());
      EXPECT_EQ(client->connection().PollingPays(), own != other);
      service_->Do([](Service& service) { EXPECT_FALSE(service.polling_pays()); });
    }
    // The service's own thread goes elsewhere; its NIC thread does not.
    std::optional<PinnedTo> moved;
    service_->Do([&](Service&) { moved.emplace(other == cpus[0] ? cpus[1] : cpus[0]); });
    const auto client = Open();
    ASSERT_THAT(client->Call(echo), IsOk());
    service_->Do([&](Service& service) {
      EXPECT_TRUE(service.polling_pays());
      moved.reset();
    });
    service_.reset();
  }
}

// --- What is left ---------------------------------------------------------------------------------

/// Returns the entries of a folder of /proc/self.
std::ptrdiff_t EntriesOf(const char* folder) {
  const std::filesystem::directory_iterator entries(std::string("/proc/self/") + folder);
  return std::distance(begin(entries), end(entries));
}

/// With the scheme.
class LeftoversTest : public TcpTest, public ::testing::WithParamInterface<const char*> {
 protected:
  bool has_tls() const { return std::string_view(GetParam()) == "tls"; }
  /// Two clients that never become connections: one that the service rejects, and one that stops before.
  void Fail() {
    Address address = service_->address();
    const TimePoint deadline = clock_.Now() + kPatience;
    const std::byte mode{static_cast<unsigned char>(ServiceMode::kReject)};
    const auto connection =
        Dial(address, {}, clock_, deadline,
             has_tls() ? ClientTls{.files = {}, .secret = "another secret"} : ClientTls{});
    ASSERT_THAT(connection, IsOk());
    ASSERT_FALSE((*connection)->Connect({&mode, 1}, deadline).ok());
    // The head of a TLS record with a handshake, or of a hello.
    RawTcp stops(address);
    has_tls() ? stops.Say("\x16\x03\x01\x02", 4) : stops.Say(kTcpMagic);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, LeftoversTest, ::testing::Values("tcp", "tls"),
                         [](const auto& test) { return std::string(test.param); });

// REMORA_TCP_CONNECTS: how many; 5,000 in the long tier.
TEST_P(LeftoversTest, NothingIsLeftOfConnectionsThatEnded) {
  const char* const asked = std::getenv("REMORA_TCP_CONNECTS");
  const int connects = asked == nullptr ? 200 : std::atoi(asked);
  ASSERT_GT(connects, 0);
  StartService({}, "127.0.0.1", has_tls());
  const std::ptrdiff_t before = EntriesOf("fd");
  const auto connect = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (i % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(Fail());
      }
      const auto client = Open();
      ASSERT_NE(client, nullptr);
      ASSERT_EQ(client->Call(CommandText(ServiceOp::kEcho, 1)).value_or(""),
                CommandText(ServiceOp::kEcho, 1));
      ASSERT_EQ(client->Read(3, {40}).value_or(""), RegionText(3, 40));
    }
    ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  };
  connect(100);
  // The acceptor may still have to see that a client has gone.
  const auto await_descriptors = [](std::ptrdiff_t count) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (EntriesOf("fd") > count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return EntriesOf("fd");
  };
  const std::ptrdiff_t descriptors = await_descriptors(before), threads = EntriesOf("task");
  EXPECT_EQ(descriptors, before);
  const std::size_t resident = ResidentBytes();
  connect(connects);
  EXPECT_EQ(await_descriptors(before), before);
  EXPECT_EQ(EntriesOf("task"), threads);
  // A link alone has 8 KiB, and a TLS stream 50 KiB. AddressSanitizer keeps what was freed.
  if (!kAddressSanitizer) {
    const std::size_t most = (std::size_t{4} << 20) + static_cast<std::size_t>(connects) * 2048;
    EXPECT_LT(ResidentBytes(), resident + most);
  }
}

/// Returns how many files the epoll instances of this process watch.
std::size_t WatchedFiles() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

TEST_F(TcpTest, ASocketThatAChildHasTooIsWatchedNoMoreOnceItsConnectionEnded) {
  StartService();
  const auto await_no_session = [this] {
    return service_->Await([](Service& service) { return service.session_count() == 0; });
  };
  Open().reset();
  ASSERT_TRUE(await_no_session());
  const std::size_t before = WatchedFiles();
  auto client = Open();
  ASSERT_NE(client, nullptr);
  std::optional<RawTcp> says_nothing(service_->address());
  WaitingChild child;
  client.reset();
  says_nothing.reset();
  EXPECT_TRUE(await_no_session());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (WatchedFiles() != before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(WatchedFiles(), before);
}

// --- Where -----------------------------------------------------------------------------------------

TEST_F(TcpTest, Ipv6) {
  StartService({}, "::1");
  EXPECT_THAT(service_->address().ToString(), HasSubstr("tcp://[::1]:"));
  const auto client = Open();
  EXPECT_THAT(client->connection().peer(), HasSubstr("[::1]:"));
  EXPECT_EQ(client->Read(3, {40}).value_or(""), RegionText(3, 40));
}

// Of a name's addresses, one is served.
TEST_F(TcpTest, AllAddressesOfANameAreTried) {
  const auto addresses =
      ResolveTcp({.kind = TransportKind::kTcp, .host = "localhost", .port = 1, .path = ""}, false);
  ASSERT_THAT(addresses, IsOk());
  for (const char* const host : {"127.0.0.1", "::1"}) {
    const bool is_named = std::ranges::any_of(*addresses, [&](const TcpSocketAddress& address) {
      return address.ToString() == (host[0] == ':' ? "[::1]:1" : "127.0.0.1:1");
    });
    if (!is_named) continue;
    StartService({}, host);
    Address named = service_->address();
    named.host = "localhost";
    const auto client = Client::Open(named, clock_);
    ASSERT_THAT(client, IsOk());
    EXPECT_EQ((*client)->Read(3, {40}).value_or(""), RegionText(3, 40));
    service_.reset();
  }
}

TEST_F(TcpTest, NoSuchHost) {
  const Address nowhere{.kind = TransportKind::kTcp, .host = "no-such-host.invalid", .port = 1, .path = ""};
  EXPECT_THAT(Client::Open(nowhere, clock_), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Listen(nowhere, {}, clock_), HasCode(absl::StatusCode::kUnavailable));
  // Of the addresses for documents: no interface has it.
  const Address others{.kind = TransportKind::kTcp, .host = "192.0.2.1", .port = 0, .path = ""};
  EXPECT_THAT(Listen(others, {}, clock_), HasCode(absl::StatusCode::kFailedPrecondition));
}

// Connections are shared out among the threads, each of which serves its own.
TEST_F(TcpTest, SeveralThreadsServe) {
  const auto listener = Listen({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""}, {},
                               clock_, MemoryWindows::kAuto, 3);
  ASSERT_THAT(listener, IsOk());
  auto memory = SharedMemory::Create("remora-test", 4096, SharedMemory::Writers::kOwnerOnly);
  ASSERT_THAT(memory, IsOk());
  std::memset((*memory)->bytes().data(), 'r', 4096);
  const auto region = (*listener)->RegisterRead(**memory);
  ASSERT_THAT(region, IsOk());
  const TimePoint deadline = clock_.Now() + kPatience;
  std::vector<std::unique_ptr<ServerConnection>> servers;
  std::vector<std::jthread> readers;
  std::atomic<int> done = 0;
  for (int i = 0; i < 6; ++i) {
    readers.emplace_back([&] {
      auto client = Dial((*listener)->address(), {}, clock_, deadline);
      ASSERT_THAT(client, IsOk());
      ASSERT_THAT((*client)->Connect({}, deadline), IsOk());
      std::array<std::byte, 64> read{};
      const auto into = (*client)->RegisterMessages(read);
      const Sge sge = MakeSge(**into, 0, 64);
      AdaptivePoller spinner;
      std::array<Completion, 4> completions;
      for (int j = 0; j < 500; ++j) {
        ASSERT_THAT((*client)->PostReadv(2, {&sge, 1}, *region, 0), IsOk());
        ASSERT_THAT(PollUntil(**client, completions, deadline, spinner), IsOk());
        ASSERT_TRUE(completions[0].ok);
      }
      EXPECT_EQ(read[63], std::byte{'r'});
      ++done;
    });
  }
  std::array<Completion, 4> completions;
  while (done < 6 && clock_.Now() < deadline) {
    if (auto server = (*listener)->NextRequest()) {
      EXPECT_THAT(server->Accept({}), IsOk());
      servers.push_back(std::move(server));
    }
    (*listener)->Poll(completions);
    std::this_thread::yield();
  }
  EXPECT_EQ(done, 6);
}

}  // namespace
}  // namespace remora::rdma
