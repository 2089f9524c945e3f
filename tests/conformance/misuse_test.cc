// Mistakes of a program: they do not compile, or the error says what is wrong.
#include <atomic>
#include <chrono>
#include <coroutine>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "client/async_client.h"
#include "client/client.h"
#include "client/coroutine_client.h"
#include "rdma/transport.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

// A clock outlives whoever looks at it: a temporary does not.
template <typename Clock>
concept Dials = requires(Clock&& clock, const rdma::Address& address, const rdma::QueueLimits& limits) {
  rdma::Dial(address, limits, static_cast<Clock&&>(clock), TimePoint());
};
template <typename Clock>
concept Listens = requires(Clock&& clock, const rdma::Address& address, const rdma::QueueLimits& limits) {
  rdma::Listen(address, limits, static_cast<Clock&&>(clock));
};
static_assert(Dials<const SteadyClock&> && Listens<const SteadyClock&>);

template <typename... Arguments>
concept ClientTakes = requires(Arguments&&... arguments) {
  Client::Connect(static_cast<Arguments&&>(arguments)...);
};
template <typename... Arguments>
concept AsyncClientTakes = requires(Arguments&&... arguments) {
  AsyncClient::Connect(static_cast<Arguments&&>(arguments)...);
};
using OneConnection = std::unique_ptr<rdma::ClientConnection>;
static_assert(ClientTakes<const char*, ClientOptions, SteadyClock&>);
static_assert(!ClientTakes<const char*, ClientOptions, SteadyClock>);
static_assert(!ClientTakes<std::string_view, ClientOptions, SteadyClock>);
static_assert(!ClientTakes<Client::Dialer, ClientOptions, SteadyClock>);
static_assert(!ClientTakes<OneConnection, ClientOptions, SteadyClock>);
static_assert(AsyncClientTakes<const char*, ClientOptions, AsyncOptions, SteadyClock&>);
static_assert(!AsyncClientTakes<const char*, ClientOptions, AsyncOptions, SteadyClock>);
static_assert(!AsyncClientTakes<std::string_view, ClientOptions, AsyncOptions, SteadyClock>);
static_assert(!AsyncClientTakes<Client::Dialer, ClientOptions, AsyncOptions, SteadyClock>);
static_assert(!AsyncClientTakes<OneConnection, ClientOptions, AsyncOptions, SteadyClock>);
static_assert(!Dials<SteadyClock> && !Listens<SteadyClock>);

/// The machine's; but once it is to hold whoever looks at it next, until it is told to go on.
class HoldingClock final : public Clock {
 public:
  TimePoint Now() const override {
    Hold();
    return machine_.Now();
  }
  TimePoint Coarse() const override {
    Hold();
    return machine_.Coarse();
  }
  std::int64_t UnixMillis() const override { return machine_.UnixMillis(); }

  void HoldNext() { holds_ = true; }
  void AwaitHeld() const { held_.wait(false); }
  void GoOn() {
    goes_on_ = true;
    goes_on_.notify_all();
  }

 private:
  void Hold() const {
    if (!holds_.exchange(false)) return;
    held_ = true;
    held_.notify_all();
    goes_on_.wait(false);
  }

  const SteadyClock machine_{};
  mutable std::atomic<bool> holds_ = false;
  mutable std::atomic<bool> held_ = false;
  std::atomic<bool> goes_on_ = false;
};

class TwoThreads : public Behaviour {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  std::unique_ptr<rdma::ClientConnection> Dial() { return *deployment_->Dial(); }

  /// One thread is in the middle of a call, when another begins one.
  template <typename First, typename Second>
  void Collide(const First& first, const Second& second) {
    clock_.HoldNext();
    std::thread in_a_call(first);
    clock_.AwaitHeld();
    second();
    clock_.GoOn();
    in_a_call.join();
  }

  static constexpr char kSaid[] = "used by two threads at once.*a client of its own";
  HoldingClock clock_;
};

INSTANTIATE_TEST_SUITE_P(On, TwoThreads,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(TwoThreads, OfOneClientEndTheProcess) {
  START();
  const std::unique_ptr<Client> client = *Client::Connect(Dial(), {}, clock_);
  ASSERT_CODE(kOk, client->Put("key", "value"));
  const auto look = [&] { client->Exists("none").status().IgnoreError(); };
  EXPECT_DEATH(Collide(look, [&] { client->Get("key").status().IgnoreError(); }), kSaid);
  EXPECT_DEATH(Collide(look, [&] { client->Put("key", "value").IgnoreError(); }), kSaid);
  EXPECT_DEATH(Collide(look, [&] { client->Count().IgnoreError(); }), kSaid);
  const std::unique_ptr<ClientScan> scan = *client->Scan({.any_order = true});
  EXPECT_DEATH(Collide(look, [&] { scan->Next(); }), kSaid);
  std::byte memory[8];
  std::unique_ptr<RegisteredBuffer> buffer = *client->Register(memory);
  EXPECT_DEATH(Collide(look, [&] { buffer.reset(); }), kSaid);
}

TEST_P(TwoThreads, OfOneAsyncClientEndTheProcess) {
  START();
  const std::unique_ptr<AsyncClient> client = *AsyncClient::Connect(Dial(), {}, {}, clock_);
  const auto ping = [&] { client->Ping({}).IgnoreError(); };
  EXPECT_DEATH(Collide(ping, [&] { client->Poll(); }), kSaid);
  EXPECT_DEATH(Collide(ping, [&] { client->Get("key", {}).IgnoreError(); }), kSaid);
}

TEST_P(TwoThreads, ThatTakeTurnsMay) {
  START();
  const std::unique_ptr<Client> client = *Client::Connect(Dial(), {}, clock_);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { EXPECT_CODE(kOk, client->Put("key", std::to_string(i))); }).join();
    EXPECT_EQ(client->Get("key").value_or(""), std::to_string(i));
  }
}

