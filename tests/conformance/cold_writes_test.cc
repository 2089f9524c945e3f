// Writes of keys that are only on disk wait for the pool that reads, and no other client waits for them.
// These are the invariants D7 to D10 (store/read/cold_read.h and server/request/parked_writes.h).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "store/format/types/write_options.h"
#include "tests/conformance/cold_keys_fixture.h"

namespace remora {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class ColdWrites : public ColdKeys {
 protected:
  static constexpr int kClients = 6;

  static std::string NumberKey(std::size_t i) { return "number " + std::to_string(i); }
  /// Puts "10" under some keys, and makes them cold.
  void PutColdNumbers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(writer_->Put(NumberKey(i), "10").ok());
    ASSERT_NO_FATAL_FAILURE(EvictAll());
    for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(IsCold(NumberKey(i)));
  }
  static std::string NameOf(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }
  /// Does a write in a thread, as a client of its own.
  std::future<std::string> Begin(std::function<absl::Status(Client&)> write) {
    return std::async(std::launch::async,
                      [this, write = std::move(write)] { return NameOf(write(*Connect())); });
  }
  /// Begins to add to a cold number. *result gets the sum, or the name of the status.
  static void BeginIncrement(AsyncClient& client, const std::string& key, std::string* result,
                             std::uint64_t* version = nullptr) {
    const auto begun = client.Increment(key, 1, [result, version](const AsyncResult& done) {
      *result = done.status.ok() ? std::to_string(done.number) : NameOf(done.status);
      if (version != nullptr) *version = done.version;
    });
    ASSERT_TRUE(begun.ok()) << begun.status();
  }
};

TEST_F(ColdWrites, AreReadForSideBySideWhileOthersWrite) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(kClients));
  std::vector<std::uint64_t> versions(kClients);
  gate_.Close();
  std::vector<std::future<std::string>> outcomes;
  outcomes.push_back(Begin([](Client& client) { return client.Put(NumberKey(0), "new"); }));
  outcomes.push_back(Begin([](Client& client) { return client.Delete(NumberKey(1)); }));
  outcomes.push_back(Begin(
      [](Client& client) { return client.Put(NumberKey(2), "new", {.condition = Condition::Absent()}); }));
  outcomes.push_back(Begin([](Client& client) { return client.Increment(NumberKey(3), 5).status(); }));
  outcomes.push_back(Begin([](Client& client) { return client.Append(NumberKey(4), "1").status(); }));
  outcomes.push_back(Begin([](Client& client) { return client.Touch(NumberKey(5), hours(1)); }));
  EXPECT_TRUE(gate_.AwaitWaiting(kClients)) << "one write waits for another's read";
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  gate_.Open();
  EXPECT_EQ(outcomes[0].get(), "OK");
  EXPECT_EQ(outcomes[1].get(), "OK");
  EXPECT_EQ(outcomes[2].get(), "ALREADY_EXISTS");
  EXPECT_EQ(outcomes[3].get(), "OK");
  EXPECT_EQ(outcomes[4].get(), "OK");
  EXPECT_EQ(outcomes[5].get(), "OK");
  EXPECT_EQ(store().Read(Metric::kColdReads), static_cast<std::uint64_t>(kClients));
  EXPECT_EQ(Get(*writer_, NumberKey(0)), "new");
  EXPECT_EQ(Get(*writer_, NumberKey(1)), "NOT_FOUND");
  EXPECT_EQ(Get(*writer_, NumberKey(2)), "10");
  EXPECT_EQ(Get(*writer_, NumberKey(3)), "15");
  EXPECT_EQ(Get(*writer_, NumberKey(4)), "101");
  EXPECT_EQ(Get(*writer_, NumberKey(5)), "10");
  EXPECT_TRUE(writer_->Ttl(NumberKey(5)).value().has_value());
  EXPECT_EQ(store().Read(Metric::kColdReadsInFlight), 0u);
}

