// A server that serves while it loads: no client takes a key for missing because it is not loaded yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/conformance/async_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/self_describing.h"
#include "tests/support/server_thread.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

// --- Step by step, under READs that come in pieces ------------------------------------------------------

class LoadingTest : public SimServed, public testing::TestWithParam<unsigned> {
 protected:
  static constexpr std::uint64_t kKeys = 600;

  LoadingTest() : SimServed(GetParam()) {}

  /// A server that has loaded nothing yet of what an earlier one stored.
  void SetUp() override {
    options_.store.durability = Durability::kLogged;
    options_.store.memory_size = kMinMemorySize;
    options_.store.data_dir = dir_.path() + "/data";
    options_.store.clock = &network_.clock();
    options_.store.eviction = Eviction::kNone;
    {
      auto store = ServerStore::Open(options_.store);
      ASSERT_TRUE(store.ok()) << store.status();
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_TRUE((*store)->Put(Key(i), MakeValue(Key(i), i, 300)).ok());
        stored_[Key(i)] = i;
      }
    }
    options_.store.loading = Loading::kInSteps;
    ASSERT_NO_FATAL_FAILURE(Serve(options_));
    ASSERT_TRUE(server_->store().loading());
    client_ = Connect();
  }

  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.timeout = std::chrono::minutes(5);  // time flies here
    options.location_cache_bytes = GetParam() % 2 == 0 ? 0 : std::size_t{1} << 14;
    return SimServed::Connect(options);
  }
  static std::string Key(std::uint64_t i) { return "key " + std::to_string(i); }
  void ExpectThere(Client& client, const std::string& key) {
    std::string value;
    const absl::Status status = client.Get(key, &value);
    ASSERT_TRUE(status.ok()) << key << ": " << status;
    ASSERT_EQ(value, MakeValue(key, stored_.at(key), value.size())) << key;
  }
  void LoadAll() {
    while (server_->store().Load()) {
    }
  }

  const TempDir dir_;
  ServerOptions options_;
  std::map<std::string, std::uint64_t> stored_;
  std::string reading_;
  std::unique_ptr<Client> client_;
};

TEST_P(LoadingTest, NothingIsMissingThatIsNotLoadedYet) {
  for (std::uint64_t i = 0; i < kKeys; i += 7) ASSERT_NO_FATAL_FAILURE(ExpectThere(*client_, Key(i)));
  EXPECT_TRUE(absl::IsNotFound(client_->Get("none").status()));
  EXPECT_TRUE(server_->store().loading());
}

TEST_P(LoadingTest, AllAreCountedWhateverIsLoaded) {
  for (int loads = 0; loads < 3; ++loads) {
    const absl::StatusOr<std::uint64_t> count = client_->Count();
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, kKeys);
    const absl::StatusOr<std::uint64_t> embedded = server_->store().Count();
    ASSERT_TRUE(embedded.ok()) << embedded.status();
    EXPECT_EQ(*embedded, kKeys);
    EXPECT_TRUE(server_->store().loading());
    ASSERT_LT(server_->store().Read(Metric::kKeys), kKeys);
    server_->store().Load();
  }
  LoadAll();
  EXPECT_EQ(client_->Count().value_or(0), kKeys);
  ASSERT_TRUE(client_->Ping().ok());  // it learns that all is loaded
  const ClientCounters before = client_->counters();
  EXPECT_EQ(client_->Count().value_or(0), kKeys);
  EXPECT_EQ((client_->counters() - before).requests, 0u);
}

// The rest is loaded, and others write, between any two pieces of a READ.
TEST_P(LoadingTest, NothingIsMissingWhileItIsLoaded) {
  network_.set_piece_size(1 + network_.random()() % 16);
  const std::unique_ptr<Client> writer = Connect();
  std::uint64_t number = kKeys;
  network_.set_interference(
      [&] {
        if (network_.random()() % 8 == 0) server_->store().Load();
        const std::string key = Key(network_.random()() % kKeys);
        if (!stored_.contains(key) || network_.random()() % 4 != 0) return;
        // Not the one that is being read, whose value would be either.
        if (key == reading_) return;
        ASSERT_TRUE(writer->Put(key, MakeValue(key, ++number, 100)).ok());
        stored_[key] = number;
      },
      500);
  for (std::uint64_t i = 0; server_->store().loading() || i < 2 * kKeys; ++i) {
    reading_ = Key(network_.random()() % kKeys);
    ASSERT_NO_FATAL_FAILURE(ExpectThere(*client_, reading_));
  }
}

