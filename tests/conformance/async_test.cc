// Operations of an AsyncClient, each by itself, and many of them together against a model.
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/conformance/async_fixture.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

INSTANTIATE_TEST_SUITE_P(On, Async,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

using std::chrono::hours;
using std::chrono::milliseconds;

std::string KeyOf(std::size_t i) { return "key " + std::to_string(i); }

// --- Each operation -------------------------------------------------------------------------------------

TEST_P(Async, EachOperationDoesWhatTheClientsDoes) {
  START();
  ConnectAsync();
  EXPECT_OUTCOME(kNotFound, AsyncGet("a"));
  const Outcome put = AsyncPut("a", "1");
  EXPECT_OUTCOME(kOk, put);
  const Outcome got = AsyncGet("a");
  EXPECT_EQ(got.text(), "1");
  EXPECT_EQ(got.version, put.version);
  EXPECT_EQ(Get("a"), "1");

  std::uint64_t version = 0;
  EXPECT_OUTCOME(kAlreadyExists, AsyncPut("a", "2", {.condition = Condition::Absent(), .version = &version}));
  EXPECT_EQ(version, 0u);
  EXPECT_OUTCOME(kOk,
                 AsyncPut("a", "2", {.condition = Condition::Version(put.version), .version = &version}));
  EXPECT_EQ(version, put.version + 1);

  const auto exists = [&](std::string_view key) {
    return Do([&](AsyncClient::Done done) { return async_->Exists(key, std::move(done)); });
  };
  EXPECT_OUTCOME(kOk, exists("a"));
  EXPECT_OUTCOME(kNotFound, exists("b"));

  EXPECT_EQ(Do([&](auto done) { return async_->Increment("n", 40, std::move(done)); }).number, 40);
  EXPECT_EQ(Do([&](auto done) { return async_->Increment("n", 2, std::move(done)); }).number, 42);
  EXPECT_OUTCOME(kOutOfRange,
                 Do([&](auto done) { return async_->Increment("n", INT64_MAX, std::move(done)); }));
  EXPECT_EQ(Do([&](auto done) { return async_->Append("n", "!", std::move(done)); }).number, 3);
  EXPECT_OUTCOME(kFailedPrecondition,
                 Do([&](auto done) { return async_->Increment("n", 1, std::move(done)); }));

  const auto ttl = [&] { return Do([&](auto done) { return async_->Ttl("a", std::move(done)); }); };
  EXPECT_EQ(ttl().ttl, std::nullopt);
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Touch("a", hours(1), std::move(done)); }));
  ASSERT_TRUE(ttl().ttl.has_value());
  EXPECT_LE(*ttl().ttl, hours(1));
  EXPECT_GT(*ttl().ttl, hours(1) - std::chrono::minutes(5));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Persist("a", std::move(done)); }));
  EXPECT_EQ(ttl().ttl, std::nullopt);

  WriteBatch batch;
  batch.Put("x", "1");
  batch.Put("y", "2");
  batch.Delete("a");
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Apply(batch, std::move(done)); }));
  EXPECT_EQ(AsyncGet("x").text() + AsyncGet("y").text() + AsyncGet("a").text(), "12NOT_FOUND");
  EXPECT_OUTCOME(kNotFound, Do([&](auto done) { return async_->Apply(batch, std::move(done)); }));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Apply(WriteBatch(), std::move(done)); }));

  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Delete("x", std::move(done)); }));
  EXPECT_OUTCOME(kNotFound, Do([&](auto done) { return async_->Delete("x", std::move(done)); }));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Ping(std::move(done)); }));
}

