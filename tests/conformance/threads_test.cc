// The thread model: a client for each thread, side by side, and nothing shared but the server and, in one
// process, what the library has once. To be run under ThreadSanitizer, too (tools/check).
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/async_fixture.h"

namespace remora {
namespace {

class Threads : public Async {};
INSTANTIATE_TEST_SUITE_P(On, Threads,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kVerbsAndLocal),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Threads, EachHasAClientOfItsOwn) {
  START({.durability = Durability::kLogged, .memory_size = std::size_t{64} << 20});
  constexpr int kClients = 4;
  const int rounds = slow() ? 40 : 200;
  const std::string large(400'000, 'l');
  ASSERT_CODE(kOk, Put("sum", "0"));
  std::atomic<int> ready = 0;
  const auto at_once = [&] {
    ++ready;
    while (ready.load() <= kClients) std::this_thread::yield();
  };

  std::vector<std::thread> threads;
  for (int number = 0; number < kClients; ++number) {
    threads.emplace_back([&, number] {
      const std::unique_ptr<KeyValue> kv = Connect({.location_cache_bytes = kDefaultLocationCacheBytes});
      const std::string own = "own " + std::to_string(number);
      at_once();
      for (int i = 0; i < rounds; ++i) {
        const std::string value = own + " " + std::to_string(i);
        ASSERT_CODE(kOk, kv->Put(own, value));
        ASSERT_EQ(Get(*kv, own), value);
        ASSERT_TRUE(kv->Increment("sum", 1).ok());
        const std::string others = "own " + std::to_string((number + i) % kClients);
        std::string got;
        const absl::Status status = kv->Get(others, &got);
        ASSERT_TRUE(absl::IsNotFound(status) || got.starts_with(others)) << status << got;
        if (i % 50 == 0) {
          ASSERT_CODE(kOk, kv->Put("large " + own, large));
          ASSERT_TRUE(Get(*kv, "large " + own) == large);
          ASSERT_GE(kv->Count({.prefix = "own "}).value(), 1u);
        }
      }
    });
  }
  threads.emplace_back([&] {
    const std::unique_ptr<AsyncClient> client = NewAsync({.depth = 32});
    const TimePoint deadline = Soon();
    std::vector<std::byte> memory(3 * large.size());
    const std::unique_ptr<RegisteredBuffer> buffer = *client->Register(memory);
    int ended = 0;
    at_once();
    for (int i = 0; i < rounds; ++i) {
      while (client->free_slots() < 4) ASSERT_TRUE(client->Wait(deadline).ok());
      const auto is_well = [&ended](const AsyncResult& result) {
        ++ended;
        ASSERT_TRUE(result.status.ok()) << result.status;
      };
      ASSERT_TRUE(client->Increment("sum", 1, is_well).ok());
      ASSERT_TRUE(client->Put("async " + std::to_string(i % 7), i % 50 == 0 ? large : "small", is_well).ok());
      ASSERT_TRUE(client->Get("sum", is_well).ok());
      if (i % 10 > 0) continue;
      // Earlier operations that name the memory have ended: the device does not use it.
      ASSERT_CODE(kOk, client->WaitAll(deadline));
      ended -= 2;
      const std::size_t size = i % 50 == 0 ? large.size() : 3000;
      ASSERT_TRUE(client->Put("registered", buffer->Part(0, size), {}, is_well).ok());
      ASSERT_TRUE(client->Get("async 0", buffer->Part(large.size(), large.size()), is_well).ok());
    }
    ASSERT_CODE(kOk, client->WaitAll(deadline));
    ASSERT_EQ(ended, 3 * rounds);
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("sum"), std::to_string((kClients + 1) * rounds));
  EXPECT_EQ(store().Read(Metric::kRejectedRequests), 0u);
}

// A client is no thread's: any thread that has it may use it, one after the other.
TEST_P(Threads, AClientGoesFromOneToTheNext) {
  START({.durability = Durability::kLogged});
  ConnectAsync();
  for (int i = 0; i < 8; ++i) {
    std::thread([&] {
      ASSERT_EQ(kv_->Increment("sum", 1).value(), 2 * i + 1);
      const Outcome sum = Do([&](auto done) { return async_->Increment("sum", 1, std::move(done)); });
      ASSERT_EQ(sum.number, 2 * i + 2);
    }).join();
  }
}

}  // namespace
}  // namespace remora