// A READ before the last key was loaded proves no miss, though a later answer says that all keys are loaded.
TEST_P(LoadingTest, NothingIsMissingThatWasReadBeforeAllWasLoaded) {
  network_.set_step([this] {
    LoadAll();
    server_->Step();
  });
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < 12; ++i) names.push_back(Key(i * 7));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<GetResult> results(keys.size());
  ASSERT_TRUE(client_->MultiGet(keys, results).ok());
  EXPECT_FALSE(server_->store().loading());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(results[i].status.ok()) << keys[i] << ": " << results[i].status;
    EXPECT_EQ(results[i].value, MakeValue(names[i], stored_.at(names[i]), results[i].value.size()));
  }
}

// The same where the answer overtakes the completions of READs, for which there is a queue of their own.
TEST_P(LoadingTest, NothingIsMissingThatManyAtOnceReadBeforeAllWasLoaded) {
  Tampering tampering;
  auto connected = AsyncClient::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering),
                                        {.timeout = std::chrono::minutes(5)}, {}, network_.clock());
  ASSERT_TRUE(connected.ok()) << connected.status();
  const std::unique_ptr<AsyncClient> client = *std::move(connected);
  network_.set_step([] {});
  AsyncOutcome ping;
  ASSERT_TRUE(client->Ping(ping.Taker()).ok());
  std::vector<AsyncOutcome> gets(12);
  for (std::size_t i = 0; i < gets.size(); ++i) {
    ASSERT_TRUE(client->Get(Key(i * 7), gets[i].Taker()).ok());
  }
  tampering.hold_reads = tampering.replies_overtake = true;
  // The directory's READ first, which all wait for.
  for (int i = 0; i < 100 && tampering.held < gets.size(); ++i) client->Poll();
  ASSERT_GE(tampering.held, gets.size());
  LoadAll();
  network_.set_step([this] { server_->Step(); });
  for (int i = 0; i < 1000 && ping.calls == 0; ++i) client->Poll();
  ASSERT_TRUE(ping.status.ok()) << ping.status;
  tampering.hold_reads = false;
  ASSERT_TRUE(client->WaitAll(network_.clock().Now() + std::chrono::minutes(10)).ok());
  for (std::size_t i = 0; i < gets.size(); ++i) {
    const std::string key = Key(i * 7);
    ASSERT_TRUE(gets[i].status.ok()) << key << ": " << gets[i].status;
    EXPECT_EQ(gets[i].value, MakeValue(key, stored_.at(key), gets[i].value.size()));
  }
}

TEST_P(LoadingTest, KeysDeletedDuringTheLoadAreMissing) {
  for (std::uint64_t i = 0; i < kKeys; i += 3) {
    ASSERT_TRUE(client_->Delete(Key(i)).ok());
    ASSERT_TRUE(absl::IsNotFound(client_->Get(Key(i)).status()));
    ASSERT_TRUE(absl::IsNotFound(client_->Delete(Key(i))));
  }
  LoadAll();
  for (std::uint64_t i = 0; i < kKeys; i += 3) ASSERT_TRUE(absl::IsNotFound(client_->Get(Key(i)).status()));
}

// Once it has heard that all is loaded, a client believes the index again.
TEST_P(LoadingTest, AMissCostsARequestOnlyWhileItLoads) {
  std::uint64_t before = client_->counters().requests;
  EXPECT_TRUE(absl::IsNotFound(client_->Get("none").status()));
  EXPECT_EQ(client_->counters().requests - before, 1u);
  LoadAll();
  EXPECT_TRUE(absl::IsNotFound(client_->Get("none").status()));
  before = client_->counters().requests;
  EXPECT_TRUE(absl::IsNotFound(client_->Get("none").status()));
  EXPECT_EQ(client_->counters().requests, before);
  const std::unique_ptr<Client> late = Connect();
  EXPECT_TRUE(absl::IsNotFound(late->Get("none").status()));
  EXPECT_EQ(late->counters().requests, 0u) << "it heard so when it connected";
}

