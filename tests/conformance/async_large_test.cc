// Large values through an AsyncClient: side by side with everything else on every transport, ended early, and
// cut off at every step.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/coroutine_client.h"
#include "store/format/wire/messages.h"
#include "tests/conformance/async_fixture.h"
#include "tests/conformance/async_sim_fixture.h"
#include "tests/support/hand_client.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class AsyncLarge : public Async {
 protected:
  void ExpectValue(std::string_view key, const std::string& value) {
    const Outcome got = AsyncGet(key);
    ASSERT_OUTCOME(kOk, got);
    EXPECT_EQ(got.value.size(), value.size());
    EXPECT_TRUE(got.value == value) << key;
  }
};

INSTANTIATE_TEST_SUITE_P(On, AsyncLarge,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AsyncLarge, ValuesComeBackWhole) {
  START({.memory_size = 64 * kMiB});
  ConnectAsync();
  std::uint64_t version = 0;
  for (const std::size_t size : {kMaxSmallValueSize + 1, kMiB - 1, kMiB, kMiB + 1, 5 * kMiB + 3}) {
    const std::string value = RandomBytes(size, size);
    const std::string long_key(kMaxKeySize, 'k');
    for (const std::string& key : {std::string("key"), long_key}) {
      PutOptions options;
      options.version = &version;
      const Outcome put = AsyncPut(key, value, options);
      ASSERT_OUTCOME(kOk, put);
      EXPECT_EQ(put.version, version);
      const Outcome got = AsyncGet(key);
      EXPECT_TRUE(got.text() == value);
      EXPECT_EQ(got.version, version);
      EXPECT_TRUE(Get(key) == value);
    }
  }
  EXPECT_EQ(store().Read(Metric::kKeys), 2u);
}

TEST_P(AsyncLarge, TheLargestValueComesBackWhole) {
  START({.memory_size = 96 * kMiB});
  ConnectAsync({.depth = 1});
  const std::string value = RandomBytes(kMaxValueSize, 1);
  ASSERT_OUTCOME(kOk, AsyncPut("key", value));
  ExpectValue("key", value);
}

TEST_P(AsyncLarge, AllOperationsKnowThem) {
  START({.memory_size = 64 * kMiB});
  ConnectAsync();
  const std::string value = RandomBytes(2 * kMiB + 5, 2);
  ASSERT_OUTCOME(kOk, AsyncPut("key", value, {.ttl = std::chrono::hours(1)}));
  const Outcome ttl = Do([&](auto done) { return async_->Ttl("key", std::move(done)); });
  ASSERT_OUTCOME(kOk, ttl);
  ASSERT_TRUE(ttl.ttl.has_value());
  EXPECT_LE(*ttl.ttl, std::chrono::hours(1));
  EXPECT_OUTCOME(kAlreadyExists, AsyncPut("key", value, {.condition = Condition::Absent()}));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Exists("key", std::move(done)); }));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Persist("key", std::move(done)); }));
  ExpectValue("key", value);
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Delete("key", std::move(done)); }));
  EXPECT_OUTCOME(kNotFound, AsyncGet("key"));
}

TEST_P(AsyncLarge, AGetCostsNoMessage) {
  START({.memory_size = 64 * kMiB});
  ConnectAsync();
  const std::string value = RandomBytes(kMiB, 3);
  ASSERT_CODE(kOk, Put("key", value));
  const ClientCounters before = async_->counters();
  ExpectValue("key", value);
  const ClientCounters cost = async_->counters() - before;
  EXPECT_EQ(cost.requests, 0u);
  // Bucket, generations, header and key, and the value in pieces of about 128 KiB.
  EXPECT_EQ(cost.reads, 3 + (kMiB + kMaxSmallExtent / 2 - 1) / (kMaxSmallExtent / 2));
}

TEST_P(AsyncLarge, OnesThatDoNotFitAreRejectedAndOthersGoOn) {
  START({.memory_size = 32 * kMiB});
  ConnectAsync();
  Outcome large, small, fits;
  ASSERT_CODE(kOk, async_->Put("large", std::string(40 * kMiB, 'v'), Into(large)).status());
  ASSERT_CODE(kOk, async_->Put("small", "value", Into(small)).status());
  ASSERT_CODE(kOk, async_->Put("fits", std::string(10 * kMiB, 'v'), Into(fits)).status());
  WaitAll();
  EXPECT_OUTCOME(kResourceExhausted, large);
  EXPECT_THAT(std::string(large.status.message()), testing::HasSubstr("open with more memory"));
  EXPECT_OUTCOME(kOk, small);
  EXPECT_OUTCOME(kOk, fits);
}