TEST_P(Async, OperationsOutOfBoundsDoNotBegin) {
  START();
  ConnectAsync();
  int called = 0;
  const auto done = [&called] { return [&called](const AsyncResult&) { ++called; }; };
  const std::string long_key(kMaxKeySize + 1, 'k');
  const std::string large(kMaxSmallValueSize + 1, 'v');
  EXPECT_CODE(kInvalidArgument, async_->Get("", done()).status());
  EXPECT_CODE(kInvalidArgument, async_->Exists(long_key, done()).status());
  EXPECT_CODE(kInvalidArgument, async_->Put(long_key, "v", done()).status());
  EXPECT_CODE(kInvalidArgument, async_->Put("k", "v", {.ttl = milliseconds(0)}, done()).status());
  EXPECT_CODE(kInvalidArgument,
              async_->Delete("k", {.condition = Condition::Version(kMaxVersion)}, done()).status());
  EXPECT_CODE(kOutOfRange, async_->Append("k", large, done()).status());
  EXPECT_CODE(kInvalidArgument, async_->Put("k", std::string(kMaxValueSize + 1, 'v'), done()).status());
  WriteBatch bad;
  bad.Put("", "v");
  EXPECT_CODE(kInvalidArgument, async_->Apply(bad, done()).status());
  EXPECT_EQ(async_->in_flight(), 0u);
  EXPECT_EQ(async_->Poll(), 0u);
  EXPECT_EQ(called, 0);
  EXPECT_EQ(async_->counters().requests, 0u);

  auto connection = deployment_->Dial();
  ASSERT_TRUE(connection.ok());
  EXPECT_CODE(kInvalidArgument,
              AsyncClient::Connect(*std::move(connection), {}, {.depth = 0}, deployment_->clock()).status());
}

TEST_P(Async, NoMoreThanItsDepth) {
  START();
  ConnectAsync({.depth = 3});
  ASSERT_CODE(kOk, Put("a", "1"));
  std::vector<Outcome> outcomes(4);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(async_->free_slots(), 3 - i);
    ASSERT_CODE(kOk, async_->Get("a", Into(outcomes[i])).status());
  }
  const absl::Status rejected = async_->Get("a", Into(outcomes[3])).status();
  EXPECT_CODE(kResourceExhausted, rejected);
  EXPECT_THAT(std::string(rejected.message()), testing::HasSubstr("depth"));
  WaitAll();
  EXPECT_EQ(async_->free_slots(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outcomes[i].text(), "1");
  EXPECT_EQ(outcomes[3].calls, 0);
  EXPECT_EQ(AsyncGet("a").text(), "1");
}

TEST_P(Async, ACostIsTheClients) {
  START({.grace = std::chrono::seconds(10)});  // a client that is held up for so long reads again
  ConnectAsync({}, {.location_cache_bytes = 0});
  ASSERT_CODE(kOk, Put("a", "1"));
  AsyncGet("a");
  const ClientCounters before = async_->counters();
  EXPECT_EQ(AsyncGet("a").text(), "1");
  EXPECT_OUTCOME(kNotFound, AsyncGet("none"));
  EXPECT_OUTCOME(kOk, AsyncPut("a", "2"));
  const ClientCounters did = async_->counters() - before;
  EXPECT_EQ(did.reads, 3u);
  EXPECT_EQ(did.requests, 1u);
  EXPECT_EQ(did.retries, 0u);
}

TEST_P(Async, PutsOfWhatIsSmallShareMessages) {
  START();
  ConnectAsync();
  const auto sent = [&] { return async_->counters().requests; };
  const std::uint64_t before = sent();
  std::vector<Outcome> outcomes(16);
  const auto put = [&](std::size_t i, std::size_t size, const PutOptions& options = {}) {
    ASSERT_CODE(kOk, async_->Put("key", MakeValue("key", i, size), options, Into(outcomes[i])).status());
  };
  for (std::size_t i = 0; i < outcomes.size(); ++i) put(i, 40);
  EXPECT_EQ(sent() - before, 1u) << "the first waits for nobody";
  WaitAll();
  EXPECT_EQ(sent() - before, 2u);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_OUTCOME(kOk, outcomes[i]);
    EXPECT_EQ(outcomes[i].version, outcomes[0].version + i);
  }
  // Not those on conditions, nor of another durability than the one before, nor more than a list has space
  // for.
  outcomes = std::vector<Outcome>(16);
  put(0, 40);
  put(1, 40, {.condition = Condition::Present()});
  put(2, 40, {.condition = Condition::Absent()});
  for (std::size_t i = 3; i < 6; ++i) put(i, 40);
  for (std::size_t i = 6; i < 9; ++i) put(i, 40, {.durability = Durability::kMemory});
  for (std::size_t i = 9; i < 12; ++i) put(i, 7000);
  for (std::size_t i = 12; i < 16; ++i) put(i, 10'000);
  WaitAll();
  EXPECT_EQ(sent() - before, 2u + 1 + 2 + 1 + 1 + 2 + 4);
  EXPECT_OUTCOME(kAlreadyExists, outcomes[2]);
  for (std::size_t i = 3; i < outcomes.size(); ++i) {
    EXPECT_OUTCOME(kOk, outcomes[i]);
    EXPECT_EQ(outcomes[i].version, outcomes[0].version + i - 1);
  }
  std::string value;
  ASSERT_CODE(kOk, kv_->Get("key", &value));
  EXPECT_EQ(NumberOf("key", value), 15u);
}

