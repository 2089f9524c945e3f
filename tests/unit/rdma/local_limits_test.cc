// The local transport at its limits: descriptors, the backlog, regions; and calls that are for the other end.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rdma/local/local.h"
#include "rdma/local/socket.h"
#include "rdma/local/wire.h"
#include "rdma/shared_memory.h"
#include "tests/support/sanitizers.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_fixture.h"
#include "tests/unit/rdma/transport_peer.h"

namespace remora::rdma {
namespace {

using testing::HasSubstr;

// UndefinedBehaviorSanitizer looks at an object through a pipe before it follows its virtual table, and takes
// every object for a broken one where there are no descriptors left for that.
constexpr bool kNeedsDescriptors = kUndefinedBehaviorSanitizer;

/// While it lives, this process can open so many descriptors more, and no others.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t left) {
    REMORA_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit few = before_;
    few.rlim_cur = 256;
    REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (UniqueFd fd = Open(); fd; fd = Open()) taken_.push_back(std::move(fd));
    REMORA_CHECK(errno == EMFILE && taken_.size() >= left);
    taken_.resize(taken_.size() - left);
  }
  ~FewDescriptors() { REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  static UniqueFd Open() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  rlimit before_ = {};
  std::vector<UniqueFd> taken_;
};

class LocalLimitsTest : public ::testing::Test {
 protected:
  LocalLimitsTest() {
    where_ = {.kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
  }

  void Listen() {
    auto listener = rdma::Listen(where_, {}, clock_);
    ASSERT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
  }
  /// A client that has asked to be let in.
  UniqueFd Ask() {
    auto socket = ConnectTo(where_.path, kPatience);
    EXPECT_THAT(socket, IsOk());
    EXPECT_THAT(SendHello(socket->get(), {}, {}), IsOk());
    return *std::move(socket);
  }
  std::unique_ptr<ServerConnection> Next() {
    std::unique_ptr<ServerConnection> next;
    // A server that never sleeps looks at its sockets now and then.
    for (int i = 0; i < 10000 && next == nullptr; ++i) next = listener_->NextRequest();
    return next;
  }
  static std::unique_ptr<SharedMemory> Memory(SharedMemory::Writers writers) {
    return *SharedMemory::Create("test", 4096, writers);
  }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  Address where_;
  std::unique_ptr<Listener> listener_;
};

// --- Descriptors, and the backlog -------------------------------------------------------------------

// It would be woken for the client that waits, again and again, and could not even hang up on it.
TEST_F(LocalLimitsTest, AServerWithoutDescriptorsSaysSoToWhoComes) {
  if (kNeedsDescriptors) GTEST_SKIP() << "UBSan itself needs descriptors";
  ASSERT_NO_FATAL_FAILURE(Listen());
  std::array<UniqueFd, 2> rejected = {Ask(), Ask()};
  {
    const FewDescriptors none(0);
    EXPECT_EQ(Next(), nullptr);
    EXPECT_EQ(listener_->dropped_handshakes(), 2u);
    EXPECT_EQ(listener_->without_descriptor(), 2u);
    for (const UniqueFd& socket : rejected) {
      const auto reply = ReceiveReply(socket.get());
      ASSERT_THAT(reply, IsOk());
      EXPECT_EQ(reply->reply.answer, LocalAnswer::kNoSpace);
      EXPECT_THAT(ReceiveReply(socket.get()).status(), HasCode(absl::StatusCode::kUnavailable));
    }
    listener_->Arm();
    pollfd fd = {listener_->wait_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&fd, 1, 0), 0) << "it is kept awake";
    listener_->Disarm();
  }
  const UniqueFd client = Ask();
  const auto connection = Next();
  ASSERT_NE(connection, nullptr);
  EXPECT_THAT(connection->Accept({}), IsOk());
  EXPECT_EQ(listener_->dropped_handshakes(), 2u);
}

// Not even the spare descriptor is of use, so the client waits on, and is taken in later.
TEST_F(LocalLimitsTest, AClientThatIsNotAcceptedIsNotCountedAsRejected) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  const UniqueFd waits = Ask();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(Next(), nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(listener_->dropped_handshakes(), 0u);
  EXPECT_EQ(listener_->without_descriptor(), 0u);
  const auto connection = Next();
  ASSERT_NE(connection, nullptr);
  EXPECT_THAT(connection->Accept({}), IsOk());
  EXPECT_THAT(ReceiveReply(waits.get()), IsOk());
  EXPECT_EQ(listener_->without_descriptor(), 0u);
}

TEST_F(LocalLimitsTest, AClientWithoutDescriptorsIsToldWhatItLacks) {
  if (kNeedsDescriptors) GTEST_SKIP() << "UBSan itself needs descriptors";
  const PeerProcess peer("serve", ServeArgument(where_));
  ASSERT_EQ(peer.line(), where_.ToString());
  {
    const FewDescriptors one(1);  // the socket's
    const absl::Status opened = Client::Open(where_, clock_).status();
    EXPECT_THAT(opened, HasCode(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(std::string(opened.message()), HasSubstr("ulimit -n"));
  }
  {
    const FewDescriptors none(0);
    const absl::Status opened = Client::Open(where_, clock_).status();
    EXPECT_THAT(std::string(opened.message()), HasSubstr("Too many open files"));
  }
  EXPECT_THAT(Client::Open(where_, clock_), IsOk());
}

TEST_F(LocalLimitsTest, AServerThatTakesNobodyInIsWaitedForSoLong) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, where_.path.c_str());
  std::vector<UniqueFd> waiting;
  do {
    waiting.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_LT(waiting.size(), 10000u) << "the backlog has no end";
  } while (connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  ASSERT_EQ(errno, EAGAIN);
  const auto connected = ConnectTo(where_.path, std::chrono::milliseconds(20));
  EXPECT_THAT(connected, HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(connected.status().message()), HasSubstr(where_.path));
  EXPECT_THAT(ConnectTo(where_.path, {}), HasCode(absl::StatusCode::kDeadlineExceeded));
}

// --- Many connect at once ----------------------------------------------------------------------------

TEST_F(LocalLimitsTest, ACrowdAtTheDoorIsLookedAtByAndBy) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  constexpr std::uint64_t kCrowd = 40;
  for (std::uint64_t i = 0; i < kCrowd; ++i) ASSERT_THAT(ConnectTo(where_.path, kPatience), IsOk());
  listener_->Arm();
  std::uint64_t dropped = 0;
  for (std::uint64_t looks = 0; dropped < kCrowd; ++looks) {
    ASSERT_LT(looks, 10 * kCrowd);
    EXPECT_EQ(listener_->NextRequest(), nullptr);
    EXPECT_LE(listener_->dropped_handshakes() - dropped, 2u) << "in one look, for which others wait";
    dropped = listener_->dropped_handshakes();
  }
  listener_->Disarm();
}

TEST_F(LocalLimitsTest, AHelloIsReadThoughManySilentClientsFollow) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  auto early = ConnectTo(where_.path, kPatience);
  ASSERT_THAT(early, IsOk());
  EXPECT_EQ(Next(), nullptr) << "he has said nothing yet";
  ASSERT_THAT(SendHello(early->get(), {}, {}), IsOk());
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(*ConnectTo(where_.path, kPatience));
  const auto connection = Next();
  ASSERT_NE(connection, nullptr);
  EXPECT_THAT(connection->Accept({}), IsOk());
  EXPECT_TRUE(ReceiveReply(early->get()).ok());
}

