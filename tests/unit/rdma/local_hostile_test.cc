// Peers of the local transport that break its rules: each hurts its own connection and nothing else.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rdma/local/client.h"
#include "rdma/local/futex.h"
#include "rdma/local/ring.h"
#include "rdma/local/socket.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

/// A client that does as the test tells it.
class RawClient {
 public:
  explicit RawClient(const Address& address) {
    auto fd = ConnectTo(address.path, kPatience);
    EXPECT_THAT(fd, IsOk());
    if (fd.ok()) socket_ = *std::move(fd);
    const timeval timeout = {.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  void Say(const void* bytes, std::size_t size) { send(socket_.get(), bytes, size, MSG_NOSIGNAL); }
  /// Returns whether the server hangs up without a message.
  bool IsHungUpOn() {
    std::byte any;
    const ssize_t size = recv(socket_.get(), &any, sizeof(any), 0);
    return size == 0 || (size < 0 && errno == ECONNRESET);
  }
  absl::StatusOr<ReceivedReply> AwaitReply() {
    std::byte any;
    recv(socket_.get(), &any, sizeof(any), MSG_PEEK);
    return ReceiveReply(socket_.get());
  }
  /// A right handshake, after which the rings are there to be abused.
  void Join() {
    const LocalHello hello;
    Say(&hello, sizeof(hello));
    auto received = AwaitReply();
    ASSERT_THAT(received, IsOk());
    ASSERT_EQ(received->reply.answer, LocalAnswer::kAccepted);
    reply = received->reply;
    descriptors = std::move(received->descriptors);
    server_mapping_ = *LocalMapping::Map(descriptors[1].get(), LocalSideBytes(reply.ring_slots), false);
    own_mapping_ = *LocalMapping::Map(descriptors[2].get(), LocalSideBytes(reply.ring_slots), true);
    own = reinterpret_cast<LocalSide*>(own_mapping_.bytes().data());
    server = reinterpret_cast<const LocalSide*>(server_mapping_.bytes().data());
    writer = RingWriter(own, server, reply.ring_slots);
    reader = RingReader(own, server, reply.ring_slots);
  }
  void Wake() { WakePeer(socket_.get()); }
  /// Sends one echo request as a good client does.
  void SendEcho() {
    const std::string message = CommandText(ServiceOp::kEcho);
    while (writer.Push(BytesOf(message)) == RingResult::kNotNow) std::this_thread::yield();
    Wake();
  }
  int socket() const { return socket_.get(); }

  LocalReply reply;
  std::vector<UniqueFd> descriptors;
  LocalSide* own = nullptr;
  const LocalSide* server = nullptr;
  RingWriter writer;
  RingReader reader;

 private:
  UniqueFd socket_;
  LocalMapping server_mapping_;
  LocalMapping own_mapping_;
};

class LocalHostileTest : public ::testing::Test {
 protected:
  LocalHostileTest() {
    where_ = {.kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
  }
  void StartService() {
    auto service = ServiceThread::Start(where_, {}, clock_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
    auto witness = Client::Open(where_, clock_);
    ASSERT_THAT(witness, IsOk());
    witness_ = *std::move(witness);
  }
  /// An old client and a new one are served.
  void ExpectUnharmed() {
    const std::string message = CommandText(ServiceOp::kEcho, 7);
    EXPECT_EQ(witness_->Call(message).value_or(""), message);
    EXPECT_EQ(witness_->Read(3, {40}).value_or(""), RegionText(3, 40));
    const auto late = Client::Open(where_, clock_);
    ASSERT_THAT(late, IsOk());
    EXPECT_EQ((*late)->Call(message).value_or(""), message);
  }
  /// The server breaks the one connection on which `forge` was done.
  void ExpectBroken(const std::function<void(RawClient&)>& forge) {
    std::uint64_t before = 0;
    service_->Do([&](Service& service) { before = service.disconnects(); });
    RawClient forger(where_);
    forger.Join();
    forge(forger);
    forger.Wake();
    EXPECT_TRUE(service_->Await([&](Service& service) { return service.disconnects() > before; }));
    ExpectUnharmed();
  }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  Address where_;
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<Client> witness_;
};

// --- The handshake ---------------------------------------------------------------------------------

TEST_F(LocalHostileTest, NonsenseIsHungUpOn) {
  StartService();
  struct {
    LocalHello hello;
    std::byte more[100];
  } packet = {};
  const LocalHello stranger{.magic = 77}, boaster{.data_size = kMaxConnectData + 1}, giant{.data_size = ~0u};
  const std::vector<std::pair<const void*, std::size_t>> packets = {{&packet, 0},
                                                                    {&packet, 1},
                                                                    {&packet, 11},
                                                                    {&packet, sizeof(LocalHello) - 1},
                                                                    {&packet, sizeof(packet)},
                                                                    {&stranger, sizeof(stranger)},
                                                                    {&boaster, sizeof(boaster)},
                                                                    {&giant, sizeof(giant)}};
  for (const auto& [bytes, size] : packets) {
    RawClient client(where_);
    client.Say(bytes, size);
    EXPECT_TRUE(client.IsHungUpOn()) << size << " bytes";
  }
  ExpectUnharmed();
}

// A server maps what a client offers, and writes to it: nothing may come along that lets it fault, or map
// without end.
TEST_F(LocalHostileTest, AnInvalidOfferEndsTheConnection) {
  StartService();
  const auto memfd = [](unsigned flags, off_t size, int seals) {
    UniqueFd fd(memfd_create("remora-test-offer", MFD_CLOEXEC | flags));
    EXPECT_TRUE(static_cast<bool>(fd));
    EXPECT_EQ(ftruncate(fd.get(), size), 0);
    if (seals != 0) {
      EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    }
    return fd;
  };
  constexpr off_t kSize = 65536;
  const UniqueFd good = memfd(MFD_ALLOW_SEALING, kSize, F_SEAL_SHRINK);
  const auto is_taken = [&](std::vector<int> descriptors) {
    RawClient client(where_);
    EXPECT_THAT(SendHello(client.socket(), LocalHello(), descriptors), IsOk());
    return !client.IsHungUpOn();
  };
  EXPECT_TRUE(is_taken({good.get()}));
  EXPECT_FALSE(is_taken({memfd(MFD_ALLOW_SEALING, kSize, 0).get()})) << "it may shrink";
  EXPECT_FALSE(is_taken({memfd(0, kSize, 0).get()})) << "it may shrink, and always will";
  EXPECT_FALSE(is_taken({memfd(MFD_ALLOW_SEALING, kSize, F_SEAL_SHRINK | F_SEAL_WRITE).get()}));
  EXPECT_FALSE(is_taken({memfd(MFD_ALLOW_SEALING, 0, F_SEAL_SHRINK).get()}));
  EXPECT_FALSE(is_taken({memfd(MFD_ALLOW_SEALING, kMaxOfferedSize + 1, F_SEAL_SHRINK).get()}));
  EXPECT_FALSE(is_taken({memfd(MFD_ALLOW_SEALING, off_t{1} << 40, F_SEAL_SHRINK).get()}));
  EXPECT_FALSE(is_taken({good.get(), good.get()})) << "one at most";
  EXPECT_FALSE(is_taken({good.get(), good.get(), good.get(), good.get()})) << "one at most";
  EXPECT_FALSE(is_taken({STDIN_FILENO}));
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(is_taken({file.get()}));
  // Where the machine has none to give, this is one more that cannot be mapped.
  UniqueFd huge(memfd_create("remora-test-offer", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (huge) {
    EXPECT_EQ(ftruncate(huge.get(), 2 << 20), 0);
    EXPECT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_FALSE(is_taken({huge.get()}));
  }
  ExpectUnharmed();
}

// Pages that a client takes away come back as zeros, and fault nobody.
TEST_F(LocalHostileTest, AHolePunchedIntoWhatIsOfferedHurtsNobody) {
  StartService();
  const auto memory =
      SharedMemory::Create("remora-test-offer", kTestStagingSize, SharedMemory::Writers::kPeers);
  ASSERT_THAT(memory, IsOk());
  const auto client = Client::Open(where_, clock_, {.offered = memory->get()});
  ASSERT_THAT(client, IsOk());
  const auto registration = (*client)->connection().RegisterWrite(**memory);
  ASSERT_THAT(registration, IsOk());
  const WriteCommand what{.command = {.op = ServiceOp::kWriteBack, .a = 0, .b = kTestStagingSize},
                          .region = (*registration)->remote()};
  const std::string message(reinterpret_cast<const char*>(&what), sizeof(what));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(fallocate((*memory)->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kTestStagingSize), 0);
    ASSERT_EQ((*client)->Call(message).value_or(""), message);
  }
  ExpectUnharmed();
}

TEST_F(LocalHostileTest, AnotherVersionIsToldSo) {
  StartService();
  const LocalHello hello{.version = kLocalVersion + 1};
  RawClient client(where_);
  client.Say(&hello, sizeof(hello));
  const auto received = client.AwaitReply();
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->reply.answer, LocalAnswer::kWrongVersion);
  EXPECT_TRUE(received->descriptors.empty());
}

TEST_F(LocalHostileTest, TheSilentKeepNobodyOut) {
  StartService();
  std::deque<RawClient> silent;
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(where_);
    if (i % 50 == 0) ExpectUnharmed();
  }
  ExpectUnharmed();
  EXPECT_TRUE(silent.front().IsHungUpOn()) << "the oldest gives way";
}

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  std::int64_t UnixMillis() const override { return 0; }
  TimePoint now;
};

TEST_F(LocalHostileTest, TheSilentAreHungUpOnInTime) {
  FakeClock clock;
  const auto listener = Listen(where_, {}, clock);
  ASSERT_THAT(listener, IsOk());
  RawClient client(where_);
  (*listener)->Arm();  // NextRequest looks at the sockets each time now
  EXPECT_EQ((*listener)->NextRequest(), nullptr);
  clock.now += std::chrono::seconds(4);
  EXPECT_EQ((*listener)->NextRequest(), nullptr);
  std::byte any;
  EXPECT_EQ(recv(client.socket(), &any, 1, MSG_DONTWAIT), -1);
  clock.now += std::chrono::seconds(2);
  EXPECT_EQ((*listener)->NextRequest(), nullptr);
  EXPECT_TRUE(client.IsHungUpOn());
}

TEST_F(LocalHostileTest, AClientThatLeavesBeforeItIsAcceptedIsNoTrouble) {
  const auto listener = Listen(where_, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  {
    const LocalHello hello;
    RawClient client(where_);
    client.Say(&hello, sizeof(hello));
  }
  (*listener)->Arm();
  const std::unique_ptr<ServerConnection> connection = (*listener)->NextRequest();
  ASSERT_NE(connection, nullptr);
  EXPECT_THAT(connection->Accept({}), HasCode(absl::StatusCode::kUnavailable));
}

// --- Shared memory ---------------------------------------------------------------------------------

TEST_F(LocalHostileTest, ForgedCountersAndLengthsBreakOnlyTheForger) {
  StartService();
  ExpectBroken([](RawClient& client) { client.own->slots()[0].head = LocalHead(1, kMaxMessageSize + 1); });
  ExpectBroken([](RawClient& client) { client.own->slots()[0].head = LocalHead(1, 0xffff); });
  ExpectBroken([](RawClient& client) {
    client.SendEcho();
    client.own->slots()[1].head = LocalHead(2, 0xffff);
  });
  ExpectBroken([](RawClient& client) {
    const std::uint32_t last = client.reply.ring_slots;
    for (std::uint32_t i = 0; i < last; ++i) client.SendEcho();
    while (!IsHeadOf(client.server->slots()[last - 1].head, last)) std::this_thread::yield();
    client.own->consumed = ~std::uint64_t{0} / 2;
    client.SendEcho();
  });
  ExpectBroken([](RawClient& client) { client.own->closed = 77; });
  ExpectBroken([](RawClient& client) { shutdown(client.socket(), SHUT_WR); });
  ExpectBroken([](RawClient& client) { client.Say("", 0); });
}

// A5: it says that it sleeps, and never reads what should wake it.
TEST_F(LocalHostileTest, AClientThatNeverWakesDoesNotBlockTheServer) {
  StartService();
  RawClient client(where_);
  client.Join();
  std::array<std::byte, kMaxMessageSize> echo;
  for (int i = 0; i < 1500; ++i) {  // several times what the socket holds
    client.own->sleeping.FallAsleep();
    client.SendEcho();
    while (!client.reader.HasMessage()) std::this_thread::yield();
    std::uint32_t length = 0;
    ASSERT_EQ(client.reader.Peek(&length), RingResult::kDone);
    client.reader.Take(echo.data(), length);
  }
  ExpectUnharmed();
}

// A4: one wake-up for each sleep, however many messages come.
TEST_F(LocalHostileTest, ASleeperIsWokenOnce) {
  StartService();
  RawClient client(where_);
  client.Join();
  const auto echo = [&] {
    client.SendEcho();
    while (!client.reader.HasMessage()) std::this_thread::yield();
    std::uint32_t length = 0;
    ASSERT_EQ(client.reader.Peek(&length), RingResult::kDone);
    std::array<std::byte, kMaxMessageSize> answer;
    client.reader.Take(answer.data(), length);
  };
  const auto bytes = [&] {
    int count = 0;
    for (std::byte byte; recv(client.socket(), &byte, 1, MSG_DONTWAIT) == 1;) ++count;
    return count;
  };
  std::uint32_t wakes = 0;
  // The server wakes behind its answer; an answer to the next message is behind that.
  const auto expect_one = [&](WakeBy wake_by) {
    client.own->sleeping.WakeUp();
    echo();
    EXPECT_EQ(bytes(), wake_by == WakeBy::kByte ? 1 : 0);
    wakes += wake_by == WakeBy::kFutex ? 1 : 0;
    EXPECT_EQ(client.server->wakes.load(), wakes);
  };
  for (int sleep = 0; sleep < 3; ++sleep) {
    for (const WakeBy wake_by : {WakeBy::kByte, WakeBy::kFutex}) {
      echo();
      EXPECT_EQ(bytes(), 0) << "it was awake";
      client.own->sleeping.FallAsleep(wake_by);
      for (int i = 0; i < 5; ++i) echo();
      expect_one(wake_by);
    }
  }
  // To fall asleep again without having been awake is another sleep.
  client.own->sleeping.FallAsleep(WakeBy::kFutex);
  echo();
  client.own->sleeping.FallAsleep(WakeBy::kByte);
  echo();
  wakes += 1;
  expect_one(WakeBy::kByte);
}

// A thread that sleeps on `wakes` is woken by the answer; the server has no byte for it.
TEST_F(LocalHostileTest, ASleeperOnAFutexIsWoken) {
  StartService();
  RawClient client(where_);
  client.Join();
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t seen = client.server->wakes.load();
    client.own->sleeping.FallAsleep(WakeBy::kFutex);
    client.SendEcho();
    EXPECT_TRUE(FutexWait(client.server->wakes, seen, std::chrono::seconds(kPatience)));
    client.own->sleeping.WakeUp();
    EXPECT_EQ(client.server->wakes.load(), seen + 1);
    std::uint32_t length = 0;
    ASSERT_EQ(client.reader.Peek(&length), RingResult::kDone);
    std::array<std::byte, kMaxMessageSize> answer;
    client.reader.Take(answer.data(), length);
  }
  EXPECT_FALSE(FutexWait(client.server->wakes, client.server->wakes.load(), std::chrono::milliseconds(1)));
}

TEST_F(LocalHostileTest, AFloodOfWakeUpsHurtsNobody) {
  StartService();
  RawClient client(where_);
  client.Join();
  for (int i = 0; i < 5000; ++i) client.Wake();
  ExpectUnharmed();
}

TEST_F(LocalHostileTest, TheServersMemoryCannotBeMadeWritable) {
  StartService();
  RawClient client(where_);
  client.Join();
  ASSERT_EQ(client.reply.region_count, 2u);
  constexpr std::size_t kListenerPage = 0, kServerSide = 1, kClientSide = 2, kRegion = 3, kStaging = 4;
  constexpr std::size_t kPage = 4096;
  for (const std::size_t i : {kListenerPage, kServerSide, kRegion}) {
    const int fd = client.descriptors[i].get();
    EXPECT_EQ(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED) << i;
    void* mapped = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(mapped, MAP_FAILED) << i;
    EXPECT_EQ(mprotect(mapped, kPage, PROT_READ | PROT_WRITE), -1) << i;
    munmap(mapped, kPage);
    EXPECT_EQ(pwrite(fd, "x", 1, 0), -1) << i;
    EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), -1) << i;
  }
  for (const std::size_t i : {kListenerPage, kServerSide, kClientSide, kRegion, kStaging}) {
    EXPECT_EQ(ftruncate(client.descriptors[i].get(), 0), -1) << i;
  }
}

