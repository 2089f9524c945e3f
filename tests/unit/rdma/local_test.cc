// Properties of the local transport alone: the socket's path, the admitted users, and the server's
// death. Clients that break the rules: local_hostile_test.cc. The contract: transport_test.cc.
#include "rdma/local/local.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rdma/local/liveness.h"
#include "rdma/local/mapped_region.h"
#include "rdma/local/socket.h"
#include "tests/support/as_user.h"
#include "tests/unit/rdma/pinned_to.h"
#include "tests/unit/rdma/transport_fixture.h"
#include "tests/unit/rdma/transport_peer.h"

namespace remora::rdma {
namespace {

class LocalTest : public ::testing::Test {
 protected:
  LocalTest() {
    where_ = {.kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
  }

  absl::Status TryListen() { return Listen(where_, {}, clock_).status(); }
  void StartService() {
    auto service = ServiceThread::Start(where_, {}, clock_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
  }
  std::unique_ptr<Client> Open() {
    auto client = Client::Open(where_, clock_);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// Binds a socket of `type` there, listening or not.
  UniqueFd Occupy(int type, bool listening) {
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, where_.path.c_str());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (listening) {
      EXPECT_EQ(listen(fd.get(), 1), 0);
    }
    return fd;
  }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  Address where_;
  std::unique_ptr<ServiceThread> service_;
};

// --- The path --------------------------------------------------------------------------------------

TEST_F(LocalTest, TheSocketIsItsOwnersAndGoesWithTheListener) {
  {
    const auto listener = Listen(where_, {}, clock_);
    ASSERT_THAT(listener, IsOk());
    struct stat status;
    ASSERT_EQ(stat(where_.path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, static_cast<mode_t>(S_IFSOCK | S_IRUSR | S_IWUSR));
    EXPECT_THAT(TryListen(), HasCode(absl::StatusCode::kAlreadyExists));
  }
  EXPECT_FALSE(std::filesystem::exists(where_.path));
  EXPECT_THAT(TryListen(), IsOk());
}

TEST_F(LocalTest, AStaleSocketIsReplaced) {
  Occupy(SOCK_SEQPACKET, true);
  ASSERT_TRUE(std::filesystem::exists(where_.path));
  StartService();
  EXPECT_THAT(Open()->Read(0, {8}), IsOk());
}

TEST_F(LocalTest, TheSocketOfAKilledServerIsReplaced) {
  {
    PeerProcess peer("serve", ServeArgument(where_));
    ASSERT_EQ(peer.line(), where_.ToString());
    EXPECT_THAT(TryListen(), HasCode(absl::StatusCode::kAlreadyExists));
  }
  ASSERT_TRUE(std::filesystem::exists(where_.path));
  StartService();
  EXPECT_THAT(Open()->Read(0, {8}), IsOk());
}

TEST_F(LocalTest, ForeignFilesAndSocketsAreNotReplaced) {
  std::ofstream(where_.path) << "precious";
  EXPECT_THAT(TryListen(), HasCode(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(std::filesystem::file_size(where_.path), 8u);
  std::filesystem::remove(where_.path);
  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    const UniqueFd other = Occupy(type, true);
    EXPECT_THAT(TryListen(), HasCode(absl::StatusCode::kAlreadyExists));
    EXPECT_TRUE(std::filesystem::exists(where_.path));
    std::filesystem::remove(where_.path);
  }
}

TEST_F(LocalTest, AClientIsToldThatWhatIsThereIsNoServer) {
  const auto expect_rejection = [this] {
    const absl::Status opened = Client::Open(where_, clock_).status();
    EXPECT_THAT(opened, HasCode(absl::StatusCode::kUnavailable));
    EXPECT_THAT(std::string(opened.message()), testing::HasSubstr(where_.path + " is no "));
    std::filesystem::remove(where_.path);
  };
  std::ofstream(where_.path) << "a file";
  expect_rejection();
  std::filesystem::create_directory(where_.path);
  expect_rejection();
  const auto expect_other = [this](int type) {
    const UniqueFd other = Occupy(type, type == SOCK_STREAM);
    const absl::Status opened = Client::Open(where_, clock_).status();
    EXPECT_THAT(opened, HasCode(absl::StatusCode::kUnavailable));
    EXPECT_THAT(std::string(opened.message()), testing::HasSubstr(where_.path + " is no Remora server"));
    std::filesystem::remove(where_.path);
  };
  expect_other(SOCK_STREAM);
  expect_other(SOCK_DGRAM);
}

TEST_F(LocalTest, NoSuchDirectory) {
  where_.path = folder_.path() / "missing" / "socket";
  EXPECT_THAT(TryListen(), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(Client::Open(where_, clock_), HasCode(absl::StatusCode::kUnavailable));
}

TEST_F(LocalTest, ImpossibleLimits) {
  for (const QueueLimits& limits : {QueueLimits{.sends = 0}, QueueLimits{.receives = 0},
                                    QueueLimits{.sends = 1u << 31, .receives = 1u << 31}}) {
    EXPECT_THAT(Listen(where_, limits, clock_), HasCode(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(Dial(where_, limits, clock_, clock_.Now()), HasCode(absl::StatusCode::kInvalidArgument));
  }
}

// --- Who may come in -------------------------------------------------------------------------------

constexpr uid_t kNobody = 65534;

TEST_F(LocalTest, AnotherUserIsRejected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  StartService();
  const auto connect = [&] { return Client::Open(where_, clock_).status(); };
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  EXPECT_THAT(AsUser(kNobody, connect), HasCode(absl::StatusCode::kPermissionDenied))
      << "by the socket's mode";
  std::filesystem::permissions(where_.path, std::filesystem::perms::all);
  EXPECT_THAT(AsUser(kNobody, connect), HasCode(absl::StatusCode::kPermissionDenied)) << "by the server";
  service_->Do([](Service& service) { EXPECT_EQ(service.session_count(), 0u); });
  EXPECT_THAT(Open()->Read(0, {8}), IsOk());
}

/// Returns whether the listener lets in a process of user and group kNobody.
bool LetsNobodyIn(Listener& listener, const std::string& path) {
  const auto asked = AsUser(kNobody, [&] {
    auto socket = ConnectTo(path, std::chrono::seconds(60));
    EXPECT_THAT(socket, IsOk());
    EXPECT_THAT(SendHello(socket->get(), {}, {}), IsOk());
    return *std::move(socket);
  });
  const std::uint64_t dropped = listener.dropped_handshakes();
  // A listener that never sleeps looks at its sockets now and then.
  for (;;) {
    if (listener.NextRequest() != nullptr) return true;
    if (listener.dropped_handshakes() > dropped) return false;
  }
}

TEST_F(LocalTest, OtherUsersAreAdmittedAsAsked) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::permissions(folder_.path(), static_cast<std::filesystem::perms>(0755));
  struct Case {
    LocalAccess access;
    bool admits;
  };
  using enum LocalAccess::Admits;
  for (const Case& one : {Case{{.admits = kOwner, .mode = 0666, .group = kNobody}, false},
                          Case{{.admits = kGroup, .mode = 0660, .group = kNobody}, true},
                          Case{{.admits = kGroup, .mode = 0666, .group = kNobody - 1}, false},
                          Case{{.admits = kAnyone, .mode = 0666, .group = {}}, true}}) {
    const auto listener = Listen(where_, {}, clock_, MemoryWindows::kAuto, 1, one.access);
    ASSERT_THAT(listener, IsOk());
    EXPECT_EQ(LetsNobodyIn(**listener, where_.path), one.admits);
  }
}

TEST_F(LocalTest, TheSocketGetsItsModeAndGroup) {
  struct stat status;
  const mode_t before = umask(0027);
  const auto mode_of = [&](const LocalAccess& access) -> mode_t {
    const auto listener = Listen(where_, {}, clock_, MemoryWindows::kAuto, 1, access);
    EXPECT_THAT(listener, IsOk());
    EXPECT_EQ(stat(where_.path.c_str(), &status), 0);
    return status.st_mode & 0777;
  };
  using enum LocalAccess::Admits;
  EXPECT_EQ(mode_of({.admits = kGroup, .mode = 0660, .group = {}}), 0660u) << "whatever the umask is";
  EXPECT_EQ(mode_of({.admits = kAnyone, .mode = 0606, .group = {}}), 0606u);
  // Without a mode, the umask counts, and nobody is promised access that they do not get.
  for (const auto admits : {kGroup, kAnyone}) {
    EXPECT_THAT(
        Listen(where_, {}, clock_, MemoryWindows::kAuto, 1, {.admits = admits, .mode = {}, .group = {}}),
        HasCode(absl::StatusCode::kInvalidArgument));
    EXPECT_FALSE(std::filesystem::exists(where_.path));
  }
  umask(0007);
  EXPECT_EQ(mode_of({.admits = kGroup, .mode = {}, .group = {}}), 0660u);
  umask(0000);
  EXPECT_EQ(mode_of({.admits = kAnyone, .mode = {}, .group = {}}), 0666u);
  EXPECT_EQ(mode_of({}), 0600u);
  umask(before);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files to other groups";
  mode_of({.admits = kGroup, .mode = 0660, .group = 12345});
  EXPECT_EQ(status.st_gid, 12345u);
  // The setgid bit of the directory gives its group.
  ASSERT_EQ(chown(folder_.path().c_str(), 0, 12346), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 02770), 0);
  mode_of({.admits = kGroup, .mode = 0660, .group = {}});
  EXPECT_EQ(status.st_gid, 12346u);
}

TEST_F(LocalTest, FoldersInWhichAnybodyMayPutASocketAreFound) {
  const std::filesystem::path open = std::filesystem::canonical(folder_.path()) / "open";
  std::filesystem::create_directories(open / "closed");
  std::filesystem::permissions(open, static_cast<std::filesystem::perms>(01777));
  std::filesystem::create_directory_symlink(open / "closed", folder_.path() / "link");
  EXPECT_EQ(FolderForEverybody(open / "socket"), open);
  EXPECT_EQ(FolderForEverybody(open / "closed/socket"), open);
  EXPECT_EQ(FolderForEverybody(folder_.path() / "link/socket"), open);
  EXPECT_EQ(FolderForEverybody("/missing/socket"), "/missing/socket");
  EXPECT_EQ(FolderForEverybody("/usr/bin/socket"), "");
}

TEST_F(LocalTest, RootIsServedByAnotherUsersServer) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  ASSERT_EQ(seteuid(kNobody), 0);
  StartService();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(Open()->Read(0, {8}), IsOk());
}

TEST_F(LocalTest, ADirectoryThatIsNotWritable) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::permissions(folder_.path(), static_cast<std::filesystem::perms>(0755));
  const auto listen = [&] { return Listen(where_, {}, clock_).status(); };
  EXPECT_THAT(AsUser(kNobody, listen), HasCode(absl::StatusCode::kPermissionDenied));
}

// --- The server's death ----------------------------------------------------------------------------

TEST_F(LocalTest, NoReadSucceedsAfterTheListenerIsDestroyed) {
  StartService();
  const auto client = Open();
  ASSERT_THAT(client->Read(0, {8}), IsOk());
  service_.reset();
  EXPECT_THAT(client->Read(0, {8}), HasCode(absl::StatusCode::kUnavailable));
}

// By A1, a process that has got the dead server's lock may change its data; from then on nobody may
// read the old.
TEST_F(LocalTest, NoReadSucceedsOnceTheLockOfAKilledServerIsFree) {
  const int rounds = std::getenv("REMORA_GUEST") != nullptr ? 3 : 20;  // a process takes long to start there
  for (int round = 0; round < rounds; ++round) {
    PeerProcess peer("serve", ServeArgument(where_));
    const auto client = Open();
    ASSERT_EQ(client->Read(0, {8}).value_or(""), RegionText(0, 8));
    peer.Kill();
    while (!LockSocketPath(where_.path).ok()) continue;
    EXPECT_THAT(client->Read(0, {8}), HasCode(absl::StatusCode::kUnavailable));
  }
}

TEST_F(LocalTest, AliveUntilTheThreadLetsGoOrEnds) {
  auto alive = ServerLiveness::Create();
  ASSERT_THAT(alive, IsOk());
  void* seen = mmap(nullptr, sizeof(LocalListenerPage), PROT_READ, MAP_SHARED, (*alive)->memory().fd(), 0);
  ASSERT_NE(seen, MAP_FAILED);
  const auto& page = *static_cast<const LocalListenerPage*>(seen);
  EXPECT_TRUE(IsAlive(page));
  alive->reset();
  EXPECT_FALSE(IsAlive(page));
  munmap(seen, sizeof(LocalListenerPage));

  // Given up here, for only the thread that has ended could destroy it.
  static const ServerLiveness* abandoned = nullptr;
  std::thread([] { abandoned = ServerLiveness::Create()->release(); }).join();
  EXPECT_FALSE(IsAlive(abandoned->page()));
}

// --- Waking ----------------------------------------------------------------------------------------

// A message that comes after the last Poll wakes nobody, for nobody sleeps yet: Wait has to find it.
TEST_F(LocalTest, WaitSeesWhatCameSinceTheLastPoll) {
  StartService();
  const auto client = Open();
  while (client->Poll() > 0) continue;
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho)), IsOk());
  while (client->Poll() > 0) continue;  // the end of the SEND, perhaps the reply
  if (client->receive_count() == 0) {
    // The service does one thing after the other: after two tasks it has replied.
    for (int i = 0; i < 2; ++i) service_->Do([](Service&) {});
    EXPECT_THAT(client->connection().Wait(clock_.Now()), IsOk());
    EXPECT_EQ(client->Poll(), 1u);
  }
  EXPECT_THAT(client->connection().Wait(clock_.Now()), HasCode(absl::StatusCode::kDeadlineExceeded));
}

// A server that always polls is told of clients all the same.
TEST_F(LocalTest, EachSideKnowsWhetherTheOtherRunsOnItsCpu) {
  const std::vector<int> cpus = UsableCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
  StartService();
  const auto client = Open();
  std::optional<PinnedTo> service_cpu;
  const std::string echo = CommandText(ServiceOp::kEcho);
  for (const int own : {cpus[0], cpus[1], cpus[0]}) {
    const PinnedTo client_cpu(own);
    for (const int other : {cpus[0], cpus[1]}) {
      service_->Do([&](Service&) { service_cpu.emplace(other); });
      // The service publishes its CPU when it has slept, the client when it waits: then it goes by message.
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(service_->AwaitSleep());
        ASSERT_THAT(client->Call(echo), IsOk());
      }
      EXPECT_EQ(client->connection().PollingPays(), own != other);
      service_->Do([&](Service& service) { EXPECT_EQ(service.polling_pays(), own != other); });
    }
  }
  service_->Do([&](Service&) { service_cpu.reset(); });
}

TEST_F(LocalTest, AServerThatNeverSleepsSeesClientsComeAndDie) {
  const auto listener = Listen(where_, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  auto socket = ConnectTo(where_.path, std::chrono::minutes(1));
  ASSERT_THAT(socket, IsOk());
  const LocalHello hello;
  ASSERT_EQ(send(socket->get(), &hello, sizeof(hello), 0), static_cast<ssize_t>(sizeof(hello)));
  constexpr int kAtMost = 10000;
  std::unique_ptr<ServerConnection> connection;
  for (int i = 0; i < kAtMost && connection == nullptr; ++i) connection = (*listener)->NextRequest();
  ASSERT_NE(connection, nullptr);
  ASSERT_THAT(connection->Accept({}), IsOk());
  *socket = UniqueFd();  // dies without a word in the shared memory
  Completion completion;
  std::size_t count = 0;
  for (int i = 0; i < kAtMost && count == 0; ++i) count = (*listener)->Poll({&completion, 1});
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(completion.kind, CompletionKind::kDisconnected);
  EXPECT_EQ(completion.connection, connection.get());
  // A connection at its end that is not destroyed yet keeps nobody awake.
  (*listener)->Arm();
  pollfd fd = {(*listener)->wait_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&fd, 1, 0), 0);
}

// --- Last words ------------------------------------------------------------------------------------

// The client receives the messages that the server sent before it closed.
TEST_F(LocalTest, LastWordsAreDelivered) {
  StartService();
  const auto client = Open();
  for (int i = 0; i < 5; ++i) ASSERT_THAT(client->Send(CommandText(ServiceOp::kEcho)), IsOk());
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  EXPECT_THAT(client->AwaitDisconnect(), IsOk());
  EXPECT_EQ(client->receive_count(), 5u);
}

// --- READs at once ---------------------------------------------------------------------------------

// A caller that goes on with it, as one does between two operations of which the first has broken the
// connection.
TEST_F(LocalTest, TheMappedRegionOfAnEndedConnectionReadsNothing) {
  StartService();
  const auto client = Open();
  const RemoteRegion& region = client->welcome().region;
  MappedRegion* const mapped = client->connection().Mapped(region);
  ASSERT_NE(mapped, nullptr);
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  EXPECT_THAT(client->AwaitDisconnect(), IsOk());
  std::string text(100, '\0');
  EXPECT_FALSE(mapped->ServerIsAlive());
  EXPECT_FALSE(mapped->Read(std::as_writable_bytes(std::span(text)), 17));
  EXPECT_EQ(mapped->At(17, text.size()), nullptr);
  client->Poll();
  EXPECT_FALSE(mapped->ServerIsAlive());
}

TEST_F(LocalTest, AMappedRegionIsReadAtOnce) {
  StartService();
  const auto client = Open();
  const RemoteRegion& region = client->welcome().region;
  MappedRegion* const mapped = client->connection().Mapped(region);
  ASSERT_NE(mapped, nullptr);
  std::string text(100, '\0');
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(text));
  ASSERT_TRUE(mapped->Read(bytes, 17));
  EXPECT_EQ(text, RegionText(17, text.size()));
  ASSERT_TRUE(mapped->Read(bytes, region.size - text.size()));
  EXPECT_EQ(text, RegionText(region.size - text.size(), text.size()));
  mapped->Prefetch(region.size - 1, 1);
  // A READ outside the region fails, without ending the connection.
  for (const std::uint64_t offset : {region.size - 5, region.size, region.size + 1, ~std::uint64_t{0}}) {
    text = "before";
    EXPECT_FALSE(mapped->Read(std::as_writable_bytes(std::span(text)), offset)) << offset;
    EXPECT_EQ(text, "before");
    mapped->Prefetch(offset, text.size());
  }
  EXPECT_THAT(client->connection().status(), IsOk());
}

