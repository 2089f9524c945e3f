// The verbs transport beyond the common contract (transport_test.cc): its translators, which run everywhere,
// and what only a real device shows (On/VerbsTest; see TransportTest).
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rdma/verbs/connection.h"
#include "rdma/verbs/status.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// --- Everywhere --------------------------------------------------------------------------------------

TEST(VerbsStatusTest, Completions) {
  using enum absl::StatusCode;
  const auto code = [](ibv_wc_status status) { return StatusFromCompletion(status, 0).code(); };
  EXPECT_EQ(code(IBV_WC_REM_ACCESS_ERR), kPermissionDenied);
  EXPECT_EQ(code(IBV_WC_WR_FLUSH_ERR), kPermissionDenied);
  EXPECT_EQ(code(IBV_WC_RETRY_EXC_ERR), kUnavailable);
  EXPECT_EQ(code(IBV_WC_RNR_RETRY_EXC_ERR), kUnavailable);
  EXPECT_EQ(code(IBV_WC_LOC_LEN_ERR), kInternal);
  EXPECT_EQ(code(IBV_WC_LOC_PROT_ERR), kInternal);
  EXPECT_EQ(code(IBV_WC_REM_INV_REQ_ERR), kInternal);
  EXPECT_EQ(code(IBV_WC_FATAL_ERR), kInternal);
  EXPECT_THAT(StatusFromCompletion(IBV_WC_FATAL_ERR, 42).message(),
              AllOf(HasSubstr(ibv_wc_status_str(IBV_WC_FATAL_ERR)), HasSubstr("42")));
}

TEST(VerbsStatusTest, Events) {
  using enum absl::StatusCode;
  const auto code = [](rdma_cm_event_type event, int status) {
    return StatusFromEvent(event, status, "10.0.0.7:1").code();
  };
  EXPECT_EQ(code(RDMA_CM_EVENT_REJECTED, 28), kFailedPrecondition);
  EXPECT_EQ(code(RDMA_CM_EVENT_REJECTED, 8), kUnavailable);
  EXPECT_EQ(code(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), kUnavailable);
  EXPECT_EQ(code(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT), kUnavailable);
  EXPECT_EQ(code(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV), kFailedPrecondition);
  EXPECT_EQ(code(RDMA_CM_EVENT_DISCONNECTED, 0), kUnavailable);
  EXPECT_EQ(code(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), kUnavailable);
  EXPECT_EQ(code(RDMA_CM_EVENT_ESTABLISHED, 0), kOk);
  EXPECT_EQ(code(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0), kOk);
  // An established connection is not rejected any more.
  EXPECT_EQ(StatusFromLateEvent(RDMA_CM_EVENT_REJECTED, 28, "10.0.0.7:1").code(), kUnavailable);
}

TEST(VerbsStatusTest, Errno) {
  using enum absl::StatusCode;
  const auto code = [](int error) { return StatusFromErrno(error, "rdma_x", "10.0.0.7:1").code(); };
  for (const int error : {ENODEV, ENOENT, EADDRNOTAVAIL}) EXPECT_EQ(code(error), kFailedPrecondition);
  EXPECT_EQ(code(EACCES), kPermissionDenied);
  EXPECT_EQ(code(EADDRINUSE), kAlreadyExists);
  for (const int error : {ECONNREFUSED, ENETUNREACH, ETIMEDOUT}) EXPECT_EQ(code(error), kUnavailable);
  for (const int error : {ENOMEM, EMFILE}) EXPECT_EQ(code(error), kResourceExhausted);
  EXPECT_EQ(code(EPIPE), kInternal);
  EXPECT_THAT(StatusFromErrno(ENODEV, "rdma_x", "10.0.0.7:1").message(),
              AllOf(HasSubstr("10.0.0.7:1"), HasSubstr("rdma link add"), HasSubstr("rdma_x")));
}