// --- Regions ----------------------------------------------------------------------------------------

TEST_F(LocalLimitsTest, AListenerHasSoManyRegionsAndNoneThatOthersMayWrite) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  const auto memory = Memory(SharedMemory::Writers::kOwnerOnly),
             peers = Memory(SharedMemory::Writers::kPeers);
  EXPECT_THAT(listener_->RegisterRead(*peers), HasCode(absl::StatusCode::kInvalidArgument));
  for (std::uint32_t i = 0; i < kLocalMaxReads; ++i) EXPECT_THAT(listener_->RegisterRead(*memory), IsOk());
  EXPECT_THAT(listener_->RegisterRead(*memory), HasCode(absl::StatusCode::kResourceExhausted));
}

TEST_F(LocalLimitsTest, AConnectionHasSoManyRegions) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  const UniqueFd client = Ask();
  const auto connection = Next();
  ASSERT_NE(connection, nullptr);
  std::vector<std::unique_ptr<Registration>> held;
  for (std::uint32_t i = 0; i < kLocalMaxWrites; ++i) {
    auto registration = connection->ProvideWrite("remora-test", 4096);
    ASSERT_THAT(registration, IsOk());
    EXPECT_TRUE(std::ranges::none_of(
        held, [&](const auto& other) { return other->remote().key == (*registration)->remote().key; }));
    held.push_back(*std::move(registration));
  }
  EXPECT_THAT(connection->ProvideWrite("remora-test", 4096), HasCode(absl::StatusCode::kResourceExhausted));
}

// --- What comes out of order ------------------------------------------------------------------------

TEST_F(LocalLimitsTest, AServersEndIsAcceptedOnce) {
  ASSERT_NO_FATAL_FAILURE(Listen());
  const UniqueFd client = Ask();
  const auto connection = Next();
  ASSERT_NE(connection, nullptr);
  const std::vector<std::byte> data(kMaxAcceptData + 1);
  EXPECT_THAT(connection->Accept(data), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(connection->Accept(std::span(data).first(kMaxAcceptData)), IsOk())
      << "after one that was too long";
  EXPECT_THAT(connection->Accept({}), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(connection->ProvideWrite("late", 4096), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(connection->status(), IsOk());
}

TEST_F(LocalLimitsTest, AClientsEndConnectsOnce) {
  const PeerProcess peer("serve", ServeArgument(where_));
  const auto client = Client::Open(where_, clock_);
  ASSERT_THAT(client, IsOk());
  ClientConnection& connection = (*client)->connection();
  const auto memory = Memory(SharedMemory::Writers::kPeers);
  EXPECT_THAT(connection.Connect({}, clock_.Now() + kPatience),
              HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(connection.OfferWrite(*memory), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(connection.RegisterWrite(*memory), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT((*client)->Read(0, {8}), IsOk()) << "none of it has done any harm";
}

}  // namespace
}  // namespace remora::rdma