TEST_F(LocalTest, AnUnknownRegionIsNotMapped) {
  StartService();
  const auto client = Open();
  RemoteRegion region = client->welcome().region;
  region.size += 1;
  EXPECT_EQ(client->connection().Mapped(region), nullptr);
  region = client->welcome().region;
  region.key += 1000;
  EXPECT_EQ(client->connection().Mapped(region), nullptr);
  EXPECT_THAT(client->Read(0, {8}), IsOk());
}

// A client that only READs in place checks the socket, too, now and then: by a READ that is posted.
TEST_F(LocalTest, AMappedRegionAsksForAPollNowAndThen) {
  StartService();
  const auto client = Open();
  MappedRegion* const mapped = client->connection().Mapped(client->welcome().region);
  std::array<std::byte, 8> bytes{};
  for (int round = 0; round < 3; ++round) {
    std::uint32_t reads = 0;
    while (reads <= MappedRegion::kReadsPerPoll && mapped->Read(bytes, 0)) ++reads;
    EXPECT_LE(reads, MappedRegion::kReadsPerPoll);
    EXPECT_GT(reads, MappedRegion::kReadsPerPoll / 2);
    EXPECT_FALSE(mapped->Read(bytes, 0));
    ASSERT_THAT(client->Read(0, {8}), IsOk());
  }
}

