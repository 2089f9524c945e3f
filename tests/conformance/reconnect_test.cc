// Clients whose server goes, and comes back, over every transport.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class Reconnect : public Behaviour {
 protected:
  /// Restarts the server, as itself or as its successor; its clients live on.
  void RestartBelow() {
    const absl::Status restarted = deployment_->Restart();
    ASSERT_TRUE(restarted.ok()) << restarted;
  }
  std::uint64_t reconnects() { return kv_->client()->counters().reconnects; }

  // Each call is the first one after a restart of the server.

  void WriteOneKey() {
    RestartBelow();
    EXPECT_EQ(kv_->Increment("sum", 1).value_or(0), 2);
    RestartBelow();
    EXPECT_EQ(kv_->Append("key", "s").value_or(0), 6u);
    RestartBelow();
    EXPECT_CODE(kOk, Put("key", "value"));
    RestartBelow();
    EXPECT_CODE(kOk, kv_->Touch("key", std::chrono::hours(1)));
    RestartBelow();
    EXPECT_CODE(kOk, Delete("sum"));
    RestartBelow();
    WriteBatch batch;
    batch.Put("a", "1");
    EXPECT_CODE(kOk, kv_->Apply(batch));
  }
  void CallWithSeveralMessages() {
    RestartBelow();
    const std::string large(std::size_t{1} << 20, 'l');
    EXPECT_CODE(kOk, Put("large", large));
    RestartBelow();
    EXPECT_TRUE(Get("large") == large);
    RestartBelow();
    const std::array<std::string_view, 3> keys = {"key", "none", "a"};
    std::array<GetResult, 3> results;
    EXPECT_CODE(kOk, kv_->MultiGet(keys, results));
    EXPECT_EQ(results[0].value, "value");
    EXPECT_CODE(kNotFound, results[1].status);
    EXPECT_EQ(results[2].value, "1");
    RestartBelow();
    const std::array<PutRequest, 2> puts = {{{"many 1", "v", {}}, {"many 2", "v", {}}}};
    std::array<PutResult, 2> outcomes;
    EXPECT_CODE(kOk, kv_->client()->MultiPut(puts, outcomes));
    EXPECT_CODE(kOk, outcomes[1].status);
    EXPECT_CODE(kOk, Delete("many 1"));
    EXPECT_CODE(kOk, Delete("many 2"));
  }
  void CallWithRanges() {
    RestartBelow();
    EXPECT_EQ(kv_->client()->Count().value_or(0), 3u);
    RestartBelow();
    EXPECT_EQ(kv_->client()->Count({.prefix = "a"}).value_or(0), 1u);
    RestartBelow();
    const auto scan = kv_->client()->Scan();
    ASSERT_TRUE(scan.ok()) << scan.status();
    RestartBelow();
    int shown = 0;
    while ((*scan)->Next()) ++shown;  // more than a page
    EXPECT_EQ(shown, 3);
    const auto watch = kv_->client()->Watch();
    ASSERT_TRUE(watch.ok()) << watch.status();
    RestartBelow();
    EXPECT_CODE(kOk, (*watch)->Next(milliseconds(0)).status());
    RestartBelow();
    EXPECT_EQ(kv_->client()->DeleteRange({.prefix = "a"}).value_or(0), 1u);
    RestartBelow();
    EXPECT_EQ(kv_->client()->DeleteAll().value_or(0), 2u);
  }
};