TEST_P(LoadingTest, NoSpaceForARecordIsSaidSo) {
  client_.reset();
  server_.reset();
  {
    StoreOptions larger = options_.store;
    larger.loading = Loading::kInOpen;
    larger.memory_size = 2 * kMinMemorySize;
    auto store = ServerStore::Open(larger);
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string value(kMaxSmallValueSize, 'v');
    for (int i = 0; i < 80; ++i) ASSERT_TRUE((*store)->Put("large " + std::to_string(i), value).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Serve(options_));
  client_ = Connect();
  int there = 0;
  for (int i = 0; i < 80; ++i) {
    const absl::Status status = client_->Get("large " + std::to_string(i)).status();
    there += status.ok();
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_GT(there, 30);
  EXPECT_LT(there, 64);
  EXPECT_TRUE(client_->Ping().ok());
  // When it turns out that the rest does not fit, the server ends, and says why.
  LoadAll();
  EXPECT_EQ(server_->Run().code(), absl::StatusCode::kOutOfRange);
}

TEST_P(LoadingTest, ALoadThatIsOverBeforeTheServerServesIsToldOf) {
  client_.reset();
  server_.reset();
  std::vector<std::string> lines;
  options_.store.loading = Loading::kInOpen;
  options_.log = [&lines](LogEvent, std::string_view line) { lines.emplace_back(line); };
  ASSERT_NO_FATAL_FAILURE(Serve(options_));
  ASSERT_FALSE(server_->store().loading());
  server_->Step();
  EXPECT_THAT(lines, testing::ElementsAre(testing::StartsWith("loaded 600 keys in ")));
  server_->Step();
  EXPECT_EQ(lines.size(), 1u) << "it is told once";
}

INSTANTIATE_TEST_SUITE_P(Seeds, LoadingTest, testing::Range(1u, 5u));

// --- In threads, on every kind of deployment ------------------------------------------------------------

class LoadingBehaviour : public Behaviour {};

INSTANTIATE_TEST_SUITE_P(Deployments, LoadingBehaviour,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(LoadingBehaviour, ARestartServesAtOnce) {
  Deployment::Options options;
  options.durability = Durability::kLogged;
  options.loading = Loading::kInBackground;
  options.memory_size = std::size_t{64} << 20;
  START(options);
  constexpr std::uint64_t kKeys = 5000;
  const auto key = [](std::uint64_t i) { return "key " + std::to_string(i); };
  for (std::uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(Put(key(i), MakeValue(key(i), i, 500)).ok());
  ASSERT_NO_FATAL_FAILURE(Restart());
  // From the end: the load comes from the other side.
  for (std::uint64_t i = kKeys; i-- > 0;) {
    const std::string value = Get(key(i));
    ASSERT_EQ(value, MakeValue(key(i), i, value.size()));
  }
  EXPECT_CODE(kNotFound, GetStatus("none"));
  EXPECT_TRUE(store().load_status().ok());
}

TEST_P(LoadingBehaviour, ARestartOfMoreThanMemoryHoldsServesAtOnce) {
  Deployment::Options options;
  options.durability = Durability::kLogged;
  options.loading = Loading::kInBackground;
  options.memory_size = kMinMemorySize;
  options.eviction = Eviction::kLeastUsed;
  options.grace = std::chrono::milliseconds(kMinGraceMs);
  START(options);
  constexpr std::size_t kValueSize = 20'000;
  constexpr std::uint64_t kKeys = 4 * kMinMemorySize / kValueSize;
  const auto key = [](std::uint64_t i) { return "key " + std::to_string(i); };
  std::map<std::uint64_t, std::string> stored;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    stored[i] = MakeValue(key(i), i, kValueSize);
    ASSERT_CODE(kOk, Put(key(i), stored[i]));
  }
  ASSERT_NO_FATAL_FAILURE(Restart());
  // From the end, and beside it some are overwritten or deleted that may be loaded or not.
  for (std::uint64_t i = kKeys; i-- > 0;) {
    ASSERT_EQ(Get(key(i)), stored.at(i));
    if (i % 7 == 0) {
      stored[i / 2] = "overwritten";
      ASSERT_CODE(kOk, Put(key(i / 2), "overwritten"));
    }
    if (i % 11 == 0) {
      stored.erase(i);
      ASSERT_CODE(kOk, Delete(key(i)));
    }
  }
  while (store().loading() && store().load_status().ok()) std::this_thread::yield();
  ASSERT_TRUE(store().load_status().ok()) << store().load_status();
  EXPECT_EQ(store().Read(Metric::kKeys), stored.size());
  EXPECT_GT(store().Read(Metric::kColdKeys), kKeys / 2);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    if (stored.contains(i)) {
      ASSERT_EQ(Get(key(i)), stored.at(i)) << i;
    } else {
      ASSERT_CODE(kNotFound, GetStatus(key(i)));
    }
  }
}

}  // namespace
}  // namespace remora