// Large ones and small ones, of one key and of many: the last one that was begun is the last one done.
TEST_P(AsyncLarge, WritesAreDoneInTheOrderInWhichTheyWereBegun) {
  START({.memory_size = 64 * kMiB});
  ConnectAsync({.depth = 32});
  for (int round = 0; round < (slow() ? 2 : 8); ++round) {
    std::vector<Outcome> outcomes(24);
    std::string last;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const std::size_t size = i % 3 == static_cast<std::size_t>(round) % 3 ? kMiB / 2 + i : 10 + i * 999;
      last = RandomBytes(size, i + 1000 * static_cast<std::size_t>(round));
      ASSERT_CODE(kOk, async_->Put("key", last, Into(outcomes[i])).status());
      if (i % 4 == 0) async_->Poll();
    }
    WaitAll();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_OUTCOME(kOk, outcomes[i]);
      if (i > 0) {
        EXPECT_GT(outcomes[i].version, outcomes[i - 1].version) << i;
      }
    }
    ExpectValue("key", last);
  }
}

TEST_P(AsyncLarge, ManyAreInFlightBesideSmallOnes) {
  START({.memory_size = 96 * kMiB});
  ConnectAsync({.depth = 64});
  std::vector<std::string> values;
  for (std::size_t i = 0; i < 32; ++i) {
    values.push_back(RandomBytes(i % 4 == 0 ? kMiB + i * 1001 : i % 4 == 1 ? 200'000 : 100 * i, i));
  }
  for (int round = 0; round < (slow() ? 1 : 4); ++round) {
    std::vector<Outcome> puts(32), gets(64);
    for (std::size_t i = 0; i < 32; ++i) {
      ASSERT_CODE(kOk, async_->Put(std::to_string(i), values[i], Into(puts[i])).status());
    }
    WaitAll();
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_CODE(kOk, async_->Get(std::to_string(i % 32), Into(gets[i])).status());
    }
    WaitAll();
    for (const Outcome& put : puts) EXPECT_OUTCOME(kOk, put);
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_OUTCOME(kOk, gets[i]);
      EXPECT_TRUE(gets[i].value == values[i % 32]) << i;
    }
  }
  EXPECT_EQ(async_->free_slots(), 64u);
}

// Its place is the next operation's before the callback is called: the value that it was told is still there.
TEST_P(AsyncLarge, AValueIsThereUntilItsCallbackReturns) {
  START({.memory_size = 64 * kMiB});
  ConnectAsync({.depth = 2});
  const std::string first = RandomBytes(kMiB, 5);
  const std::string second = RandomBytes(kMiB + 9, 6);
  ASSERT_CODE(kOk, Put("first", first));
  ASSERT_CODE(kOk, Put("second", second));
  Outcome next;
  int calls = 0;
  ASSERT_CODE(kOk, async_
                       ->Get("first",
                             [&](const AsyncResult& got) {
                               ++calls;
                               EXPECT_TRUE(async_->Get("second", Into(next)).ok());
                               EXPECT_TRUE(got.status.ok() && got.value == first);
                             })
                       .status());
  WaitAll();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(next.text() == second);
}

TEST_P(AsyncLarge, CoroutinesTakeThemToo) {
  START({.memory_size = 64 * kMiB});
  CoroutineClient kv(NewAsync());
  const std::string value = RandomBytes(3 * kMiB, 7);
  bool done = false;
  const auto copy = [](CoroutineClient& in, const std::string& bytes, bool& ended) -> Task<void> {
    EXPECT_CODE(kOk, co_await in.Put("from", bytes));
    const absl::StatusOr<std::string> got = co_await in.Get("from");
    EXPECT_TRUE(got.ok());
    EXPECT_CODE(kOk, co_await in.Put("to", *got));
    ended = true;
  };
  kv.Start(copy(kv, value, done));
  EXPECT_CODE(kOk, kv.Run(Soon()));
  EXPECT_TRUE(done);
  EXPECT_TRUE(Get("to") == value);
}