INSTANTIATE_TEST_SUITE_P(On, Reconnect,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Reconnect, EveryCallGoesOnWithALoggedServerThatWasRestarted) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_CODE(kOk, Put("sum", "1"));
  std::vector<std::byte> memory(4096);
  auto buffer = kv_->client()->Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_EQ(kv_->client()->Get("key", **buffer).value_or(0), 5u);

  RestartBelow();
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(reconnects(), 1u);
  RestartBelow();
  memory[0] = std::byte{0};
  EXPECT_EQ(kv_->client()->Get("key", **buffer).value_or(0), 5u);
  EXPECT_EQ(static_cast<char>(memory[0]), 'v');
  WriteOneKey();
  CallWithSeveralMessages();
  if (HasFatalFailure()) return;
  RestartBelow();
  EXPECT_CODE(kOk, kv_->client()->Ping());
  RestartBelow();
  EXPECT_TRUE(kv_->client()->Stats().ok());
  RestartBelow();
  EXPECT_TRUE(kv_->Exists("key").value_or(false));
  RestartBelow();
  EXPECT_TRUE(kv_->Ttl("key").value_or(std::nullopt).has_value());
  CallWithRanges();
  EXPECT_EQ(reconnects(), 23u);
}

TEST_P(Reconnect, NothingOfTheServerBeforeIsBelieved) {
  START({}, {.location_cache_bytes = 1 << 20});
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kOk, Put("key " + std::to_string(i), "before"));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Get("key " + std::to_string(i)), "before");
  RestartBelow();
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kNotFound, GetStatus("key " + std::to_string(i)));
  ASSERT_CODE(kOk, Put("key 7", "after"));
  EXPECT_EQ(Get("key 7"), "after");
}

TEST_P(Reconnect, AMirrorOfTheIndexIsMadeAnew) {
  START({}, {.index_mirror_bytes = 1 << 20});
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kOk, Put("key " + std::to_string(i), "before"));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Get("key " + std::to_string(i)), "before");
  EXPECT_GT(kv_->client()->counters().mirror_hits, 90u);
  const std::uint64_t built = kv_->client()->counters().mirror_read_bytes;
  RestartBelow();
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kNotFound, GetStatus("key " + std::to_string(i)));
  EXPECT_GT(kv_->client()->counters().mirror_read_bytes, built + 64 * sizeof(Bucket));
  ASSERT_CODE(kOk, Put("key 7", "after"));
  EXPECT_EQ(Get("key 7"), "after");
}

TEST_P(Reconnect, AServerThatDoesNotComeBackIsReportedInTimeAndOneThatDoesIsFound) {
  START({.durability = Durability::kLogged}, {.timeout = milliseconds(slow() ? 2000 : 300)});
  ASSERT_CODE(kOk, Put("key", "value"));
  deployment_->Stop();
  EXPECT_CODE(kUnavailable, GetStatus("key"));
  EXPECT_CODE(kUnavailable, Put("key", "lost"));
  EXPECT_CODE(kUnavailable, kv_->Increment("sum", 1).status());
  const std::array<std::string_view, 2> keys = {"key", ""};
  std::array<GetResult, 2> results;
  EXPECT_CODE(kUnavailable, kv_->MultiGet(keys, results));
  EXPECT_CODE(kUnavailable, results[0].status);
  EXPECT_CODE(kInvalidArgument, results[1].status);
  RestartBelow();
  EXPECT_EQ(Get("key"), "value");
  EXPECT_CODE(kNotFound, GetStatus("sum"));
  EXPECT_EQ(reconnects(), 1u);
}

TEST_P(Reconnect, WithoutItTheFirstConnectionIsTheOnlyOne) {
  START({.durability = Durability::kLogged}, {.reconnect = false});
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(store().Read(Metric::kClientsRemembered), 0u);
  RestartBelow();
  EXPECT_CODE(kUnavailable, GetStatus("key"));
  EXPECT_CODE(kUnavailable, Put("key", "lost"));
  EXPECT_EQ(reconnects(), 0u);
}

TEST_P(Reconnect, AnotherVersionBehindTheSameAddressEndsTheAttempts) {
  START();
  const auto reject = [&](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
    return absl::FailedPreconditionError("no device");
  };
  bool again = false;
  auto client =
      Client::Connect([&](TimePoint deadline) { return again ? reject(deadline) : deployment_->Dial(); }, {},
                      deployment_->clock());
  ASSERT_TRUE(client.ok()) << client.status();
  again = true;
  RestartBelow();
  EXPECT_CODE(kFailedPrecondition, (*client)->Put("key", "value"));
  again = false;
  EXPECT_CODE(kOk, (*client)->Put("key", "value"));
}

