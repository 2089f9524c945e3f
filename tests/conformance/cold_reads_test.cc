// GETs of keys that are only on disk, while the disk does not answer: a gate stands before each read of the
// durable tier. Nothing here depends on how long something takes.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "server/request/cold_read_pool.h"
#include "store/base/clock.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{60};

/// A gate, which is open at first. Each read passes it.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    --waiting_;
  }
  /// Waits until so many reads stand before the gate.
  bool AwaitWaiting(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return waiting_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  int waiting_ = 0;
};

class ColdReads : public testing::Test {
 protected:
  static constexpr int kKeys = 2000;  // 2.5 times what the memory holds
  static constexpr int kReaders = 32;

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = dir_.path() + "/data";
    options.make_read_pool = [this](ColdReadPool::ReadFunction read, std::function<void()> on_done) {
      const auto gated = [this, read = std::move(read)](ColdRead* cold) {
        gate_.Pass();
        read(cold);
      };
      return StartColdReadThreads(kReaders, gated, std::move(on_done));
    };
    auto server = ServerThread::Start(options, FreshAddress(rdma::TransportKind::kLocal, dir_.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    writer_ = Connect();
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), ValueOf(i)).ok());
  }
  // Open in any case: the end of the server waits for reads that have begun.
  void TearDown() override { gate_.Open(); }

  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i) { return KeyOf(i) + std::string(20'000, 'v'); }

  std::unique_ptr<Client> Connect(milliseconds timeout = kPatience) {
    auto client =
        Client::Connect(server_->address(), {.timeout = timeout, .location_cache_bytes = 0}, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  /// Returns a client that does not reconnect.
  std::unique_ptr<AsyncClient> ConnectAsync() {
    auto client = AsyncClient::Connect(server_->address(),
                                       {.timeout = kPatience, .location_cache_bytes = 0, .reconnect = false},
                                       {}, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  ServerStore& store() { return server_->server().store(); }
  bool IsCold(int i) {
    ColdRead read;
    const absl::StatusOr<std::optional<Location>> location = store().BeginLocate(KeyOf(i), &read);
    EXPECT_TRUE(location.ok()) << location.status();
    return location.ok() && !location->has_value();
  }
  std::vector<int> ColdKeys(std::size_t count) {
    std::vector<int> keys;
    for (int i = 0; i < kKeys && keys.size() < count; ++i) {
      if (IsCold(i)) keys.push_back(i);
    }
    EXPECT_EQ(keys.size(), count);
    return keys;
  }
  /// Returns the value of a key, or the name of the status.
  static std::string Get(Client& client, const std::string& key) {
    std::string value;
    const absl::Status status = client.Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  /// Begins to get a key. *result gets the value, or the name of the status.
  static void BeginGet(AsyncClient& client, const std::string& key, std::string* result) {
    const auto begun = client.Get(key, [result](const AsyncResult& got) {
      *result = got.status.ok() ? std::string(got.value) : absl::StatusCodeToString(got.status.code());
    });
    ASSERT_TRUE(begun.ok()) << begun.status();
  }
  TimePoint Deadline() const { return clock_.Now() + kPatience; }
  /// Goes on with the operations of a client, none of which may be able to end.
  void PollOnce(AsyncClient& client) {
    const absl::Status polled = client.Wait(clock_.Now() + milliseconds(1)).status();
    EXPECT_TRUE(polled.ok() || absl::IsDeadlineExceeded(polled)) << polled;
  }
  /// Sends what the client has begun, while the gate is closed: no answer can come.
  bool SendUntilWaiting(AsyncClient& client, int count) {
    std::future<bool> waits = std::async(std::launch::async, [&] { return gate_.AwaitWaiting(count); });
    while (waits.wait_for(seconds(0)) != std::future_status::ready) {
      PollOnce(client);
    }
    return waits.get();
  }
  /// Checks that the server answers writes, and reads of memory.
  void ExpectOthersAreServed() {
    const std::unique_ptr<Client> other = Connect();
    for (int i = 0; i < 100; ++i) {
      const std::string key = "other " + std::to_string(i);
      const absl::Status put = other->Put(key, "value");
      ASSERT_TRUE(put.ok()) << put;
      ASSERT_EQ(Get(*other, key), "value");
    }
  }

  SteadyClock clock_;
  const TempDir dir_;
  Gate gate_;
  std::unique_ptr<ServerThread> server_;
  std::unique_ptr<Client> writer_;
};

TEST_F(ColdReads, AreDoneSideBySideWhileOthersWrite) {
  const std::vector<int> keys = ColdKeys(kReaders);
  gate_.Close();
  std::vector<std::future<std::string>> values;
  for (const int i : keys) {
    values.push_back(std::async(std::launch::async, [this, i] { return Get(*Connect(), KeyOf(i)); }));
  }
  EXPECT_TRUE(gate_.AwaitWaiting(kReaders)) << "one read waits for another";
  EXPECT_EQ(store().Read(Counter::kColdReadsInFlight), static_cast<std::uint64_t>(kReaders));
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  gate_.Open();
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i].get(), ValueOf(keys[i]));
  EXPECT_EQ(store().Read(Counter::kColdReadsInFlight), 0u);
  EXPECT_EQ(store().Read(Counter::kColdReads), static_cast<std::uint64_t>(kReaders));
  EXPECT_EQ(store().Read(Counter::kColdReadsRepeated), 0u);
}

TEST_F(ColdReads, OfOneConnectionAreDoneSideBySide) {
  constexpr int kInFlight = 12;
  const std::vector<int> keys = ColdKeys(kInFlight);
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(keys[i]), &values[i]));
  }
  EXPECT_TRUE(SendUntilWaiting(*client, kInFlight)) << "one read waits for another";
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
  const std::vector<int> keys = ColdKeys(2);
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(keys[i]), &values[i]));
  }
  EXPECT_TRUE(SendUntilWaiting(*client, 2));
  ASSERT_TRUE(writer_->Put(KeyOf(keys[0]), "new").ok());
  ASSERT_TRUE(writer_->Delete(KeyOf(keys[1])).ok());
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(values[0], "new");
  EXPECT_EQ(values[1], "NOT_FOUND");
}