TEST(VerbsStatusTest, Registration) {
  using enum absl::StatusCode;
  EXPECT_THAT(StatusFromRegistration(ENOMEM, 123456, 65536),
              AllOf(HasCode(kResourceExhausted),
                    ::testing::ResultOf([](const absl::Status& status) { return status.ToString(); },
                                        AllOf(HasSubstr("123456"), HasSubstr("65536"), HasSubstr("ulimit -l"),
                                              HasSubstr("LimitMEMLOCK=")))));
  EXPECT_THAT(StatusFromRegistration(EFAULT, 1, 1), HasCode(kInvalidArgument));
  EXPECT_THAT(StatusFromRegistration(EINVAL, 1, 1), HasCode(kInvalidArgument));
  EXPECT_THAT(StatusFromRegistration(EPERM, 1, 0), HasCode(kPermissionDenied));
}

TEST(RequestRingTest, ACompletionStandsForTheWritesBeforeIt) {
  RequestRing ring(3);
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t round = 0; round < 10; ++round) {
    ASSERT_EQ(ring.free_slots(), 3u);
    ring.Push({.context = 0, .kind = RequestRing::Kind::kWrite});
    ring.Push({.context = 0, .kind = RequestRing::Kind::kWrite});
    const std::uint32_t number = ring.next_number();
    ring.Push({.context = round, .kind = RequestRing::Kind::kSend});
    ASSERT_EQ(ring.free_slots(), 0u);
    EXPECT_EQ(ring.Retire(number).context, round);
    ASSERT_TRUE(ring.empty());
  }
}

TEST(RequestRingTest, ReadsAreEndedOneByOne) {
  RequestRing ring(2);
  const std::uint32_t first = ring.next_number();
  ring.Push({.context = 1, .kind = RequestRing::Kind::kRead});
  ring.Push({.context = 2, .kind = RequestRing::Kind::kRead});
  EXPECT_EQ(ring.Retire(first).context, 1u);
  EXPECT_EQ(ring.RetireOldest().context, 2u);
}

TEST(VerbsWithoutDevice, SaysWhatToDo) {
  if (std::filesystem::exists("/dev/infiniband/rdma_cm")) GTEST_SKIP() << "this host has RDMA";
  const SteadyClock clock{};
  const Address address{.kind = TransportKind::kVerbs, .host = "127.0.0.1", .port = 7471, .path = ""};
  const auto deadline = clock.Now() + std::chrono::minutes(1);
  for (const absl::Status& status :
       {Dial(address, {}, clock, deadline).status(), Listen(address, {}, clock).status()}) {
    EXPECT_THAT(status, HasCode(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("127.0.0.1:7471"), HasSubstr("rdma link add")));
  }
}

// --- With a device ---------------------------------------------------------------------------------------

class VerbsTest : public TransportTest {
 protected:
  Address At(std::string host) const {
    return {.kind = TransportKind::kVerbs, .host = std::move(host), .port = 0, .path = ""};
  }
  TimePoint Deadline() const { return clock_.Now() + std::chrono::minutes(1); }
};

INSTANTIATE_TEST_SUITE_P(On, VerbsTest, ::testing::Values("verbs"),
                         [](const auto& test) { return test.param; });

