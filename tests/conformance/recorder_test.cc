// The record that a client keeps of its calls (ClientOptions::metrics), against a server. To be run under
// ThreadSanitizer, too (tools/check).
#include "client/metrics/recorder.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/client_pool.h"
#include "tests/conformance/async_fixture.h"

namespace remora {
namespace {

std::uint64_t CallsIn(const ClientMetrics& metrics, ClientMetric histogram) {
  return HistogramCount(metrics.Histogram(histogram));
}

class Recorders : public Async {
 protected:
  Client& client() { return *kv_->client(); }
  ClientMetrics metrics() { return client().metrics(); }
  std::uint64_t Calls(ClientMetric histogram) { return CallsIn(metrics(), histogram); }
};

INSTANTIATE_TEST_SUITE_P(On, Recorders, testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Recorders, RecordNothingUnlessAsked) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(Calls(ClientMetric::kPut), 0u);
  EXPECT_EQ(Calls(ClientMetric::kGet), 0u);
  EXPECT_EQ(metrics()[ClientMetric::kValueBytesRead], 0u);
  EXPECT_EQ(metrics()[ClientMetric::kRequests], 1u);
  EXPECT_GT(metrics()[ClientMetric::kReads], 0u);
}

TEST_P(Recorders, CountEachCallOnce) {
  START({.durability = Durability::kLogged}, {.metrics = true});
  ASSERT_CODE(kOk, client().Put("key", "value"));
  ASSERT_EQ(client().Get("key").value_or(""), "value");
  ASSERT_CODE(kNotFound, client().Get("none").status());
  const std::array<std::string_view, 3> keys = {"key", "none", "key"};
  std::array<GetResult, 3> results;
  ASSERT_CODE(kOk, client().MultiGet(keys, results));
  ASSERT_TRUE(client().Exists("key").value_or(false));
  const std::array<PutRequest, 2> puts = {{{"a", "123", {}}, {"b", "4", {}}}};
  std::array<PutResult, 2> outcomes;
  ASSERT_CODE(kOk, client().MultiPut(puts, outcomes));
  ASSERT_CODE(kOk, client().Delete("a"));
  ASSERT_CODE(kOk, client().Touch("b", std::chrono::hours(1)));
  ASSERT_CODE(kOk, client().Persist("b"));
  ASSERT_EQ(client().Increment("sum", 1).value_or(0), 1);
  ASSERT_EQ(client().Append("b", "5").value_or(0), 2u);
  WriteBatch batch;
  batch.Put("c", "6");
  ASSERT_CODE(kOk, client().Apply(batch));
  ASSERT_CODE(kOk, client().Ping());
  ASSERT_CODE(kOk, client().Ttl("b").status());
  ASSERT_CODE(kOk, client().Scan().status());
  ASSERT_EQ(client().Count({.prefix = "c"}).value_or(0), 1u);
  ASSERT_EQ(client().DeleteRange({.prefix = "c"}).value_or(0), 1u);
  ASSERT_CODE(kInvalidArgument, client().Put("", "no key"));  // no call of the server's
  EXPECT_EQ(Calls(ClientMetric::kPut), 1u);
  EXPECT_EQ(Calls(ClientMetric::kGet), 2u);
  EXPECT_EQ(Calls(ClientMetric::kGetSearched) + Calls(ClientMetric::kGetCached), 2u);
  EXPECT_EQ(Calls(ClientMetric::kMultiGet), 1u);
  EXPECT_EQ(Calls(ClientMetric::kExists), 1u);
  EXPECT_EQ(Calls(ClientMetric::kMultiPut), 1u);
  EXPECT_EQ(Calls(ClientMetric::kDelete), 1u);
  EXPECT_EQ(Calls(ClientMetric::kTouch), 2u);
  EXPECT_EQ(Calls(ClientMetric::kIncrement), 1u);
  EXPECT_EQ(Calls(ClientMetric::kAppend), 1u);
  EXPECT_EQ(Calls(ClientMetric::kApply), 1u);
  EXPECT_EQ(Calls(ClientMetric::kOther), 5u);
  const ClientMetrics all = metrics();
  EXPECT_EQ(all[ClientMetric::kValueBytesRead], 5u + 2 * 5u);
  EXPECT_EQ(all[ClientMetric::kValueBytesWritten], 5u + 4u);
  EXPECT_EQ(all[ClientMetric::kUnanswered], 0u);
  EXPECT_EQ(all[ClientMetric::kRequests], client().counters().requests);
  EXPECT_GT(all.Histogram(ClientMetric::kPut)[kHistogramMax], 0u);
}

TEST_P(Recorders, TellThePathsOfGets) {
  START({.memory_size = std::size_t{32} << 20}, {.location_cache_bytes = 1 << 20, .metrics = true});
  const std::string large(500'000, 'l');
  ASSERT_CODE(kOk, client().Put("large", large));
  ASSERT_CODE(kOk, client().Put("key", "value"));
  for (int i = 0; i < 4; ++i) ASSERT_EQ(client().Get("key").value_or(""), "value");  // the first ones learn
  const std::uint64_t cached = Calls(ClientMetric::kGetCached);
  EXPECT_GT(cached, 0u);
  EXPECT_EQ(cached, client().counters().location_hits);
  ASSERT_CODE(kNotFound, client().Get("none").status());
  EXPECT_EQ(Calls(ClientMetric::kGetSearched), 5 - cached);
  ASSERT_TRUE(client().Get("large").value_or("") == large);
  EXPECT_EQ(Calls(ClientMetric::kGetChunked), 1u);
  std::vector<std::byte> memory(4096);
  const auto buffer = client().Register(memory);
  ASSERT_TRUE(buffer.ok());
  ASSERT_EQ(client().Get("key", **buffer).value_or(0), 5u);
  EXPECT_EQ(Calls(ClientMetric::kGet), 7u);
  EXPECT_EQ(metrics()[ClientMetric::kValueBytesRead], 4 * 5u + large.size() + 5u);
}

TEST_P(Recorders, TellWhichGetsWereCold) {
  START({.durability = Durability::kLogged,
         .memory_size = std::size_t{16} << 20,
         .eviction = Eviction::kLeastUsed},
        {.metrics = true});
  const std::string value(2000, 'v');
  for (int i = 0; i < 12'000; ++i) ASSERT_CODE(kOk, Put("key " + std::to_string(i), value));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(Get("key " + std::to_string(i)), value);
  EXPECT_EQ(Calls(ClientMetric::kGet), 300u);
  EXPECT_GT(Calls(ClientMetric::kGetCold), 0u);
  EXPECT_EQ(Calls(ClientMetric::kGetCold), metrics()[ClientMetric::kCold]);
}

TEST_P(Recorders, CountCallsWithoutAnAnswer) {
  START();
  const auto pool =
      *ClientPool::Create([this](TimePoint) { return deployment_->Dial(); },
                          {.reconnect = false, .metrics = true}, {.max_clients = 1}, deployment_->clock());
  {
    const auto lease = pool->Acquire();
    ASSERT_CODE(kOk, lease.status());
    ASSERT_CODE(kOk, (*lease)->Put("key", "value"));
    kv_.reset();
    ASSERT_CODE(kOk, deployment_->Restart());
    EXPECT_CODE(kUnavailable, (*lease)->Put("key", "value"));
    EXPECT_EQ(pool->metrics()[ClientMetric::kUnanswered], 1u);  // while it is lent
  }
  // The sum has the replaced client, too.
  ASSERT_CODE(kOk, (*pool->Acquire())->Put("key", "value"));
  const ClientMetrics all = pool->metrics();
  EXPECT_EQ(CallsIn(all, ClientMetric::kPut), 3u);
  EXPECT_EQ(all[ClientMetric::kUnanswered], 1u);
  EXPECT_EQ(all[ClientMetric::kPoolReplaced], 1u);
  EXPECT_EQ(all[ClientMetric::kPoolConnects], 2u);
  EXPECT_EQ(all[ClientMetric::kPoolIdle], 1u);
}

TEST_P(Recorders, OfAPoolWithoutTimesHaveItsCounters) {
  START();
  const auto pool = *ClientPool::Create([this](TimePoint) { return deployment_->Dial(); }, {},
                                        {.max_clients = 1}, deployment_->clock());
  ASSERT_CODE(kOk, (*pool->Acquire())->Put("key", "value"));
  EXPECT_EQ(pool->metrics()[ClientMetric::kRequests], 1u);
  EXPECT_EQ(pool->metrics()[ClientMetric::kPoolAcquires], 1u);
  EXPECT_EQ(CallsIn(pool->metrics(), ClientMetric::kPut), 0u);
}

// M2: another thread looks all the time; no number of it goes back, and in the end it has all.
TEST_P(Recorders, AreReadByOtherThreads) {
  START({}, {.metrics = true});
  std::atomic<bool> stop = false;
  std::thread other([&] {
    ClientMetrics last;
    while (!stop) {
      const ClientMetrics now = metrics();
      for (std::size_t i = 0; i < kClientMetricPlaces; ++i) ASSERT_GE(now.values()[i], last.values()[i]);
      last = now;
    }
  });
  for (int i = 0; i < 2000; ++i) {
    ASSERT_CODE(kOk, Put("key", "value"));
    ASSERT_EQ(Get("key"), "value");
  }
  stop = true;
  other.join();
  EXPECT_EQ(Calls(ClientMetric::kGet), 2000u);
  EXPECT_EQ(Calls(ClientMetric::kPut), 2000u);
}

TEST_P(Recorders, TimeAsynchronousOperations) {
  START();
  ConnectAsync({}, {.metrics = true});
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  EXPECT_EQ(AsyncGet("key").value, "value");
  EXPECT_OUTCOME(kNotFound, AsyncGet("none"));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Increment("sum", 1, std::move(done)); }));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Apply(WriteBatch(), std::move(done)); }));
  EXPECT_OUTCOME(kOk, Do([&](auto done) { return async_->Ping(std::move(done)); }));
  const ClientMetrics all = async_->metrics();
  EXPECT_EQ(CallsIn(all, ClientMetric::kPut), 1u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kGet), 2u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kIncrement), 1u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kApply), 1u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kOther), 1u);
  EXPECT_EQ(all[ClientMetric::kRequests], async_->counters().requests);
  EXPECT_EQ(all[ClientMetric::kValueBytesRead], 5u);
  EXPECT_EQ(all[ClientMetric::kValueBytesWritten], 5u);
  EXPECT_EQ(all[ClientMetric::kUnanswered], 0u);
}