// --- Servers ---------------------------------------------------------------------------------------

/// Returns the error of a client whose server answers with `reply` and `descriptors`.
absl::Status AnswerOf(const Address& where, const Clock& clock, const LocalReply& reply,
                      const std::vector<int>& descriptors) {
  const auto listening = ListenAt(where.path);
  EXPECT_THAT(listening, IsOk());
  std::thread server([&] {
    fcntl(listening->get(), F_SETFL, 0);
    const UniqueFd client(accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_THAT(SendReply(client.get(), reply, descriptors), IsOk());
    std::byte any;
    while (recv(client.get(), &any, 1, 0) > 0) continue;
  });
  const absl::Status status = Client::Open(where, clock).status();
  server.join();
  unlink(where.path.c_str());
  return status;
}

TEST_F(LocalHostileTest, AServerThatMakesNoSenseIsNotBelieved) {
  const auto good = SharedMemory::Create("remora-test-good", 1 << 20, SharedMemory::Writers::kPeers);
  ASSERT_THAT(good, IsOk());
  const int fine = (*good)->fd();
  const UniqueFd shrinkable(memfd_create("remora-test-bad", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(shrinkable.get(), 1 << 20), 0);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));

  const auto answer = [&](const LocalReply& reply, const std::vector<int>& descriptors) {
    return AnswerOf(where_, clock_, reply, descriptors);
  };
  const auto internal = HasCode(absl::StatusCode::kInternal);
  LocalReply accept{.answer = LocalAnswer::kAccepted, .data_size = kMaxAcceptData, .ring_slots = 8};
  EXPECT_THAT(answer(accept, {fine, fine, fine}), IsOk()) << "so that the failures below have one cause each";
  EXPECT_THAT(answer({.magic = 1, .answer = LocalAnswer::kAccepted}, {}),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answer({.version = 9, .answer = LocalAnswer::kAccepted}, {}),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answer({.answer = static_cast<LocalAnswer>(99)}, {}), internal);
  EXPECT_THAT(answer({.answer = LocalAnswer::kRejected, .data_size = 5000}, {}), internal);
  EXPECT_THAT(answer(accept, {}), internal);
  EXPECT_THAT(answer(accept, {fine, fine}), internal);
  EXPECT_THAT(answer(accept, {fine, fine, shrinkable.get()}), internal);
  EXPECT_THAT(answer(accept, {null.get(), fine, fine}), internal);
  accept.ring_slots = 7;
  EXPECT_THAT(answer(accept, {fine, fine, fine}), internal);
  accept.ring_slots = 1 << 14;  // more than the memory holds
  EXPECT_THAT(answer(accept, {fine, fine, fine}), internal);
  accept.ring_slots = 8;
  accept.region_count = 1;
  for (const LocalRegion& region :
       {LocalRegion{.size = 4096, .key = 0}, LocalRegion{.size = 4096, .key = 99},
        LocalRegion{.size = 2 << 20, .key = 1}, LocalRegion{.size = 0, .key = 1}}) {
    accept.regions[0] = region;
    EXPECT_THAT(answer(accept, {fine, fine, fine, fine}), internal);
  }
  accept.region_count = ~0u;
  EXPECT_THAT(answer(accept, {fine, fine, fine}), internal);
}

TEST_F(LocalHostileTest, AServerThatHangsUpIsUnavailable) {
  const auto listening = ListenAt(where_.path);
  ASSERT_THAT(listening, IsOk());
  std::thread server([&] {
    fcntl(listening->get(), F_SETFL, 0);
    UniqueFd(accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
  });
  EXPECT_THAT(Client::Open(where_, clock_), HasCode(absl::StatusCode::kUnavailable));
  server.join();
}

}  // namespace
}  // namespace remora::rdma