TEST_P(VerbsTest, AddressesWithoutDeviceAreRejected) {
  const auto local = Listen(At("127.0.0.1"), {}, clock_);
  ASSERT_THAT(local, HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(local.status().message()), HasSubstr("rdma link"));
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto wildcard = Listen(At(host), {}, clock_);
    ASSERT_THAT(wildcard, HasCode(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(std::string(wildcard.status().message()), HasSubstr("one address"));
  }
  EXPECT_THAT(Listen(At("no-such-host.invalid"), {}, clock_), HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(VerbsTest, ReadOnlyMemoryIsNotRegistered) {
  StartService();
  const auto client = Open();
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto registration = client->connection().RegisterMessages({static_cast<std::byte*>(memory), 4096});
  EXPECT_THAT(registration, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(registration.status().message()), HasSubstr("writable"));
  munmap(memory, 4096);
}

TEST_P(VerbsTest, TooLittleLockedMemory) {
  StartService();
  const auto client = Open();
  std::vector<std::byte> bytes(1 << 20);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  absl::Status status;
  // Capabilities belong to a thread: this one alone gives up the right to lock as much as it likes.
  std::thread([&] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> capabilities{};
    REMORA_CHECK(syscall(SYS_capget, &header, capabilities.data()) == 0);
    capabilities[0].effective &= ~(1u << CAP_IPC_LOCK);
    REMORA_CHECK(syscall(SYS_capset, &header, capabilities.data()) == 0);
    const rlimit small{.rlim_cur = 65536, .rlim_max = before.rlim_max};
    REMORA_CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
    status = client->connection().RegisterMessages(bytes).status();
  }).join();
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1048576 bytes"), HasSubstr("65536 bytes"), HasSubstr("ulimit -l")));
  EXPECT_THAT(client->connection().RegisterMessages(bytes), IsOk());
}

TEST_P(VerbsTest, DepthsAreNegotiatedAndNamed) {
  StartService({.reads = 8});
  const auto depth_of = [this](std::uint32_t reads) {
    const auto client = Open({.limits = {.reads = reads}});
    for (std::uint32_t i = 0; i < 20; ++i) EXPECT_THAT(client->PostRead(i, 8), IsOk());
    EXPECT_THAT(client->AwaitReads(20), IsOk());
    return client->connection().peer();
  };
  EXPECT_THAT(depth_of(4), HasSubstr("4 READs at once"));
  EXPECT_THAT(depth_of(100000), HasSubstr("8 READs at once"));
  // 0 would be agreed on, and the first READ would never end.
  EXPECT_THAT(depth_of(0), HasSubstr("1 READs at once"));
}

TEST_P(VerbsTest, RejectedAccessesChangeNothingAndBreakOnlyTheirConnection) {
  StartService();
  const auto other = Open();
  ASSERT_THAT(other->Write(0, RegionText(9, 64)), IsOk());
  ASSERT_THAT(other->Call(CommandText(ServiceOp::kEcho)), IsOk());
  const RemoteRegion staging = other->welcome().staging;
  RemoteRegion larger = staging, stranger = staging, readable = other->welcome().region;
  larger.size += 4096;
  stranger.key += 77;
  const struct {
    const char* what;
    RemoteRegion region;
    std::uint64_t offset;
  } writes[] = {{"past the end", larger, staging.size - 32},
                {"wrong key", stranger, 0},
                {"to the region for READ", readable, 0}};
  const auto staging_hash = [&] {
    return NumberIn(other->Call(CommandText(ServiceOp::kHashStaging, 0, kTestStagingSize)).value_or(""));
  };
  const std::uint64_t before = staging_hash();
  for (const auto& write : writes) {
    SCOPED_TRACE(write.what);
    const auto forger = Open();
    std::array<std::byte, 64> bytes;
    bytes.fill(std::byte{0xbb});
    const auto registration = forger->connection().RegisterMessages(bytes);
    ASSERT_THAT(registration, IsOk());
    const Sge from = MakeSge(**registration, 0, bytes.size());
    ASSERT_THAT(forger->connection().PostWritev({&from, 1}, write.region, write.offset), IsOk());
    EXPECT_EQ(forger->AwaitDisconnect().value_or(absl::OkStatus()).code(),
              absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(staging_hash(), before);
    EXPECT_EQ(other->Read(0, {64}).value_or(""), RegionText(0, 64));
  }
  const auto forger = Open();
  EXPECT_THAT(forger->ReadFrom(forger->welcome().staging, 0, {8}),
              HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(other->Read(5, {100}).value_or(""), RegionText(5, 100));
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 4; }));
  EXPECT_EQ(Open()->Read(5, {100}).value_or(""), RegionText(5, 100));
}

// With nothing but Poll: a caller that never sleeps learns of the end, too.
TEST_P(VerbsTest, PollAloneSeesThatTheServiceCloses) {
  StartService();
  const auto client = Open();
  ASSERT_THAT(client->Send(CommandText(ServiceOp::kClose)), IsOk());
  const TimePoint deadline = Deadline();
  std::array<Completion, 3> completions;
  bool ended = false;
  while (!ended && clock_.Now() < deadline) {
    const std::size_t count = client->connection().Poll(completions);
    for (std::size_t i = 0; i < count; ++i) ended = completions[i].kind == CompletionKind::kDisconnected;
  }
  EXPECT_TRUE(ended);
  EXPECT_THAT(client->connection().status(), HasCode(absl::StatusCode::kUnavailable));
}

TEST_P(VerbsTest, WritesWithoutAMessageFillTheQueueAndDrain) {
  const QueueLimits limits{.sends = 4, .receives = 2, .reads = 2};
  StartService(limits);
  const auto client = Open({.limits = limits});
  const TimePoint deadline = Deadline();
  std::uint64_t written = 0;
  for (int round = 0; round < 20; ++round) {
    absl::Status posted;
    while ((posted = client->Write(written, "x")).ok()) ++written;
    ASSERT_THAT(posted, HasCode(absl::StatusCode::kResourceExhausted));
    while (!(posted = client->Write(written, "x")).ok() && clock_.Now() < deadline) client->Poll();
    ASSERT_THAT(posted, IsOk());
    ++written;
  }
  absl::Status sent;
  while (absl::IsResourceExhausted(sent = client->Send(CommandText(ServiceOp::kHashStaging, 0, written))))
    client->Poll();
  ASSERT_THAT(sent, IsOk());
  EXPECT_EQ(NumberIn(client->Receive().value_or("")), HashOf(BytesOf(std::string(written, 'x'))));
}

TEST_P(VerbsTest, AProbeDisturbsNobody) {
  const auto listener = Listen(where_, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  std::unique_ptr<ClientConnection> client;
  std::jthread connecting([&] {
    client = Dial((*listener)->address(), {}, clock_, Deadline()).value();
    EXPECT_THAT(client->Connect({}, Deadline()), IsOk());
  });
  std::unique_ptr<ServerConnection> server;
  while (server == nullptr) server = (*listener)->NextRequest();
  const auto into = server->ProvideMessages(64).value();
  ASSERT_THAT(server->PostRecv(1, MakeSge(*into, 0, 64)), IsOk());
  ASSERT_THAT(server->Accept({}), IsOk());
  connecting.join();
  std::array<Completion, 4> completions;
  for (int i = 0; i < 200; ++i) {  // more than the queue holds
    EXPECT_TRUE(server->Probe());
    EXPECT_EQ((*listener)->Poll(completions), 0u);
  }
  std::array<std::byte, 8> sent{};
  const auto from = client->RegisterMessages(sent).value();
  ASSERT_THAT(client->PostSend(1, MakeSge(*from, 0, sent.size())), IsOk());
  EXPECT_TRUE(server->Probe());
  while ((*listener)->Poll(completions) == 0) continue;
  EXPECT_EQ(completions[0].kind, CompletionKind::kReceive);
  EXPECT_THAT(server->status(), IsOk());
  EXPECT_THAT(client->status(), IsOk());
}

// A request that its client gave up, whenever that is noticed, harms nobody.
TEST_P(VerbsTest, AClientThatGivesUpIsForgotten) {
  const auto listener = Listen(where_, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  for (int i = 0; i < 3; ++i) {
    const auto connection = Dial((*listener)->address(), {}, clock_, Deadline());
    ASSERT_THAT(connection, IsOk());
    EXPECT_THAT((*connection)->Connect({}, clock_.Now()), HasCode(absl::StatusCode::kDeadlineExceeded));
  }
  std::jthread patient([this, address = (*listener)->address()] {
    const auto connection = Dial(address, {}, clock_, Deadline());
    ASSERT_THAT(connection, IsOk());
    EXPECT_THAT((*connection)->Connect(BytesOf("patient"), Deadline()), IsOk());
  });
  // Each of those that were accepted too late ends as others do.
  std::vector<std::unique_ptr<ServerConnection>> accepted;
  const Connection* served = nullptr;
  std::size_t too_late = 0, ended = 0;
  while (served == nullptr || ended < too_late) {
    std::array<Completion, 4> completions;
    for (const Completion& completion : std::span(completions).first((*listener)->Poll(completions))) {
      EXPECT_EQ(completion.kind, CompletionKind::kDisconnected);
      EXPECT_NE(completion.connection, served);
      EXPECT_THAT(completion.connection->status(), HasCode(absl::StatusCode::kUnavailable));
      ++ended;
    }
    std::unique_ptr<ServerConnection> request = (*listener)->NextRequest();
    if (request == nullptr) continue;
    const bool is_patient = std::ranges::equal(request->peer_data().first(7), BytesOf("patient"));
    const absl::Status status = request->Accept({});
    EXPECT_TRUE(status.ok() || !is_patient) << status;
    if (is_patient) served = request.get();
    if (status.ok() && !is_patient) ++too_late;
    accepted.push_back(std::move(request));
  }
  patient.join();
}

// The listener's second thread is in the midst of it.
TEST_P(VerbsTest, AConnectionMayEndWhileItIsMade) {
  const auto listener = Listen(where_, {}, clock_);
  ASSERT_THAT(listener, IsOk());
  constexpr int kClients = 24;
  std::jthread clients([this, address = (*listener)->address()] {
    for (int i = 0; i < kClients; ++i) {
      const auto connection = Dial(address, {}, clock_, Deadline());
      ASSERT_THAT(connection, IsOk());
      // Accepted or not: it is answered, or cut off.
      const absl::Status status = (*connection)->Connect({}, Deadline());
      EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status) || absl::IsUnavailable(status)) << status;
    }
  });
  for (int met = 0; met < kClients;) {
    std::array<Completion, 4> completions;
    EXPECT_EQ((*listener)->Poll(completions), 0u);
    std::unique_ptr<ServerConnection> request = (*listener)->NextRequest();
    if (request == nullptr) continue;
    // How far it comes before it ends: asked for, with memory, accepted, or a while behind that.
    const int stage = met++ % 4;
    std::unique_ptr<Registration> staging, messages;
    if (stage >= 1) {
      staging = request->ProvideWrite("remora-test", 4096).value_or(nullptr);
      messages = request->ProvideMessages(4096).value_or(nullptr);
      ASSERT_TRUE(staging != nullptr && messages != nullptr);
      EXPECT_EQ(staging->bytes().size(), 4096u);
      EXPECT_THAT(request->PostRecv(1, MakeSge(*messages, 0, 4096)), IsOk());
    }
    if (stage >= 2) {
      EXPECT_THAT(request->Accept({}), IsOk());
    }
    if (stage == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(met / 4));
    }
  }
}