TEST_P(Async, PlacesAreRemembered) {
  START();
  ConnectAsync({.depth = 16}, {.location_cache_bytes = kDefaultLocationCacheBytes});
  std::vector<Outcome> outcomes(16);
  for (std::size_t i = 0; i < 16; ++i) {
    ASSERT_CODE(kOk, async_->Put(KeyOf(i), "first " + std::to_string(i), Into(outcomes[i])).status());
  }
  WaitAll();
  const auto get_all = [&](const std::string& what) {
    for (std::size_t i = 0; i < 16; ++i) ASSERT_CODE(kOk, async_->Get(KeyOf(i), Into(outcomes[i])).status());
    WaitAll();
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(outcomes[i].text(), what + std::to_string(i));
  };
  for (int round = 0; round < 10; ++round) get_all("first ");
  EXPECT_GT(async_->counters().location_hits, 0u);
  EXPECT_GT(async_->counters().generation_reads, 0u);
  // Somebody else's writes are seen all the same.
  for (std::size_t i = 0; i < 16; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), "second " + std::to_string(i)));
  for (int round = 0; round < 10; ++round) get_all("second ");
}

// --- Many together --------------------------------------------------------------------------------------

TEST_P(Async, ValuesOfEverySizeSideBySide) {
  START({.memory_size = std::size_t{64} << 20});
  ConnectAsync();
  std::vector<std::string> values;
  std::vector<Outcome> outcomes(60);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    // Some fill the staging buffer, some a buffer, and some are empty.
    const std::size_t size = i % 7 == 0 ? kMaxSmallValueSize - i : i % 5 == 0 ? 4096 + 97 * i : i % 3 * 500;
    values.emplace_back(size, static_cast<char>('a' + i % 26));
    ASSERT_CODE(kOk, async_->Put(KeyOf(i), values[i], Into(outcomes[i])).status());
  }
  WaitAll();
  for (const Outcome& outcome : outcomes) ASSERT_OUTCOME(kOk, outcome);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_CODE(kOk, async_->Get(KeyOf(i), Into(outcomes[i])).status());
    }
    WaitAll();
    for (std::size_t i = 0; i < outcomes.size(); ++i) ASSERT_TRUE(outcomes[i].text() == values[i]) << i;
  }
}

TEST_P(Async, WritesAreDoneInTheOrderInWhichTheyWereBegun) {
  START({.memory_size = std::size_t{32} << 20});
  ConnectAsync({.depth = 200});
  std::vector<Outcome> outcomes(200);
  for (int round = 0; round < (slow() ? 2 : 20); ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      // Of sizes that let a small one overtake a large one, if anything does.
      const std::string value = MakeValue("key", i, random() % 8 == 0 ? 100'000 : 40);
      ASSERT_CODE(kOk, async_->Put("key", value, Into(outcomes[i])).status());
    }
    WaitAll();
    for (const Outcome& outcome : outcomes) ASSERT_OUTCOME(kOk, outcome);
    for (std::size_t i = 1; i < outcomes.size(); ++i) {
      ASSERT_EQ(outcomes[i].version, outcomes[i - 1].version + 1) << i;
    }
    std::string value;
    ASSERT_CODE(kOk, kv_->Get("key", &value));
    EXPECT_EQ(NumberOf("key", value), outcomes.size() - 1);
  }
}

// Mixed operations of many keys, at several depths. Of one key, one operation is in flight at a time, so that
// the model knows what each must say.
class Mixed {
 public:
  Mixed(AsyncClient& client, std::uint64_t seed, std::size_t keys)
      : client_(client), random_(seed), states_(keys) {}

  void Run(std::size_t operations) {
    left_ = operations;
    while (left_ > 0 || client_.in_flight() > 0) {
      while (left_ > 0 && client_.free_slots() > 0 && BeginOne()) {
      }
      const auto ended = client_.Wait(client_.clock().Now() + std::chrono::minutes(1));
      ASSERT_TRUE(ended.ok()) << ended.status();
      if (testing::Test::HasFailure()) break;
    }
  }