// As when the message that asks for a connection is lost: the one who was asked never answers.
// Its place is as good as before, whatever the server was short of meanwhile.
TEST_P(Reconnect, AWatchGoesOnBehindWhatMayPass) {
  START({.durability = Durability::kLogged});
  absl::Status rejection;
  const auto dial = [&](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
    if (!rejection.ok()) return rejection;
    return deployment_->Dial();
  };
  const std::unique_ptr<Client> client =
      *Client::Connect(dial, {.timeout = milliseconds(slow() ? 2000 : 500)}, deployment_->clock());
  const std::unique_ptr<ClientWatch> watch = *client->Watch();
  for (const auto code : {absl::StatusCode::kResourceExhausted, absl::StatusCode::kFailedPrecondition,
                          absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnavailable}) {
    const std::string key(absl::StatusCodeToString(code));
    ASSERT_CODE(kOk, Put(key, "value"));
    rejection = absl::Status(code, "for now");
    RestartBelow();
    EXPECT_TRUE(HasCode(code, watch->Next(milliseconds(0)).status()));
    rejection = absl::OkStatus();
    absl::StatusOr<bool> came = false;
    // On a busy machine, the new server may take longer than the timeout.
    for (int i = 0; i < 20; ++i) {
      came = watch->Next(std::chrono::seconds(20));
      if (!absl::IsUnavailable(came.status()) && !absl::IsDeadlineExceeded(came.status())) break;
    }
    ASSERT_TRUE(came.ok() && *came) << key << ": " << came.status();
    EXPECT_EQ(watch->key(), key);
  }
}

// The log of the other data ends before the watch's position, and may never get there.
TEST_P(Reconnect, AWatchSaysThatTheServerHasOtherData) {
  START({.durability = Durability::kLogged});
  std::string why_not;
  const auto other = Deployment::Create(GetParam(), {.durability = Durability::kLogged}, &why_not);
  ASSERT_NE(other, nullptr) << why_not;
  Deployment* now = deployment_.get();
  std::unique_ptr<Client> client = *Client::Connect([&](TimePoint) { return now->Dial(); },
                                                    {.timeout = std::chrono::seconds(20)}, now->clock());
  std::unique_ptr<ClientWatch> watch = *client->Watch();
  for (int i = 0; i < 20; ++i) {
    ASSERT_CODE(kOk, Put("key", std::to_string(i)));
    const absl::StatusOr<bool> came = watch->Next(std::chrono::seconds(20));
    ASSERT_TRUE(came.ok() && *came) << came.status();
  }
  const std::string token = watch->resume_token();
  now = other.get();
  kv_.reset();
  deployment_->Stop();
  EXPECT_CODE(kOutOfRange, watch->Next(milliseconds(0)).status());
  EXPECT_CODE(kOutOfRange, watch->Next(milliseconds(0)).status()) << "it is final";
  EXPECT_CODE(kOutOfRange, client->Watch({.resume_token = token}).status());
  watch = *client->Watch();
  ASSERT_CODE(kOk, client->Put("key", "of the other"));
  const absl::StatusOr<bool> came = watch->Next(std::chrono::seconds(20));
  ASSERT_TRUE(came.ok() && *came) << came.status();
  EXPECT_EQ(watch->value(), "of the other");
  watch.reset();
  client.reset();
}