// D8, also for reads that are done in another order.
TEST_F(ColdWrites, OfOneConnectionKeepTheirOrder) {
  constexpr std::size_t kWrites = 4;
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(kWrites));
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> sums(kWrites);
  std::vector<std::uint64_t> versions(kWrites);
  for (std::size_t i = 0; i < kWrites; ++i) {
    ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(i), &sums[i], &versions[i]));
    ASSERT_TRUE(SendUntilWaiting(*client, static_cast<int>(i) + 1)) << "a read waits for an earlier one";
  }
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  for (std::size_t i = 0; i < kWrites; ++i) EXPECT_EQ(sums[i], "11");
  for (std::size_t i = 1; i < kWrites; ++i) EXPECT_LT(versions[i - 1], versions[i]);
}

TEST_F(ColdWrites, OfOneKeyByTwoClientsAreBothDone) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(1));
  gate_.Close();
  const std::unique_ptr<AsyncClient> first = ConnectAsync();
  const std::unique_ptr<AsyncClient> second = ConnectAsync();
  std::vector<std::string> sums(2);
  ASSERT_NO_FATAL_FAILURE(BeginIncrement(*first, NumberKey(0), &sums[0]));
  ASSERT_TRUE(SendUntilWaiting(*first, 1));
  ASSERT_NO_FATAL_FAILURE(BeginIncrement(*second, NumberKey(0), &sums[1]));
  ASSERT_TRUE(SendUntilWaiting(*second, 2));
  gate_.Open();
  ASSERT_TRUE(first->WaitAll(Deadline()).ok());
  ASSERT_TRUE(second->WaitAll(Deadline()).ok());
  EXPECT_TRUE((sums == std::vector<std::string>{"11", "12"}) ||
              (sums == std::vector<std::string>{"12", "11"}))
      << sums[0] << ", " << sums[1];
  EXPECT_EQ(Get(*writer_, NumberKey(0)), "12");
}

TEST_F(ColdWrites, OfBatchesAndListsAreReadForSideBySide) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(6));
  gate_.Close();
  std::vector<std::future<std::string>> outcomes;
  outcomes.push_back(Begin([](Client& client) {
    WriteBatch batch;
    batch.Put(NumberKey(0), "new");
    batch.Delete(NumberKey(1));
    batch.Put(NumberKey(2), "new", {.condition = Condition::Present()});
    return client.Apply(batch);
  }));
  outcomes.push_back(Begin([](Client& client) {
    const std::vector<std::string> keys = {NumberKey(3), NumberKey(4), NumberKey(5)};
    const std::vector<PutRequest> puts = {
        {.key = keys[0], .value = "new"}, {.key = keys[1], .value = "new"}, {.key = keys[2], .value = "new"}};
    std::vector<PutResult> results(puts.size());
    const absl::Status status = client.MultiPut(puts, results);
    for (const PutResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
    return status;
  }));
  EXPECT_TRUE(gate_.AwaitWaiting(6)) << "a read waits for another one";
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  gate_.Open();
  for (std::future<std::string>& outcome : outcomes) EXPECT_EQ(outcome.get(), "OK");
  for (const std::size_t i : {0u, 2u, 3u, 4u, 5u}) EXPECT_EQ(Get(*writer_, NumberKey(i)), "new");
  EXPECT_EQ(Get(*writer_, NumberKey(1)), "NOT_FOUND");
  EXPECT_EQ(store().Read(Metric::kColdReads), 6u);
}

// A read that fails concerns its own request alone.
TEST_F(ColdWrites, FailAloneIfTheirReadsFail) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(2));
  on_read_ = [](ColdRead* cold) {
    if (cold->key == NumberKey(0)) cold->status = absl::DataLossError("the table is damaged");
  };
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> sums(2);
  ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(0), &sums[0]));
  ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(1), &sums[1]));
  ASSERT_TRUE(SendUntilWaiting(*client, 2));
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(sums[0], "DATA_LOSS");
  EXPECT_EQ(sums[1], "11");
}

// D9.
TEST_F(ColdWrites, AreReadForByTheServerThreadIfResultsAreStaleAllTheTime) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(1));
  std::atomic<int> reads = 0;
  on_read_ = [&reads](ColdRead* cold) {
    if (++reads <= 20) ++cold->marks;  // as if the key had left memory again
  };
  EXPECT_EQ(writer_->Increment(NumberKey(0), 1).value_or(0), 11);
  EXPECT_EQ(reads, kMaxColdReadBegins - 1);
  EXPECT_EQ(store().Read(Metric::kColdReadsRepeated), static_cast<std::uint64_t>(kMaxColdReadBegins - 2));
}