// --- Ended early, in one thread, with a server that works when it is told to -----------------------------

class AsyncLargeEnd : public AsyncSim {
 protected:
  AsyncLargeEnd() : AsyncSim(/*seed=*/3) {
    network_.set_step([this] {
      if (steps_ > 0) {
        --steps_;
        server_->Step();
      }
    });
  }
  std::uint64_t Used() { return server_->store().Read(Metric::kLogBytesUsed); }
  /// Until what nobody waits for any more has come to its end.
  void Settle(AsyncClient& client) {
    for (int i = 0; i < 2; ++i) {  // the second comes behind what the first found to be sent
      Outcome ping;
      ASSERT_TRUE(client.Ping(ping.Taker()).ok());
      WaitAll(client);
      EXPECT_OUTCOME(kOk, ping);
    }
  }
  void ExpectThatAllIsWell(AsyncClient& client) {
    ASSERT_NO_FATAL_FAILURE(Settle(client));
    EXPECT_EQ(client.free_slots(), 16u);
    const std::string value = RandomBytes(700'000, 11);
    Outcome put, get;
    ASSERT_TRUE(client.Put("well", value, put.Taker()).ok());
    WaitAll(client);
    ASSERT_TRUE(client.Get("well", get.Taker()).ok());
    WaitAll(client);
    EXPECT_OUTCOME(kOk, put);
    EXPECT_TRUE(get.text() == value);
    ASSERT_TRUE(client.Delete("well", put.Taker()).ok());
    WaitAll(client);
  }

  static constexpr int kAlways = 1 << 30;
  int steps_ = kAlways;  // of the server's, before it is retired
};

INSTANTIATE_TEST_SUITE_P(With, AsyncLargeEnd, testing::Bool(),
                         [](const auto& test) { return test.param ? "grants" : "parts"; });

TEST_P(AsyncLargeEnd, CancelledAtAnyStepItGivesBackWhatWasReserved) {
  const std::string value = RandomBytes(kMiB + 77, 1);
  int cancelled = 0, not_done = 0;
  bool done = false;
  for (int steps = 0; !done; ++steps) {
    SCOPED_TRACE(steps);
    const std::unique_ptr<AsyncClient> client = NewClient();
    const std::string key = "key " + std::to_string(steps);
    Outcome put, behind;
    const AsyncClient::Begun begun = client->Put(key, value, put.Taker());
    ASSERT_TRUE(begun.ok());
    ASSERT_TRUE(client->Put(key + " behind", "small", behind.Taker()).ok());
    steps_ = steps;
    for (int i = 0; i < 100; ++i) client->Poll();
    done = !client->Cancel(*begun);
    steps_ = kAlways;
    WaitAll(*client);
    EXPECT_OUTCOME(kOk, behind);
    const std::string seen = Seen(key);
    if (done) {
      EXPECT_OUTCOME(kOk, put);
      EXPECT_TRUE(seen == value);
    } else {
      ++cancelled;
      EXPECT_OUTCOME(kCancelled, put);
      EXPECT_TRUE(seen == "NOT_FOUND" || seen == value);
    }
    ASSERT_NO_FATAL_FAILURE(Settle(*client));
    // Nothing that nobody can reach takes space, and the connection lives.
    if (seen == "NOT_FOUND") {
      ++not_done;
      EXPECT_LT(Used(), kMiB);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectThatAllIsWell(*client));
    EXPECT_EQ(client->counters().reconnects, 0u);
    EXPECT_TRUE(client->status().ok());
    server_->store().Delete(key).IgnoreError();
    if (HasFailure()) return;
  }
  EXPECT_GT(not_done, GetParam() ? 1 : 4);
  EXPECT_GE(cancelled, not_done);
  EXPECT_EQ(server_->store().Read(Metric::kRejectedRequests), 0u);
}

TEST_P(AsyncLargeEnd, CancelledWhileItIsWrittenItKeepsItsPlaceUntilTheDeviceIsDone) {
  if (!GetParam()) GTEST_SKIP() << "only what is granted is written to";
  const std::unique_ptr<AsyncClient> client = NewClient();
  Outcome put;
  const AsyncClient::Begun begun = client->Put("key", RandomBytes(kMiB, 1), put.Taker());
  ASSERT_TRUE(begun.ok());
  tampering_.hold_reads = true;
  for (int i = 0; i < 100 && tampering_.held == 0; ++i) client->Poll();
  ASSERT_EQ(tampering_.held, 1u);
  EXPECT_TRUE(client->Cancel(*begun));
  EXPECT_EQ(client->Poll(), 1u);
  EXPECT_OUTCOME(kCancelled, put);
  EXPECT_EQ(client->free_slots(), 15u) << "what is written there is still to be read";
  tampering_.hold_reads = false;
  ASSERT_NO_FATAL_FAILURE(ExpectThatAllIsWell(*client));
  EXPECT_EQ(Seen("key"), "NOT_FOUND");
  EXPECT_LT(Used(), kMiB);
}

TEST_P(AsyncLargeEnd, AServerThatHangsCostsTheOperationAlone) {
  const std::unique_ptr<AsyncClient> client = NewClient();
  const std::string value = RandomBytes(kMiB, 1);
  for (int polls = 0; polls < 24; ++polls) {
    SCOPED_TRACE(polls);
    Outcome put;
    ASSERT_TRUE(client->Put("key", value, {}, put.Taker(), {.timeout = milliseconds(200)}).ok());
    steps_ = polls;
    WaitAll(*client);
    EXPECT_TRUE(put.status.ok() || absl::IsDeadlineExceeded(put.status)) << put.status;
    steps_ = kAlways;
    ASSERT_NO_FATAL_FAILURE(ExpectThatAllIsWell(*client));
    if (HasFailure()) return;
  }
  EXPECT_EQ(client->counters().reconnects, 0u);
}

TEST_P(AsyncLargeEnd, ACancelledGetKeepsItsPlaceUntilTheDeviceIsDone) {
  const std::string value = RandomBytes(2 * kMiB, 1);
  ASSERT_TRUE(server_->store().Put("key", value).ok());
  for (int polls = 0; polls < 30; polls += kAddressSanitizer ? 4 : 1) {
    const std::unique_ptr<AsyncClient> client = NewClient();
    Outcome get, other;
    const AsyncClient::Begun begun = client->Get("key", get.Taker());
    ASSERT_TRUE(begun.ok());
    ASSERT_TRUE(client->Get("key", other.Taker()).ok());
    for (int i = 0; i < polls && get.calls == 0; ++i) client->Poll();
    client->Cancel(*begun);
    WaitAll(*client);
    EXPECT_TRUE(absl::IsCancelled(get.status) || get.value == value);
    EXPECT_TRUE(other.text() == value);
    ASSERT_NO_FATAL_FAILURE(ExpectThatAllIsWell(*client));
    if (HasFailure()) return;
  }
}

TEST_P(AsyncLargeEnd, TheClientGoesInTheMiddle) {
  const std::string value = RandomBytes(2 * kMiB, 1);
  ASSERT_TRUE(server_->store().Put("there", value).ok());
  for (int polls = 0; polls < 20; ++polls) {
    Outcome put, get;
    {
      const std::unique_ptr<AsyncClient> client = NewClient();
      ASSERT_TRUE(client->Put("key", value, put.Taker()).ok());
      ASSERT_TRUE(client->Get("there", get.Taker()).ok());
      for (int i = 0; i < polls; ++i) client->Poll();
    }
    EXPECT_EQ(put.calls + get.calls, 2);
    EXPECT_TRUE(put.status.ok() || absl::IsCancelled(put.status));
    EXPECT_TRUE(absl::IsCancelled(get.status) || get.value == value);
  }
  for (int i = 0; i < 100; ++i) server_->Step();
  EXPECT_LT(Used(), 6 * kMiB);
}

TEST_P(AsyncLargeEnd, APutWaitsForItsTurnAsLongAsItMay) {
  HandClient frozen(network_.Dial(), network_.clock());
  // As much as may be.
  ASSERT_ANSWER(kOk, frozen.Ask(Operation::kReserve, 3, 8 * kMiB));
  const std::unique_ptr<AsyncClient> client = NewClient();
  const std::string value = RandomBytes(2 * kMiB, 1);
  const TimePoint start = network_.clock().Now();
  const auto await = [&](const Outcome& outcome) {
    while (outcome.calls == 0) {
      network_.Advance(milliseconds(100));
      client->Poll();
    }
  };
  Outcome hasty, patient;
  ASSERT_TRUE(client->Put("key", value, {}, hasty.Taker(), {.timeout = std::chrono::seconds(5)}).ok());
  await(hasty);
  EXPECT_OUTCOME(kDeadlineExceeded, hasty);
  EXPECT_LE(network_.clock().Now() - start, std::chrono::seconds(6));
  ASSERT_TRUE(client->Put("key", value, {}, patient.Taker(), {.timeout = std::chrono::seconds(60)}).ok());
  await(patient);
  EXPECT_OUTCOME(kOk, patient);
  // Its parts take a moment each.
  EXPECT_LE(network_.clock().Now() - start, std::chrono::seconds(kReservationSeconds + 10));
  EXPECT_TRUE(Seen("key") == value);
  EXPECT_EQ(client->counters().reconnects, 0u);
}

// --- Cut off --------------------------------------------------------------------------------------------

// Each is done once, in order, or rejected; also one whose commit was not answered.
TEST_P(AsyncLargeEnd, AConnectionCutAtAnyStepLeavesEachDoneOnceAndInOrder) {
  const std::string value = RandomBytes(400'000, 1);
  const std::string other = RandomBytes(300'000, 2);
  int rounds = 0;
  for (const SimNetwork::Cut cut : {SimNetwork::Cut::kBoth, SimNetwork::Cut::kClient}) {
    bool all = false;
    std::uint64_t outcomes = 0, cuts = 0;
    for (std::uint64_t event = 1; !all; ++event) {
      SCOPED_TRACE(event);
      const std::unique_ptr<AsyncClient> client = NewClient();
      const std::string to = std::to_string(++rounds) + "/";
      Outcome ping, first, sum, once, again, second, get;
      ASSERT_TRUE(client->Ping(ping.Taker()).ok());
      ASSERT_TRUE(client->Put(to + "key", "before", first.Taker()).ok());
      ASSERT_TRUE(client->Put(to + "once", value, {.condition = Condition::Absent()}, once.Taker()).ok());
      ASSERT_TRUE(client->Increment(to + "sum", 1, sum.Taker()).ok());
      ASSERT_TRUE(client->Put(to + "once", other, {.condition = Condition::Absent()}, again.Taker()).ok());
      ASSERT_TRUE(client->Put(to + "key", other, second.Taker()).ok());
      ASSERT_TRUE(client->Get(to + "once", get.Taker()).ok());
      network_.CutAt(event, cut);
      WaitAll(*client);
      all = network_.is_cut_due();
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      for (int i = 0; i < 2 * SimNetwork::kLate; ++i) server_->Step();
      EXPECT_OUTCOME(kOk, ping);
      EXPECT_OUTCOME(kOk, first);
      EXPECT_OUTCOME(kOk, once) << "it was sent again though it was done";
      EXPECT_OUTCOME(kOk, sum);
      EXPECT_EQ(sum.number, 1);
      EXPECT_TRUE(absl::IsAlreadyExists(again.status) || absl::IsAborted(again.status)) << again.status;
      EXPECT_OUTCOME(kOk, second);
      EXPECT_LT(first.version, once.version);
      EXPECT_LT(once.version, sum.version);
      EXPECT_LT(sum.version, second.version);
      EXPECT_TRUE(get.text() == "NOT_FOUND" || get.value == value);
      EXPECT_TRUE(Seen(to + "once") == value);
      EXPECT_TRUE(Seen(to + "key") == other);
      EXPECT_EQ(Seen(to + "sum"), "1");
      EXPECT_EQ(client->free_slots(), client->status().ok() ? 16u : client->free_slots());
      outcomes += client->counters().completion_queries;
      cuts += client->counters().reconnects;
      for (const char* const key : {"key", "once"}) server_->store().Delete(to + key).IgnoreError();
      PassHalfASecond();
      if (HasFailure()) return;
    }
    EXPECT_GT(outcomes, 20u);
    EXPECT_GT(cuts, 20u);
  }
}

}  // namespace
}  // namespace remora