// A callback is inside a call, and may call; the objects that it holds may be of the client, too.
TEST_P(TwoThreads, ACallbackIsNoSecondOne) {
  START();
  const std::unique_ptr<AsyncClient> client = *AsyncClient::Connect(Dial(), {}, {}, clock_);
  std::byte memory[8];
  bool ended = false;
  ASSERT_TRUE(client
                  ->Put("key", "value",
                        [&, buffer = *client->Register(memory)](const AsyncResult& put) {
                          EXPECT_CODE(kOk, put.status);
                          EXPECT_TRUE(client
                                          ->Get("key",
                                                [&](const AsyncResult& got) {
                                                  EXPECT_EQ(got.value, "value");
                                                  ended = true;
                                                })
                                          .ok());
                        })
                  .ok());
  EXPECT_CODE(kOk, client->WaitAll(clock_.Now() + std::chrono::seconds(60)));
  EXPECT_TRUE(ended);
}

// --- What outlives its client ---------------------------------------------------------------------------

class Outliving : public Behaviour {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  std::unique_ptr<Client> NewClient() {
    return *Client::Connect(*deployment_->Dial(), {}, deployment_->clock());
  }
  std::unique_ptr<AsyncClient> NewAsync() {
    return *AsyncClient::Connect(*deployment_->Dial(), {}, {}, deployment_->clock());
  }
  TimePoint Soon() { return deployment_->clock().Now() + std::chrono::seconds(60); }
};
INSTANTIATE_TEST_SUITE_P(On, Outliving,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp,
                                         DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Outliving, ScansAndWatchesSayThatTheirClientIsGone) {
  START({.durability = Durability::kLogged});
  for (const char* key : {"a", "b", "c"}) ASSERT_CODE(kOk, Put(key, "value"));
  std::unique_ptr<Client> client = NewClient();
  std::byte memory[8];
  const std::unique_ptr<RegisteredBuffer> buffer = *client->Register(memory);
  const std::unique_ptr<ClientScan> over = *client->Scan(), scan = *client->Scan();
  const std::unique_ptr<ClientWatch> watch = *client->Watch();
  while (over->Next()) continue;
  ASSERT_TRUE(scan->Next());
  const std::string scanned = scan->resume_token(), watched = watch->resume_token();
  ASSERT_CODE(kOk, Put("d", "value"));
  client.reset();

  EXPECT_FALSE(over->Next());
  EXPECT_CODE(kOk, over->status());
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(scan->Next());
    EXPECT_CODE(kFailedPrecondition, scan->status());
    EXPECT_THAT(std::string(scan->status().message()), testing::HasSubstr("client of this scan is gone"));
    const absl::Status gone = watch->Next(std::chrono::milliseconds(0)).status();
    EXPECT_CODE(kFailedPrecondition, gone);
    EXPECT_THAT(std::string(gone.message()), testing::HasSubstr("client of this watch is gone"));
  }
  EXPECT_EQ(scan->resume_token(), scanned);
  EXPECT_EQ(watch->resume_token(), watched);

  client = NewClient();
  EXPECT_CODE(kInvalidArgument, client->Get("a", *buffer).status());
  const std::unique_ptr<ClientScan> further = *client->Scan({.resume_token = scanned});
  ASSERT_TRUE(further->Next());
  EXPECT_EQ(further->key(), "b");
  const std::unique_ptr<ClientWatch> onward = *client->Watch({.resume_token = watched});
  ASSERT_TRUE(onward->Next(std::chrono::seconds(60)).value_or(false));
  EXPECT_EQ(onward->key(), "d");
}

TEST_P(Outliving, AnAsyncClientOutlivesItsOperationsAndBuffers) {
  START();
  std::unique_ptr<AsyncClient> client = NewAsync();
  std::byte memory[8];
  std::unique_ptr<RegisteredBuffer> buffer = *client->Register(memory);
  const auto put = [&] { client->Put("key", *buffer, {}, {}).status().IgnoreError(); };
  EXPECT_DEATH((put(), buffer.reset()), "RegisteredBuffer is destroyed while operations.* have it");
  const auto ping = [&](auto act) {
    client->Ping([&](const AsyncResult&) { act(); }).status().IgnoreError();
    client->WaitAll(Soon()).IgnoreError();
  };
  EXPECT_DEATH(ping([&] { client.reset(); }), "AsyncClient is destroyed by one of its callbacks");
  EXPECT_DEATH(ping([&] { client->Poll(); }), "a callback polls its own AsyncClient");
  const auto other = [&](auto act) { ping([&] { std::thread(act).join(); }); };
  EXPECT_DEATH(other([&] { client->Poll(); }), "AsyncClient is used by two threads at once");
  EXPECT_DEATH(other([&] { client.reset(); }), "AsyncClient is used by two threads at once");
}

Task<void> WaitForSomethingElse() { co_await std::suspend_always(); }

TEST_P(Outliving, TasksThatWaitForSomethingElseEndBeforeTheirClient) {
  START();
  const auto abandon = [&] {
    CoroutineClient kv(NewAsync());
    kv.Start(WaitForSomethingElse());
  };
  EXPECT_DEATH(abandon(), "tasks that it has started wait for something else than its operations");
}

}  // namespace
}  // namespace remora
