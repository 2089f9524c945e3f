// GETs of keys that are only on disk.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "tests/conformance/cold_keys_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

using ColdReads = ColdKeys;

TEST_F(ColdReads, AreDoneSideBySideWhileOthersWrite) {
  const std::vector<int> keys = FindColdKeys(kReaders);
  gate_.Close();
  std::vector<std::future<std::string>> values;
  for (const int i : keys) {
    values.push_back(std::async(std::launch::async, [this, i] { return Get(*Connect(), KeyOf(i)); }));
  }
  EXPECT_TRUE(gate_.AwaitWaiting(kReaders)) << "one read waits for another";
  EXPECT_EQ(store().Read(Metric::kColdReadsInFlight), static_cast<std::uint64_t>(kReaders));
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  gate_.Open();
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i].get(), ValueOf(keys[i]));
  EXPECT_EQ(store().Read(Metric::kColdReadsInFlight), 0u);
  EXPECT_EQ(store().Read(Metric::kColdReads), static_cast<std::uint64_t>(kReaders));
  EXPECT_EQ(store().Read(Metric::kColdReadsRepeated), 0u);
}

TEST_F(ColdReads, OfOneConnectionAreDoneSideBySide) {
  constexpr int kInFlight = 12;
  const std::vector<int> keys = FindColdKeys(kInFlight);
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values;
  ASSERT_NO_FATAL_FAILURE(BeginGets(*client, keys, &values));
  std::string put;
  ASSERT_TRUE(client
                  ->Put("other", "value",
                        [&](const AsyncResult& done) { put = absl::StatusCodeToString(done.status.code()); })
                  .ok());
  for (const TimePoint deadline = Deadline(); put.empty() && clock_.Now() < deadline;) {
    PollOnce(*client);
  }
  EXPECT_EQ(put, "OK") << "a write of the same connection waits for its reads";
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], ValueOf(keys[i]));
}

TEST_F(ColdReads, ShowAWriteThatWasDoneMeanwhile) {
  const std::vector<int> keys = FindColdKeys(2);
  gate_.CloseForGets();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values;
  ASSERT_NO_FATAL_FAILURE(BeginGets(*client, keys, &values));
  ASSERT_TRUE(writer_->Put(KeyOf(keys[0]), "new").ok());
  ASSERT_TRUE(writer_->Delete(KeyOf(keys[1])).ok());
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(values[0], "new");
  EXPECT_EQ(values[1], "NOT_FOUND");
}

TEST_F(ColdReads, AreDoneAgainIfTheKeyWasWrittenAndLeftMemoryMeanwhile) {
  const std::vector<int> keys = FindColdKeys(1);
  const int key = keys.front();
  gate_.CloseForGets();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values;
  ASSERT_NO_FATAL_FAILURE(BeginGets(*client, keys, &values));
  ASSERT_TRUE(writer_->Put(KeyOf(key), "new").ok());
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_TRUE(IsCold(key));
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(values.front(), "new");
  EXPECT_EQ(store().Read(Metric::kColdReadsRepeated), 1u);
}

TEST_F(ColdReads, EndWithoutTheirConnections) {
  const std::vector<int> keys = FindColdKeys(9);
  gate_.Close();
  std::vector<std::string> ignored;
  ASSERT_NO_FATAL_FAILURE(BeginGets(*ConnectAsync(), std::span(keys).subspan(1), &ignored));
  const TimePoint deadline = Deadline();
  while (store().Read(Metric::kConnections) > 1 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store().Read(Metric::kConnections), 1u);
  gate_.Open();
  EXPECT_EQ(Get(*writer_, KeyOf(keys[0])), ValueOf(keys[0]));
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  while (store().Read(Metric::kColdReadsInFlight) > 0 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store().Read(Metric::kColdReadsInFlight), 0u);
}

// The server waits for the reads that have begun; they end when the disk answers.
TEST_F(ColdReads, DoNotOutliveTheServer) {
  const std::vector<int> keys = FindColdKeys(8);
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values;
  ASSERT_NO_FATAL_FAILURE(BeginGets(*client, keys, &values));
  std::future<void> end = std::async(std::launch::async, [this] { server_.reset(); });
  gate_.Open();
  end.get();
  client->WaitAll(Deadline()).IgnoreError();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(values[i] == ValueOf(keys[i]) || values[i] == "UNAVAILABLE") << values[i];
  }
}

TEST_F(ColdReads, LeaveDeadlinesAsTheyAre) {
  const int key = FindColdKeys(1).front();
  gate_.Close();
  const std::unique_ptr<Client> client = Connect(milliseconds(200));
  EXPECT_EQ(Get(*client, KeyOf(key)), "DEADLINE_EXCEEDED");
  gate_.Open();
  EXPECT_EQ(Get(*Connect(), KeyOf(key)), ValueOf(key));
}

/// A server as users start it: its thread does the reads that need no disk.
class CachedColdReads : public ColdKeys {
 protected:
  void Configure(ServerOptions& options) override { options.read_threads = 4; }
  std::uint64_t Reads() { return store().Read(Metric::kColdReads) + store().Read(Metric::kColdReadsAtOnce); }
};

TEST_F(CachedColdReads, AreDoneAtOnce) {
  // Threads open the tables.
  bool all_at_once = false;
  for (int round = 0; !all_at_once && round < 20; ++round) {
    const std::vector<int> keys = FindColdKeys(20);
    const std::uint64_t before = Reads(), by_threads = store().Read(Metric::kColdReads);
    for (const int i : keys) EXPECT_EQ(Get(*writer_, KeyOf(i)), ValueOf(i));
    EXPECT_EQ(Reads() - before, keys.size());
    all_at_once = store().Read(Metric::kColdReads) == by_threads;
  }
  if (!all_at_once)
    GTEST_SKIP() << "this file system has no reads without a wait, or its cache lacks the data";
  // Writes of cold keys, too: the old version is needed.
  const std::vector<int> others = FindColdKeys(5);
  const std::uint64_t at_once = store().Read(Metric::kColdReadsAtOnce);
  const PutOptions if_present{.condition = Condition::Present()};
  for (const int i : others) EXPECT_TRUE(writer_->Put(KeyOf(i), "new", if_present).ok());
  EXPECT_GT(store().Read(Metric::kColdReadsAtOnce), at_once);
  for (const int i : others) EXPECT_EQ(Get(*writer_, KeyOf(i)), "new");
}

TEST_F(CachedColdReads, OfManyRequestsAreDoneByThreadsToo) {
  const std::vector<int> keys = FindColdKeys(300);
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  const std::uint64_t before = Reads();
  std::vector<std::string> values(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    while (client->free_slots() == 0) ASSERT_TRUE(client->Wait(Deadline()).ok());
    ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(keys[i]), &values[i]));
  }
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], ValueOf(keys[i]));
  EXPECT_GE(Reads() - before, keys.size());
}

}  // namespace
}  // namespace remora