TEST_F(ColdReads, AreDoneAgainIfTheKeyWasWrittenAndLeftMemoryMeanwhile) {
  const int key = ColdKeys(1).front();
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::string value;
  ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(key), &value));
  EXPECT_TRUE(SendUntilWaiting(*client, 1));
  ASSERT_TRUE(writer_->Put(KeyOf(key), "new").ok());
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(writer_->Put("filler " + std::to_string(i), ValueOf(i)).ok());
  ASSERT_TRUE(IsCold(key));
  gate_.Open();
  ASSERT_TRUE(client->WaitAll(Deadline()).ok());
  EXPECT_EQ(value, "new");
  EXPECT_EQ(store().Read(Counter::kColdReadsRepeated), 1u);
}

TEST_F(ColdReads, EndWithoutTheirConnections) {
  const std::vector<int> keys = ColdKeys(9);
  gate_.Close();
  std::string ignored;
  {
    const std::unique_ptr<AsyncClient> client = ConnectAsync();
    for (std::size_t i = 1; i < keys.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(keys[i]), &ignored));
    }
    EXPECT_TRUE(SendUntilWaiting(*client, 8));
  }
  const TimePoint deadline = Deadline();
  while (store().Read(Counter::kConnections) > 1 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store().Read(Counter::kConnections), 1u);
  gate_.Open();
  EXPECT_EQ(Get(*writer_, KeyOf(keys[0])), ValueOf(keys[0]));
  EXPECT_NO_FATAL_FAILURE(ExpectOthersAreServed());
  while (store().Read(Counter::kColdReadsInFlight) > 0 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store().Read(Counter::kColdReadsInFlight), 0u);
}

// The server waits for the reads that have begun; they end when the disk answers.
TEST_F(ColdReads, DoNotOutliveTheServer) {
  const std::vector<int> keys = ColdKeys(8);
  gate_.Close();
  const std::unique_ptr<AsyncClient> client = ConnectAsync();
  std::vector<std::string> values(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(BeginGet(*client, KeyOf(keys[i]), &values[i]));
  }
  EXPECT_TRUE(SendUntilWaiting(*client, 8));
  std::future<void> end = std::async(std::launch::async, [this] { server_.reset(); });
  gate_.Open();
  end.get();
  client->WaitAll(Deadline()).IgnoreError();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(values[i] == ValueOf(keys[i]) || values[i] == "UNAVAILABLE") << values[i];
  }
}

TEST_F(ColdReads, LeaveDeadlinesAsTheyAre) {
  const int key = ColdKeys(1).front();
  gate_.Close();
  const std::unique_ptr<Client> client = Connect(milliseconds(200));
  EXPECT_EQ(Get(*client, KeyOf(key)), "DEADLINE_EXCEEDED");
  gate_.Open();
  EXPECT_EQ(Get(*Connect(), KeyOf(key)), ValueOf(key));
}

}  // namespace
}  // namespace remora