TEST_F(LocalTest, NothingIsReadAtOnceOverWhatHasBroken) {
  StartService();
  const auto client = Open();
  MappedRegion* const mapped = client->connection().Mapped(client->welcome().region);
  std::array<std::byte, 8> bytes{};
  ASSERT_TRUE(mapped->Read(bytes, 0));
  // By our own fault; the server lives.
  EXPECT_THAT(client->ReadFrom({.size = 4096, .key = 4711}, 0, {8}),
              HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_FALSE(mapped->Read(bytes, 0));
  EXPECT_FALSE(mapped->Read({}, 0));
  EXPECT_EQ(client->connection().Mapped(client->welcome().region), nullptr);

  const auto another = Open();
  MappedRegion* const its = another->connection().Mapped(another->welcome().region);
  ASSERT_TRUE(its->Read(bytes, 0));
  ASSERT_THAT(another->Send(CommandText(ServiceOp::kClose)), IsOk());
  ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  EXPECT_FALSE(its->Read(bytes, 0));
}

TEST_F(LocalTest, NothingIsReadAtOnceOfAServerThatWasKilled) {
  PeerProcess peer("serve", ServeArgument(where_));
  ASSERT_EQ(peer.line(), where_.ToString());
  const auto client = Open();
  MappedRegion* const mapped = client->connection().Mapped(client->welcome().region);
  std::array<std::byte, 8> bytes{};
  ASSERT_TRUE(mapped->Read(bytes, 0));
  peer.Kill();
  // It dies a moment later, for good.
  const TimePoint end = clock_.Now() + std::chrono::seconds(20);
  while (mapped->Read(bytes, 0) && clock_.Now() < end) client->Read(0, {8}).IgnoreError();
  EXPECT_FALSE(mapped->Read(bytes, 0));
}

}  // namespace
}  // namespace remora::rdma
