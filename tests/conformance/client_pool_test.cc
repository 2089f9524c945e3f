// A pool that lends clients to threads. To be run under ThreadSanitizer, too (tools/check).
#include "client/client_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using Lease = ClientPool::Lease;

constexpr milliseconds kNoWait{0};
constexpr milliseconds kLongWait{60'000};

template <typename... Arguments>
concept PoolTakes = requires(Arguments&&... arguments) {
  ClientPool::Create(static_cast<Arguments&&>(arguments)...);
};
static_assert(PoolTakes<const char*>);
static_assert(PoolTakes<const char*, ClientOptions, ClientPoolOptions, SteadyClock&>);
static_assert(!PoolTakes<const char*, ClientOptions, ClientPoolOptions, SteadyClock>);
static_assert(!PoolTakes<Dialer, ClientOptions, ClientPoolOptions, SteadyClock>);

class Pools : public Behaviour {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  std::unique_ptr<ClientPool> NewPool(const ClientPoolOptions& options, const ClientOptions& client = {}) {
    return NewPool([this](TimePoint) { return deployment_->Dial(); }, options, client);
  }
  std::unique_ptr<ClientPool> NewPool(Dialer dialer, const ClientPoolOptions& options,
                                      const ClientOptions& client = {}) {
    auto pool = ClientPool::Create(std::move(dialer), client, options, deployment_->clock());
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }
  /// Returns a lease, or an empty one after a failure of the test.
  static Lease Acquired(ClientPool& pool, milliseconds timeout = kLongWait) {
    absl::StatusOr<Lease> lease = pool.TryAcquire(timeout);
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : Lease();
  }
  void RestartServer() {
    const absl::Status restarted = deployment_->Restart();
    ASSERT_TRUE(restarted.ok()) << restarted;
  }
};

INSTANTIATE_TEST_SUITE_P(On, Pools, testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Pools, AndClientsNeedNoClockOfTheirCaller) {
  START();
  const auto dial = [this](TimePoint) { return deployment_->Dial(); };
  const auto pool = ClientPool::Create(dial);
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_CODE(kOk, Acquired(**pool)->Put("key", "value", {.ttl = std::chrono::hours(1)}));

  const auto client = Client::Connect(dial);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto left = (*client)->Ttl("key");
  ASSERT_TRUE(left.ok() && left->has_value()) << left.status();
  EXPECT_LE(**left, std::chrono::hours(1));
  EXPECT_GT(**left, milliseconds(0));
}

TEST_P(Pools, ConnectWhenAClientIsWantedAndNoneIsIdle) {
  START();
  const auto pool = NewPool({.max_clients = 3});
  EXPECT_EQ(pool->counters().connects, 0u);
  {
    const Lease first = Acquired(*pool), second = Acquired(*pool);
    ASSERT_CODE(kOk, first->Put("key", "value"));
    EXPECT_EQ(second->Get("key").value_or(""), "value");
    EXPECT_NE(&*first, &*second);
    const ClientPoolCounters counters = pool->counters();
    EXPECT_EQ(counters.in_use, 2u);
    EXPECT_EQ(counters.idle, 0u);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Acquired(*pool)->Get("key").value_or(""), "value");
  const ClientPoolCounters counters = pool->counters();
  EXPECT_EQ(counters.in_use, 0u);
  EXPECT_EQ(counters.idle, 2u);
  EXPECT_EQ(counters.connects, 2u);
  EXPECT_EQ(counters.acquires, 12u);
  EXPECT_EQ(counters.waits, 0u);
  EXPECT_EQ(pool->client_counters().requests, 1u);
}

TEST_P(Pools, GiveEachThreadItsLastClientFirst) {
  START();
  const auto pool = NewPool({.max_clients = 2});
  Lease mine = Acquired(*pool);
  Client* const last = &*mine;
  Lease other;
  std::thread([&] { other = Acquired(*pool); }).join();
  mine.Return();
  other.Return();  // so this one was returned last
  EXPECT_EQ(&*Acquired(*pool), last);
  std::thread([&] {
    EXPECT_EQ(&*Acquired(*pool), last) << "a new thread gets what was returned last";
  }).join();
  EXPECT_EQ(pool->counters().connects, 2u);
}

TEST_P(Pools, LendNoMoreThanTheyMay) {
  START();
  const auto pool = NewPool({.max_clients = 2, .acquire_timeout = milliseconds(20)});
  Lease first = Acquired(*pool);
  const Lease second = Acquired(*pool);
  const absl::Status none = pool->TryAcquire(kNoWait).status();
  EXPECT_CODE(kDeadlineExceeded, none);
  EXPECT_THAT(std::string(none.message()), testing::HasSubstr("all 2 clients were in use for 0 ms; return"));
  EXPECT_CODE(kDeadlineExceeded, pool->TryAcquire(milliseconds(-1)).status());
  EXPECT_CODE(kDeadlineExceeded, pool->Acquire().status());
  const ClientPoolCounters counters = pool->counters();
  EXPECT_EQ(counters.waits, 1u);
  EXPECT_EQ(counters.timeouts, 3u);
  EXPECT_EQ(counters.waiting, 0u);
  EXPECT_EQ(counters.in_use, 2u);
  first.Return();
  EXPECT_CODE(kOk, pool->TryAcquire(kNoWait).status());
}

TEST_P(Pools, ServeWaitersInTheirOrder) {
  START();
  const auto pool = NewPool({.max_clients = 1});
  constexpr std::size_t kWaiters = 6;
  std::optional<Lease> held(Acquired(*pool));
  std::mutex mutex;
  std::vector<std::size_t> served;
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < kWaiters; ++number) {
    threads.emplace_back([&, number] {
      const Lease lease = Acquired(*pool);
      const std::lock_guard lock(mutex);
      served.push_back(number);
    });
    ASSERT_TRUE(Await([&] { return pool->counters().waiting == number + 1; }));
  }
  // Some client is always with the first waiter, so this call never finds one.
  held.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(served, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(pool->counters().waits, kWaiters);
  EXPECT_EQ(pool->counters().connects, 1u);
}

TEST_P(Pools, LetNobodyOvertakeAWaiter) {
  START();
  const auto pool = NewPool({.max_clients = 1});
  for (int i = 0; i < 20; ++i) {
    Lease held = Acquired(*pool);
    std::atomic<bool> may_return = false;
    std::thread waiter([&] {
      const Lease lease = Acquired(*pool);
      may_return.wait(false);
    });
    ASSERT_TRUE(Await([&] { return pool->counters().waiting == 1; }));
    held.Return();
    EXPECT_CODE(kDeadlineExceeded, pool->TryAcquire(kNoWait).status());
    may_return = true;
    may_return.notify_one();
    waiter.join();
  }
}

TEST_P(Pools, ForgetAWaiterWhoseTimeIsOver) {
  START();
  const auto pool = NewPool({.max_clients = 1});
  Lease held = Acquired(*pool);
  std::thread patient([&] { Acquired(*pool); });
  ASSERT_TRUE(Await([&] { return pool->counters().waiting == 1; }));
  EXPECT_CODE(kDeadlineExceeded, pool->TryAcquire(milliseconds(5)).status());
  held.Return();
  patient.join();
  EXPECT_TRUE(Acquired(*pool, kNoWait));
}

TEST_P(Pools, KeepTheirSizeWhenConnectingFails) {
  START();
  kv_.reset();
  const auto pool = NewPool({.max_clients = 2}, {.connect_timeout = milliseconds(2000)});
  deployment_->Stop();
  for (int i = 0; i < 5; ++i) {
    const absl::Status failed = pool->TryAcquire(kNoWait).status();
    ASSERT_FALSE(failed.ok() || absl::IsInternal(failed)) << failed;
    EXPECT_THAT(std::string(failed.message()), testing::Not(testing::HasSubstr("client pool")));
  }
  EXPECT_EQ(pool->counters().connect_failures, 5u);
  EXPECT_EQ(pool->counters().in_use, 0u);
  RestartServer();
  const Lease first = Acquired(*pool, kNoWait), second = Acquired(*pool, kNoWait);
  ASSERT_TRUE(first && second);
  EXPECT_CODE(kOk, first->Ping());
  EXPECT_CODE(kOk, second->Ping());
  EXPECT_CODE(kDeadlineExceeded, pool->TryAcquire(kNoWait).status());
}

TEST_P(Pools, PassOnTheTurnOfACallThatFailsToConnect) {
  START();
  std::atomic<bool> connecting = false, may_fail = false;
  std::atomic<int> dials = 0;
  const auto pool = NewPool(
      [&](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
        if (dials++ > 0) return deployment_->Dial();
        connecting = true;
        may_fail.wait(false);
        return absl::PermissionDeniedError("not this time");
      },
      {.max_clients = 1});
  std::thread first([&] {
    const absl::Status failed = pool->TryAcquire(kNoWait).status();
    EXPECT_CODE(kPermissionDenied, failed);
    EXPECT_EQ(failed.message(), "not this time");
  });
  ASSERT_TRUE(Await([&] { return connecting.load(); }));
  std::thread second([&] {
    const Lease lease = Acquired(*pool);
    EXPECT_CODE(kOk, lease->Ping());
  });
  ASSERT_TRUE(Await([&] { return pool->counters().waiting == 1; }));
  may_fail = true;
  may_fail.notify_one();
  first.join();
  second.join();
  EXPECT_EQ(pool->counters().connect_failures, 1u);
  EXPECT_EQ(pool->counters().connects, 1u);
}

TEST_P(Pools, ReplaceClientsThatAreLost) {
  START();
  kv_.reset();
  const auto pool = NewPool({.max_clients = 2}, {.reconnect = false});
  {
    const Lease used = Acquired(*pool), idle = Acquired(*pool);
    ASSERT_CODE(kOk, used->Ping());
    ASSERT_CODE(kOk, idle->Ping());
    EXPECT_FALSE(used->is_lost());
  }
  Lease used = Acquired(*pool);
  RestartServer();
  ASSERT_CODE(kUnavailable, used->Ping());
  EXPECT_TRUE(used->is_lost());
  EXPECT_CODE(kUnavailable, used->Ping());
  used.Return();
  EXPECT_CODE(kOk, Acquired(*pool)->Ping());
  EXPECT_EQ(pool->counters().replaced, 1u);
  EXPECT_EQ(pool->counters().connects, 3u);
  EXPECT_EQ(pool->client_counters().requests, 4u);  // those that were answered or lost; the last was not sent
}

TEST_P(Pools, KeepClientsThatReconnect) {
  START({.durability = Durability::kLogged});
  kv_.reset();
  const auto pool = NewPool({.max_clients = 1});
  ASSERT_CODE(kOk, Acquired(*pool)->Put("key", "value"));
  RestartServer();
  const Lease lease = Acquired(*pool);
  EXPECT_EQ(lease->Get("key").value_or(""), "value");
  EXPECT_FALSE(lease->is_lost());
  EXPECT_EQ(lease->counters().reconnects, 1u);
  EXPECT_EQ(pool->counters().connects, 1u);
  EXPECT_EQ(pool->counters().replaced, 0u);
}

// More threads than clients, which take turns while the server comes and goes. Each client is with one thread
// at a time, and no addition is lost or done twice.
TEST_P(Pools, ServeManyThreadsOfAServerThatIsRestarted) {
  START({.durability = Durability::kLogged}, {});
  constexpr int kThreads = 8;
  const int restarts = kThreadSanitizer ? 2 : 4;
  const auto pool = NewPool({.max_clients = 3, .acquire_timeout = kLongWait}, {.timeout = kLongWait});
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> sum = 0;
  std::mutex mutex;
  std::map<Client*, int> users;
  const auto count = [&](Client* client, int change) {
    const std::lock_guard lock(mutex);
    return users[client] += change;
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&] {
      while (!stop) {
        absl::StatusOr<Lease> lease = pool->Acquire();
        ASSERT_TRUE(lease.ok()) << lease.status();
        Client& client = **lease;
        ASSERT_EQ(count(&client, 1), 1) << "another thread has this client, too";
        const absl::StatusOr<std::int64_t> added = client.Increment("sum", 1);
        ASSERT_EQ(count(&client, -1), 0);
        ASSERT_TRUE(added.ok()) << added.status();
        ++sum;
      }
    });
  }
  // A client that is being connected as the server goes would fail, and say so.
  ASSERT_TRUE(Await([&] { return pool->counters().connects == 3; }));
  for (int i = 0; i < restarts; ++i) {
    const std::int64_t before = sum;
    ASSERT_TRUE(Await([&] { return sum > before + 100; }));
    RestartServer();
  }
  const std::int64_t before = sum;
  EXPECT_TRUE(Await([&] { return sum > before + 100; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("sum"), std::to_string(sum));
  const ClientPoolCounters counters = pool->counters();
  EXPECT_EQ(counters.connects, 3u);
  EXPECT_EQ(counters.idle, 3u);
  EXPECT_EQ(counters.in_use, 0u);
  EXPECT_EQ(counters.waiting, 0u);
  EXPECT_GT(counters.waits, 0u);
  EXPECT_GE(pool->client_counters().reconnects, 3u);
}

TEST_P(Pools, LeasesMove) {
  START();
  const auto pool = NewPool({.max_clients = 2});
  Lease first = Acquired(*pool), second = Acquired(*pool);
  Client* const client = &*first;
  Lease third = std::move(first);
  EXPECT_EQ(&*third, client);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  second = std::move(third);
  EXPECT_EQ(&*second, client);
  EXPECT_EQ(pool->counters().idle, 1u);
  Lease& same = second;
  second = std::move(same);
  EXPECT_EQ(&*second, client);
  second.Return();
  second.Return();
  EXPECT_EQ(pool->counters().idle, 2u);
  EXPECT_DEATH(second->Ping().IgnoreError(), "lease of a ClientPool is used after it was moved from");
}

TEST_P(Pools, OutliveTheirLeases) {
  START();
  EXPECT_DEATH(
      {
        auto pool = NewPool({.max_clients = 2});
        const Lease lease = Acquired(*pool);
        pool.reset();
      },
      "ClientPool is destroyed while 1 of its clients are lent.* destroy all leases");
}

TEST_P(Pools, AreTheParentsAfterAFork) {
  if (kAddressSanitizer)
    GTEST_SKIP() << "the child may wait for a lock of ASan's allocator that a thread held as it was forked";
  START();
  auto pool = NewPool({.max_clients = 2});
  {
    std::optional<Lease> lease(Acquired(*pool));
    ASSERT_CODE(kOk, (*lease)->Put("key", "value"));
    const pid_t child = fork();
    if (child == 0) {
      const absl::Status forked = pool->TryAcquire(kNoWait).status();
      const bool is_used = absl::IsFailedPrecondition((*lease)->Ping());
      lease.reset();
      pool.reset();
      _exit(absl::IsFailedPrecondition(forked) && is_used ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ((*lease)->Get("key").value_or(""), "value");
  }
  EXPECT_EQ(Acquired(*pool)->Get("key").value_or(""), "value");
}

// --- What needs no server ----------------------------------------------------------------------------------

TEST(PoolOptions, OutOfBoundsAreRejected) {
  const SteadyClock clock;
  const auto rejected = [&](const char* address, const ClientPoolOptions& options, const char* why) {
    const absl::Status status = ClientPool::Create(address, {}, options, clock).status();
    EXPECT_CODE(kInvalidArgument, status);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(why));
  };
  rejected("local:///none", {.max_clients = 0}, "max_clients is 0; choose a number from 1 to 4096");
  rejected("local:///none", {.max_clients = 4097}, "max_clients is 4097");
  rejected("local:///none", {.acquire_timeout = milliseconds(-1)},
           "acquire_timeout is -1 ms; choose 0 or more");
  rejected("nowhere", {}, "nowhere");
  rejected("local:///none,tcp://", {}, "tcp://");
  EXPECT_CODE(kOk, ClientPool::Create("auto:local:///none,tcp://none:1", {}, {}, clock).status());
  EXPECT_CODE(kOk, ClientPool::Create("local:///none", {}, {.max_clients = 4096}, clock).status());
}

TEST(PoolOptions, NoServerIsSaidByAcquire) {
  const SteadyClock clock;
  const auto pool = *ClientPool::Create("local:///nowhere/at/all", {}, {.max_clients = 1}, clock);
  for (int i = 0; i < 3; ++i) EXPECT_CODE(kUnavailable, pool->Acquire().status());
  const auto none = *ClientPool::Create("local:///nowhere,local:///neither", {}, {.max_clients = 1}, clock);
  const absl::Status status = none->Acquire().status();
  EXPECT_CODE(kUnavailable, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/nowhere"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/neither"));
}

/// A clock of a program that wants its calls to end.
class InterruptedClock final : public Clock {
 public:
  TimePoint Now() const override { return machine_.Now(); }
  std::int64_t UnixMillis() const override { return machine_.UnixMillis(); }
  bool IsInterrupted() const override { return is_interrupted.load(); }
  Duration LongestSleep() const override { return milliseconds(1); }
  std::atomic<bool> is_interrupted = false;

 private:
  const SteadyClock machine_{};
};

TEST_P(Pools, EndAWaitThatIsInterrupted) {
  START();
  InterruptedClock clock;
  const auto pool =
      *ClientPool::Create([this](TimePoint) { return deployment_->Dial(); }, {}, {.max_clients = 1}, clock);
  Lease held = Acquired(*pool);
  std::thread waiter([&] { EXPECT_CODE(kCancelled, pool->TryAcquire(kLongWait).status()); });
  EXPECT_TRUE(Await([&] { return pool->counters().waiting == 1; }));
  clock.is_interrupted = true;
  waiter.join();
  clock.is_interrupted = false;
  held.Return();
  EXPECT_TRUE(Acquired(*pool, kNoWait));
}

}  // namespace
}  // namespace remora