TEST_P(Recorders, RecordNothingOfAsynchronousOperationsUnlessAsked) {
  START();
  ConnectAsync();
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  EXPECT_EQ(AsyncGet("key").value, "value");
  const ClientMetrics all = async_->metrics();
  EXPECT_EQ(CallsIn(all, ClientMetric::kPut), 0u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kGet), 0u);
  EXPECT_EQ(all[ClientMetric::kValueBytesRead], 0u);
  EXPECT_EQ(all[ClientMetric::kRequests], 1u);
  EXPECT_GT(all[ClientMetric::kReads], 0u);
}

// Each of many GETs in flight has its own path, whatever the others beside it do.
TEST_P(Recorders, TellThePathsOfAsynchronousGets) {
  START({.memory_size = std::size_t{32} << 20});
  ConnectAsync({}, {.location_cache_bytes = 1 << 20, .metrics = true});
  const std::string large(500'000, 'l');
  EXPECT_OUTCOME(kOk, AsyncPut("large", large));
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  for (int i = 0; i < 4; ++i) ASSERT_EQ(AsyncGet("key").value, "value");  // the first ones learn
  const auto calls = [this](ClientMetric path) { return CallsIn(async_->metrics(), path); };
  const std::uint64_t cached = calls(ClientMetric::kGetCached);
  EXPECT_GT(cached, 0u);
  EXPECT_EQ(cached, async_->counters().location_hits);
  EXPECT_EQ(calls(ClientMetric::kGetSearched), 4 - cached);

  int ended = 0;
  const auto count = [&ended](const AsyncResult&) { ++ended; };
  ASSERT_TRUE(async_->Get("large", count).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(async_->Get("none", count).ok());
  ASSERT_CODE(kOk, async_->WaitAll(async_->clock().Now() + std::chrono::minutes(1)));
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(calls(ClientMetric::kGetChunked), 1u);
  EXPECT_EQ(calls(ClientMetric::kGetSearched), 4 - cached + 3);
  EXPECT_EQ(calls(ClientMetric::kGet), 8u);
  EXPECT_EQ(async_->metrics()[ClientMetric::kValueBytesRead], 4 * 5u + large.size());
  EXPECT_EQ(async_->metrics()[ClientMetric::kValueBytesWritten], large.size() + 5u);
}

TEST_P(Recorders, TellWhichAsynchronousGetsWereCold) {
  START({.durability = Durability::kLogged,
         .memory_size = std::size_t{16} << 20,
         .eviction = Eviction::kLeastUsed});
  ConnectAsync({}, {.metrics = true});
  const std::string value(2000, 'v');
  for (int i = 0; i < 12'000; ++i) ASSERT_CODE(kOk, Put("key " + std::to_string(i), value));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(AsyncGet("key " + std::to_string(i)).value, value);
  const ClientMetrics all = async_->metrics();
  EXPECT_EQ(CallsIn(all, ClientMetric::kGet), 300u);
  EXPECT_GT(CallsIn(all, ClientMetric::kGetCold), 0u);
  EXPECT_EQ(CallsIn(all, ClientMetric::kGetCold), all[ClientMetric::kCold]);
}

// M2 for a client with many operations in flight.
TEST_P(Recorders, OfAsynchronousOperationsAreReadByOtherThreads) {
  START();
  ConnectAsync({}, {.metrics = true});
  std::atomic<bool> stop = false;
  std::thread other([&] {
    ClientMetrics last;
    while (!stop) {
      const ClientMetrics now = async_->metrics();
      for (std::size_t i = 0; i < kClientMetricPlaces; ++i) ASSERT_GE(now.values()[i], last.values()[i]);
      last = now;
    }
  });
  for (int i = 0; i < 500; ++i) {
    EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
    EXPECT_EQ(AsyncGet("key").value, "value");
  }
  stop = true;
  other.join();
  EXPECT_EQ(CallsIn(async_->metrics(), ClientMetric::kGet), 500u);
  EXPECT_EQ(CallsIn(async_->metrics(), ClientMetric::kPut), 500u);
}

}  // namespace
}  // namespace remora
