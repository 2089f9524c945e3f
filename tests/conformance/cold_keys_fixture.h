// A server most of whose keys are only on disk, while the disk does not answer: a gate stands before each
// read of the pool. Nothing here depends on how long something takes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "server/request/cold_read_pool.h"
#include "store/base/clock.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {

inline const std::chrono::seconds kPatience = Patience(std::chrono::seconds(60));

/// A gate, which is open at first. Each read passes it.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  /// Lets reads for writes pass, and no others.
  void CloseForGets() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    writes_pass_ = true;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    writes_pass_ = false;
    changed_.notify_all();
  }
  void Pass(bool is_for_write) {
    std::unique_lock lock(mutex_);
    if (is_for_write && writes_pass_) return;
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
  bool writes_pass_ = false;
  int waiting_ = 0;
};

/// A function that the threads of the pool call after each read. Thread safety: any thread.
class OnRead {
 public:
  using Function = std::function<void(ColdRead*)>;
  OnRead& operator=(Function function) {
    const std::lock_guard lock(mutex_);
    function_ = std::move(function);
    return *this;
  }
  Function Get() const {
    const std::lock_guard lock(mutex_);
    return function_;
  }

 private:
  mutable std::mutex mutex_;
  Function function_;
};

/// A server, most of whose keys are cold.
class ColdKeys : public testing::Test {
 protected:
  static constexpr int kKeys = 2000;  // 2.5 times what the memory holds
  static constexpr int kReaders = 32;

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = dir_.path() + "/data";
    Configure(options);
    auto server = ServerThread::Start(options, FreshAddress(rdma::TransportKind::kLocal, dir_.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    writer_ = Connect();
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), ValueOf(i)).ok());
  }
  /// Has all reads pass the gate.
  virtual void Configure(ServerOptions& options) {
    options.make_read_pool = [this](ColdReadPool::ReadFunction read, std::function<void()> on_done) {
      const auto gated = [this, read = std::move(read)](ColdRead* cold) {
        gate_.Pass(cold->is_for_write);
        read(cold);
        if (const auto on_read = on_read_.Get()) on_read(cold);
      };
      return StartColdReadThreads(kReaders, gated, std::move(on_done));
    };
  }
  // Open in any case: the end of the server waits for reads that have begun.
  void TearDown() override { gate_.Open(); }

  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i) { return KeyOf(i) + std::string(20'000, 'v'); }

  std::unique_ptr<Client> Connect(std::chrono::milliseconds timeout = kPatience) {
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
  bool IsCold(int i) { return IsCold(KeyOf(i)); }
  bool IsCold(const std::string& key) {
    ColdRead read;
    const absl::StatusOr<std::optional<Location>> location = store().BeginLocate(key, &read);
    EXPECT_TRUE(location.ok()) << location.status();
    return location.ok() && !location->has_value();
  }
  /// Puts values under other keys, so many that all earlier ones leave memory.
  void EvictAll() {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(writer_->Put("filler " + std::to_string(i), ValueOf(i)).ok());
    }
  }
  /// Returns keys that are cold.
  std::vector<int> FindColdKeys(std::size_t count) {
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
  /// Begins to get keys, and waits until all their reads stand before the closed gate.
  void BeginGets(AsyncClient& client, std::span<const int> keys, std::vector<std::string>* values) {
    values->resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(BeginGet(client, KeyOf(keys[i]), &(*values)[i]));
    }
    ASSERT_TRUE(SendUntilWaiting(client, static_cast<int>(keys.size()))) << "one read waits for another";
  }
  TimePoint Deadline() const { return clock_.Now() + kPatience; }
  /// Goes on with the operations of a client, none of which may be able to end.
  void PollOnce(AsyncClient& client) {
    const absl::Status polled = client.Wait(clock_.Now() + std::chrono::milliseconds(1)).status();
    EXPECT_TRUE(polled.ok() || absl::IsDeadlineExceeded(polled)) << polled;
  }
  /// Sends what the client has begun, while the gate is closed: no answer can come.
  bool SendUntilWaiting(AsyncClient& client, int count) {
    std::future<bool> waits = std::async(std::launch::async, [&] { return gate_.AwaitWaiting(count); });
    while (waits.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
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
  OnRead on_read_;
  std::unique_ptr<ServerThread> server_;
  std::unique_ptr<Client> writer_;
};

}  // namespace remora