 private:
  struct State {
    bool busy = false;
    std::optional<std::string> value;
  };

  /// False: too many keys are busy.
  bool BeginOne() {
    std::size_t i = 0;
    for (int tries = 0; states_[i = random_() % states_.size()].busy; ++tries) {
      if (tries == 50) return false;
    }
    State& state = states_[i];
    const std::string key = KeyOf(i);
    const std::uint64_t what = random_() % 16;
    state.busy = true;
    --left_;
    AsyncClient::Begun begun;
    if (what < 7) {
      begun = client_.Get(key, [this, &state, i](const AsyncResult& result) {
        Ended(state, i, state.value ? absl::StatusCode::kOk : absl::StatusCode::kNotFound, result);
        if (state.value) {
          EXPECT_TRUE(result.value == *state.value) << i;
        }
      });
    } else if (what < 12) {
      const std::string value = MakeValue(key, ++number_, 30 + random_() % (what == 7 ? 20'000 : 600));
      begun = client_.Put(key, value, [this, &state, i, value](const AsyncResult& result) {
        Ended(state, i, absl::StatusCode::kOk, result);
        state.value = value;
      });
    } else if (what < 13) {
      begun = client_.Append(key, "more", [this, &state, i](const AsyncResult& result) {
        Ended(state, i, absl::StatusCode::kOk, result);
        state.value = state.value.value_or("") + "more";
        EXPECT_EQ(static_cast<std::size_t>(result.number), state.value->size());
      });
    } else if (what < 14) {
      begun = client_.Exists(key, [this, &state, i](const AsyncResult& result) {
        Ended(state, i, state.value ? absl::StatusCode::kOk : absl::StatusCode::kNotFound, result);
      });
    } else {
      begun = client_.Delete(key, [this, &state, i](const AsyncResult& result) {
        Ended(state, i, state.value ? absl::StatusCode::kOk : absl::StatusCode::kNotFound, result);
        state.value.reset();
      });
    }
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.ok();
  }

  void Ended(State& state, std::size_t i, absl::StatusCode expected, const AsyncResult& result) {
    EXPECT_TRUE(HasCode(expected, result.status)) << i;
    state.busy = false;
    // Some from here, some from outside.
    if (left_ > 0 && random_() % 2 == 0) BeginOne();
  }

  AsyncClient& client_;
  std::mt19937_64 random_;
  std::vector<State> states_;
  std::size_t left_ = 0;
  std::uint64_t number_ = 0;
};

TEST_P(Async, AgreesWithAMapAtEveryDepth) {
  START({.memory_size = std::size_t{32} << 20});
  std::uint64_t seed = 1;
  for (const std::size_t depth :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}, std::size_t{300}}) {
    SCOPED_TRACE(depth);
    ConnectAsync({.depth = depth}, {.location_cache_bytes = depth % 2 * kDefaultLocationCacheBytes});
    // Keys that no other round has used.
    WriteBatch clear;
    for (std::size_t i = 0; i < 500; ++i) {
      if (kv_->Exists(KeyOf(i)).value_or(false)) clear.Delete(KeyOf(i));
    }
    ASSERT_CODE(kOk, kv_->Apply(clear));
    Mixed(*async_, ++seed, 500).Run(slow() ? 300 : 6000);
    ASSERT_FALSE(HasFailure());
  }
}