TEST_P(Reconnect, AnAttemptThatGetsNoAnswerIsNotTheLast) {
  START({.durability = Durability::kLogged});
  if (!deployment_->concurrent()) GTEST_SKIP() << "simulated: nobody else can be asked there";
  std::string folder = testing::TempDir() + "/remora-silent-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto address = rdma::ParseAddress("local://" + folder + "/socket");
  ASSERT_TRUE(address.ok()) << address.status();
  auto silent = rdma::Listen(*address, {}, deployment_->clock());
  ASSERT_TRUE(silent.ok()) << silent.status();
  int lost = 1;
  const std::chrono::seconds patience(20);
  auto client = Client::Connect(
      [&](TimePoint deadline) {
        return lost-- > 0 ? rdma::Dial(*address, {}, deployment_->clock(), deadline) : deployment_->Dial();
      },
      {.connect_timeout = patience, .timeout = patience}, deployment_->clock());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_LT(lost, 0);
  EXPECT_EQ((*client)->Increment("sum", 1).value_or(0), 1);
  lost = 1;
  RestartBelow();
  EXPECT_EQ((*client)->Increment("sum", 1).value_or(0), 2);
  EXPECT_LT(lost, 0);
  EXPECT_EQ((*client)->counters().reconnects, 1u);
  silent->reset();
  std::filesystem::remove_all(folder);
}

/// Ends what waits when it is told to.
class InterruptibleClock final : public SteadyClock {
 public:
  bool IsInterrupted() const override { return is_interrupted; }
  Duration LongestSleep() const override { return std::chrono::milliseconds(10); }
  bool is_interrupted = false;
};

TEST_P(Reconnect, ACallThatIsInterruptedEndsAndTheNextOneConnects) {
  START({.durability = Durability::kLogged});
  if (!deployment_->concurrent()) GTEST_SKIP() << "simulated: nobody else can be asked there";
  std::string folder = testing::TempDir() + "/remora-silent-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto address = rdma::ParseAddress("local://" + folder + "/socket");
  ASSERT_TRUE(address.ok()) << address.status();
  auto silent = rdma::Listen(*address, {}, deployment_->clock());
  ASSERT_TRUE(silent.ok()) << silent.status();
  InterruptibleClock clock;
  bool is_lost = false;
  auto client = Client::Connect(
      [&](TimePoint deadline) {
        return is_lost ? rdma::Dial(*address, {}, clock, deadline) : deployment_->Dial();
      },
      {.timeout = std::chrono::seconds(20)}, clock);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->Increment("sum", 1).value_or(0), 1);
  RestartBelow();
  is_lost = clock.is_interrupted = true;
  EXPECT_CODE(kCancelled, (*client)->Increment("sum", 1).status());
  is_lost = clock.is_interrupted = false;
  EXPECT_EQ((*client)->Increment("sum", 1).value_or(0), 2);
  silent->reset();
  std::filesystem::remove_all(folder);
}

// Clients add while the server is stopped and started again. The sums that each was told add up to the value
// that is there.
TEST_P(Reconnect, AdditionsOfManyClientsAreExactAcrossRestarts) {
  START({.durability = Durability::kLogged});
  if (!deployment_->concurrent()) GTEST_SKIP() << "simulated: one thread; LostAnswers does it";
  constexpr int kClients = 3;
  const int restarts = slow() ? 2 : 5;
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> sum = 0;
  std::vector<std::unique_ptr<KeyValue>> kvs;
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) kvs.push_back(Connect({.timeout = std::chrono::seconds(60)}));
  for (const auto& kv : kvs) {
    threads.emplace_back([&stop, &sum, &kv = *kv] {
      while (!stop) {
        const absl::StatusOr<std::int64_t> added = kv.Increment("sum", 1);
        ASSERT_TRUE(added.ok()) << added.status();
        ++sum;
      }
    });
  }
  for (int i = 0; i < restarts; ++i) {
    const std::int64_t before = sum;
    while (sum < before + 100) std::this_thread::yield();
    RestartBelow();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("sum"), std::to_string(sum));
  for (const auto& kv : kvs) EXPECT_GT(kv->client()->counters().reconnects, 0u);
}

}  // namespace
}  // namespace remora