TEST_F(ColdWrites, AreNotDoneIfTheirConnectionsEnd) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(8));
  gate_.Close();
  std::vector<std::string> ignored(8);
  {
    const std::unique_ptr<AsyncClient> client = ConnectAsync();
    for (std::size_t i = 0; i < 8; ++i) {
      ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(i), &ignored[i]));
    }
    ASSERT_TRUE(SendUntilWaiting(*client, 8));
  }
  const TimePoint deadline = Deadline();
  while (store().Read(Metric::kConnections) > 1 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_EQ(store().Read(Metric::kConnections), 1u);
  gate_.Open();
  while (store().Read(Metric::kColdReadsInFlight) > 0 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store().Read(Metric::kColdReadsInFlight), 0u);
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(Get(*writer_, NumberKey(i)), "10");
}

// The client asks for the outcome over another connection, and repeats a write that was not done.
TEST_F(ColdWrites, AreDoneOnceIfTheClientReconnects) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(1));
  const std::unique_ptr<Client> client = Connect(milliseconds(200));
  gate_.Close();
  EXPECT_EQ(NameOf(client->Increment(NumberKey(0), 1).status()), "DEADLINE_EXCEEDED");
  gate_.Open();
  const std::int64_t sum = Connect()->Increment(NumberKey(0), 100).value_or(0);
  EXPECT_TRUE(sum == 110 || sum == 111) << sum;
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
}

TEST_F(ColdWrites, DoNotOutliveTheServer) {
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(8));
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> sums(8);
  for (std::size_t i = 0; i < 8; ++i)
    ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(i), &sums[i]));
  ASSERT_TRUE(SendUntilWaiting(*client, 8));
  std::future<void> end = std::async(std::launch::async, [this] { server_.reset(); });
  gate_.Open();
  end.get();
  client->WaitAll(Deadline()).IgnoreError();
  for (const std::string& sum : sums) {
    EXPECT_TRUE(sum == "11" || sum == "UNAVAILABLE" || sum == "UNKNOWN") << sum;
  }
}

// D10.
TEST_F(ColdWrites, KeepNoMoreValuesThanTheirLimit) {
  constexpr std::size_t kValues = 10;
  std::vector<std::string> keys(14);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = "large " + std::to_string(i);
    ASSERT_TRUE(writer_->Put(keys[i], std::string(2'000'000, 'v')).ok());
  }
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_NO_FATAL_FAILURE(PutColdNumbers(1));
  // To ask for one is to use it, so each is asked for once: a few stay in memory.
  std::erase_if(keys, [&](const std::string& key) { return !IsCold(key); });
  ASSERT_GE(keys.size(), kValues);
  keys.resize(kValues);
  const std::uint64_t reads_before = store().Read(Metric::kColdReads);
  // The first write of the connection waits until the server has taken the others' values. If the server used
  // some earlier, values that it takes later would find space again, and be kept.
  on_read_ = [this, reads_before](ColdRead* cold) {
    const TimePoint deadline = Deadline();
    while (cold->key == NumberKey(0) && store().Read(Metric::kColdReads) < reads_before + kValues &&
           clock_.Now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  };
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::string sum;
  ASSERT_NO_FATAL_FAILURE(BeginIncrement(*client, NumberKey(0), &sum));
  std::vector<std::string> touched(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    const auto begun = client->Touch(keys[i], hours(1),
                                     [&, i](const AsyncResult& done) { touched[i] = NameOf(done.status); });
    ASSERT_TRUE(begun.ok()) << begun.status();
  }
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(sum, "11");
  for (const std::string& outcome : touched) EXPECT_EQ(outcome, "OK");
  // 16 MiB are eight of these values.
  EXPECT_GE(store().Read(Metric::kColdReads) - reads_before, std::uint64_t{1 + kValues + 2});
}

}  // namespace
}  // namespace remora