TEST_P(VerbsTest, AListenerMayEndBeforeItsRequestsAreTaken) {
  std::string before;
  for (int i = 0; i < 4; ++i) {
    auto listener = Listen(where_, {}, clock_);
    ASSERT_THAT(listener, IsOk());
    std::vector<std::jthread> clients;
    for (int client = 0; client < 3; ++client) {
      clients.emplace_back([this, address = (*listener)->address()] {
        const auto connection = Dial(address, {}, clock_, Deadline());
        ASSERT_THAT(connection, IsOk());
        EXPECT_FALSE((*connection)->Connect({}, Deadline()).ok());
      });
    }
    // With none, or some, of them taken.
    std::unique_ptr<ServerConnection> request;
    while (i >= 2 && request == nullptr) request = (*listener)->NextRequest();
    request.reset();
    (*listener).reset();
    clients.clear();
    if (i == 0) before = HeldAtRest();
  }
  EXPECT_EQ(HeldAtRest(), before);
}

// Prepared resources are as new for each connection.
TEST_P(VerbsTest, EachConnectionsMemoryIsItsOwn) {
  StartService();
  std::set<std::uint64_t> addresses;
  std::set<std::uint32_t> keys;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(Open());
    Client& client = *clients.back();
    EXPECT_TRUE(addresses.insert(client.welcome().staging.address).second);
    EXPECT_TRUE(keys.insert(client.welcome().staging.key).second);
    EXPECT_EQ(NumberIn(client.Call(CommandText(ServiceOp::kHashStaging, 0, kTestStagingSize)).value_or("")),
              HashOf(BytesOf(std::string(kTestStagingSize, '\0'))));
    ASSERT_THAT(client.Write(0, std::string(kTestStagingSize, 'x')), IsOk());
    ASSERT_THAT(client.Call(CommandText(ServiceOp::kEcho)), IsOk());
    if (i % 3 == 2) {
      addresses.erase(client.welcome().staging.address);
      keys.erase(client.welcome().staging.key);
      clients.pop_back();
    }
  }
}