// While the index grows, the log is cleaned, and a durable tier evicts.
TEST_P(Async, AgreesWithAMapInLittleMemory) {
  START({.durability = Durability::kLogged,
         .memory_size = kMinMemorySize,
         .eviction = Eviction::kLeastUsed,
         .grace = milliseconds(kMinGraceMs)});
  ConnectAsync();
  const std::string some(2000, 's');
  const int fill = slow() ? 1000 : 6000;
  std::vector<Outcome> outcomes(64);
  for (int i = 0; i < fill;) {
    for (std::size_t j = 0; j < outcomes.size(); ++j, ++i) {
      ASSERT_CODE(kOk, async_->Put("fill " + std::to_string(i), some, Into(outcomes[j])).status());
    }
    WaitAll();
    for (const Outcome& outcome : outcomes) ASSERT_OUTCOME(kOk, outcome);
  }
  Mixed(*async_, 3, 3000).Run(slow() ? 500 : 10'000);
  if (!slow()) {
    EXPECT_GT(store().Read(Metric::kColdKeys), 0u);
  }
  // A value that is in the durable tier alone is brought back.
  for (int i = 0; i < 600; i += 60) {
    for (std::size_t j = 0; j < 60; ++j) {
      ASSERT_CODE(kOk,
                  async_->Get("fill " + std::to_string(i + static_cast<int>(j)), Into(outcomes[j])).status());
    }
    WaitAll();
    for (std::size_t j = 0; j < 60; ++j) ASSERT_TRUE(outcomes[j].text() == some) << outcomes[j].status;
  }
  if (!slow()) {
    EXPECT_GT(async_->counters().locates, 0u);
    EXPECT_GT(store().Read(Metric::kReadsReported), 0u);
  }
}

TEST_P(Async, OfWhatHasExpired) {
  START();
  ConnectAsync();
  ASSERT_OUTCOME(kOk, AsyncPut("short", "1", {.ttl = hours(1)}));
  ASSERT_OUTCOME(kOk, AsyncPut("long", "2", {.ttl = hours(2)}));
  EXPECT_EQ(AsyncGet("short").text() + AsyncGet("long").text(), "12");
  // An hour passes for the operations that are in flight, too: they may end at their deadlines.
  deployment_->Advance(hours(1));
  EXPECT_EQ(AsyncGet("short").text() + AsyncGet("long").text(), "NOT_FOUND2");
}

TEST_P(Async, OfWhatIsNotLoadedYet) {
  START({.durability = Durability::kLogged, .loading = Loading::kInSteps});
  for (std::size_t i = 0; i < 50; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), KeyOf(i)));
  Restart();
  ConnectAsync();
  ASSERT_TRUE(store().loading());
  std::vector<Outcome> outcomes(51);
  for (std::size_t i = 0; i < 51; ++i) ASSERT_CODE(kOk, async_->Get(KeyOf(i), Into(outcomes[i])).status());
  WaitAll();
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(outcomes[i].text(), KeyOf(i));
  EXPECT_EQ(outcomes[50].text(), "NOT_FOUND");
}

// A value that is read beside writers is whole, and no older than the last one that was acknowledged when the
// GET was begun.
TEST_P(Async, BesideWritersIsNeitherTornNorStale) {
  START({.memory_size = kMinMemorySize});
  if (!deployment_->concurrent()) GTEST_SKIP() << "one thread; see living_test.cc";
  ConnectAsync({}, {.location_cache_bytes = kDefaultLocationCacheBytes});
  constexpr std::size_t kKeys = 24;
  std::vector<std::atomic<std::uint64_t>> acknowledged(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), MakeValue(KeyOf(i), 0, 100)));
  std::atomic<bool> done = false;
  const std::unique_ptr<KeyValue> writer = Connect();
  std::thread writing([&] {
    std::mt19937_64 random(5);
    for (std::uint64_t number = 1; !done.load(); ++number) {
      const std::size_t i = random() % kKeys;
      ASSERT_CODE(kOk, writer->Put(KeyOf(i), MakeValue(KeyOf(i), number, 50 + random() % 4000)));
      acknowledged[i] = number;
    }
  });
  const std::size_t total = slow() ? 2000 : 100'000;
  std::size_t begun = 0;
  while ((begun < total || async_->in_flight() > 0) && !HasFailure()) {
    for (; begun < total && async_->free_slots() > 0; ++begun) {
      const std::size_t i = begun % kKeys;
      const std::uint64_t oldest = acknowledged[i];
      ASSERT_CODE(kOk, async_
                           ->Get(KeyOf(i),
                                 [i, oldest](const AsyncResult& result) {
                                   EXPECT_TRUE(result.status.ok()) << result.status;
                                   const std::optional<std::uint64_t> number =
                                       NumberOf(KeyOf(i), result.value);
                                   EXPECT_TRUE(number.has_value()) << result.value;
                                   EXPECT_GE(number.value_or(0), oldest) << "stale";
                                 })
                           .status());
    }
    ASSERT_TRUE(async_->Wait(Soon()).ok());
  }
  done = true;
  writing.join();
}

}  // namespace
}  // namespace remora