TEST_P(VerbsTest, MoreConnectionsThanACompletionQueueHoldsAreRejected) {
  StartService({.sends = 8000});  // each connection takes so much of the completion queue that few fit
  std::vector<std::unique_ptr<Client>> clients;
  absl::Status rejected;
  while (rejected.ok() && clients.size() < 512) {
    auto client = Client::Open(service_->address(), clock_);
    rejected = client.status();
    if (client.ok()) clients.push_back(*std::move(client));
  }
  EXPECT_THAT(rejected, HasCode(absl::StatusCode::kFailedPrecondition));
  ASSERT_GE(clients.size(), 2u);
  const std::size_t most = clients.size();
  clients.pop_back();
  ASSERT_TRUE(service_->Await([&](Service& service) { return service.session_count() == most - 1; }));
  // There is space again when the end has been brought about.
  const TimePoint deadline = Deadline();
  absl::StatusOr<std::unique_ptr<Client>> next;
  do {
    next = Client::Open(service_->address(), clock_);
  } while (!next.ok() && clock_.Now() < deadline);
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ((*next)->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

TEST_P(VerbsTest, AStoppedServerIsReadAndAKilledOneIsMissed) {
  // exec keeps the process id that the shell has printed.
  const std::string command = "echo $$; exec " REMORA_TEST_PEER " serve verbs://" + where_.host;
  FILE* const peer = popen(command.c_str(), "r");
  ASSERT_NE(peer, nullptr);
  std::array<char, 256> line{};
  ASSERT_NE(std::fgets(line.data(), line.size(), peer), nullptr);
  const pid_t pid = std::atoi(line.data());
  ASSERT_NE(std::fgets(line.data(), line.size(), peer), nullptr);
  const std::string text(line.data());
  const auto address = ParseAddress(text.substr(0, text.find('\n')));
  ASSERT_THAT(address, IsOk());
  const auto client = OpenAt(*address);

  kill(pid, SIGSTOP);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(client->Read(i, {64}).value_or(""), RegionText(i, 64));
  kill(pid, SIGCONT);
  EXPECT_THAT(client->Call(CommandText(ServiceOp::kEcho)), IsOk());
  kill(pid, SIGSTOP);
  kill(pid, SIGKILL);
  EXPECT_EQ(client->AwaitDisconnect().value_or(absl::OkStatus()).code(), absl::StatusCode::kUnavailable);
  pclose(peer);
}

TEST_P(VerbsTest, HundredsOfConnectionsLeaveNothingBehind) {
  StartService();
  std::string before;
  for (int i = 0; i < 205; ++i) {
    if (i == 5) {  // the things that libraries keep for good are there by now
      ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
      before = HeldAtRest();
    }
    ASSERT_THAT(Open()->Read(0, {1}), IsOk());
  }
  ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 0; }));
  EXPECT_EQ(HeldAtRest(), before);
}

}  // namespace
}  // namespace remora::rdma
