// Coroutines, and an event loop of somebody else's, over an AsyncClient.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "client/coroutine_client.h"
#include "tests/conformance/async_fixture.h"

namespace remora {
namespace {

class AsyncTask : public Async {
 protected:
  void ConnectTasks(const AsyncOptions& async = {}) {
    tasks_ = std::make_unique<CoroutineClient>(NewAsync(async));
  }
  void Run() {
    const absl::Status run = tasks_->Run(Soon());
    ASSERT_TRUE(run.ok()) << run;
    EXPECT_EQ(tasks_->running(), 0u);
  }

  std::unique_ptr<CoroutineClient> tasks_;
};
INSTANTIATE_TEST_SUITE_P(On, AsyncTask,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

// --- Coroutines -----------------------------------------------------------------------------------------

Task<void> EachOperation(CoroutineClient& kv, bool& done) {
  EXPECT_CODE(kOk, co_await kv.Put("a", "1"));
  std::uint64_t version = 0;
  const absl::StatusOr<std::string> got = co_await kv.Get("a", &version);
  EXPECT_EQ(got.value_or("nothing"), "1");
  PutOptions same;
  same.condition = Condition::Version(version);
  EXPECT_CODE(kOk, co_await kv.Put("a", "2", same));
  EXPECT_CODE(kFailedPrecondition, co_await kv.Put("a", "3", same));
  EXPECT_TRUE((co_await kv.Exists("a")).value_or(false));
  EXPECT_FALSE((co_await kv.Exists("b")).value_or(true));
  EXPECT_EQ((co_await kv.Increment("a", 40)).value_or(0), 42);
  EXPECT_EQ((co_await kv.Append("a", "!")).value_or(0), 3u);
  EXPECT_CODE(kOk, co_await kv.Touch("a", std::chrono::hours(1)));
  const auto left = co_await kv.Ttl("a");
  EXPECT_TRUE(left.ok() && left->has_value());
  EXPECT_CODE(kOk, co_await kv.Persist("a"));
  WriteBatch batch;
  batch.Put("x", "1");
  EXPECT_CODE(kOk, co_await kv.Apply(batch));
  EXPECT_CODE(kOk, co_await kv.Delete("x"));
  EXPECT_CODE(kNotFound, co_await kv.Delete("x"));
  EXPECT_CODE(kInvalidArgument, co_await kv.Put("", "v"));
  EXPECT_CODE(kInvalidArgument, (co_await kv.Get("")).status());
  EXPECT_CODE(kNotFound, (co_await kv.Get("none")).status());
  done = true;
}

TEST_P(AsyncTask, AwaitsEachOperation) {
  START();
  ConnectTasks();
  bool done = false;
  tasks_->Start(EachOperation(*tasks_, done));
  EXPECT_EQ(tasks_->running(), 1u);
  Run();
  EXPECT_TRUE(done);
}

// Optimistic: a transaction of one key.
Task<absl::Status> AddOne(CoroutineClient& kv, std::string key, int& tries) {
  for (;;) {
    std::uint64_t version = 0;
    const absl::StatusOr<std::string> value = co_await kv.Get(key, &version);
    if (!value.ok()) co_return value.status();
    ++tries;
    PutOptions if_same;
    if_same.condition = Condition::Version(version);
    const absl::Status put = co_await kv.Put(key, std::to_string(std::stoi(*value) + 1), if_same);
    if (!absl::IsFailedPrecondition(put)) co_return put;
  }
}
Task<void> AddMany(CoroutineClient& kv, int times, int& tries) {
  for (int i = 0; i < times; ++i) {
    const absl::Status added = co_await AddOne(kv, "counter", tries);
    EXPECT_TRUE(added.ok()) << added;
  }
}

TEST_P(AsyncTask, TasksThatContendMakeProgress) {
  START();
  ConnectTasks();
  ASSERT_CODE(kOk, Put("counter", "0"));
  int tries = 0;
  constexpr int kTasks = 8, kTimes = 20;
  for (int i = 0; i < kTasks; ++i) tasks_->Start(AddMany(*tasks_, kTimes, tries));
  Run();
  EXPECT_EQ(Get("counter"), std::to_string(kTasks * kTimes));
  EXPECT_GE(tries, kTasks * kTimes);
}

Task<void> PutAndGet(CoroutineClient& kv, int number, int& ended) {
  const std::string key = "key " + std::to_string(number);
  EXPECT_CODE(kOk, co_await kv.Put(key, "value of " + key));
  EXPECT_EQ((co_await kv.Get(key)).value_or("nothing"), "value of " + key);
  ++ended;
}

// More tasks than there is space for: they wait for it, and nobody is rejected.
TEST_P(AsyncTask, ThousandsAtADepthOfFew) {
  START();
  ConnectTasks({.depth = 4});
  const int count = slow() ? 300 : 5000;
  int ended = 0;
  for (int i = 0; i < count; ++i) tasks_->Start(PutAndGet(*tasks_, i, ended));
  EXPECT_EQ(tasks_->running(), static_cast<std::size_t>(count));
  Run();
  EXPECT_EQ(ended, count);
}

Task<void> PutUntilItFails(CoroutineClient& kv, absl::Status& last) {
  for (int i = 0;; ++i) {
    last = co_await kv.Put("key", std::to_string(i));
    if (!last.ok()) co_return;
  }
}

TEST_P(AsyncTask, TheClientsEndIsTheTasks) {
  START();
  ConnectTasks({.depth = 2});
  std::array<absl::Status, 10> last;
  for (absl::Status& status : last) tasks_->Start(PutUntilItFails(*tasks_, status));
  for (int i = 0; i < 100; ++i) tasks_->Poll();
  tasks_.reset();
  for (const absl::Status& status : last) EXPECT_FALSE(status.ok());
}

TEST_P(AsyncTask, TheServersEndIsTheTasks) {
  START();
  ConnectTasks({.depth = 2});
  std::array<absl::Status, 10> last;
  for (absl::Status& status : last) tasks_->Start(PutUntilItFails(*tasks_, status));
  deployment_->Stop();
  Run();
  for (const absl::Status& status : last) EXPECT_CODE(kUnavailable, status);
}

TEST_P(AsyncTask, ATaskThatIsNeverStartedDoesNothing) {
  START();
  ConnectTasks();
  bool done = false;
  { const Task<void> dropped = EachOperation(*tasks_, done); }
  EXPECT_FALSE(done);
  EXPECT_CODE(kOk, tasks_->Run(Soon()));
}

// --- An event loop --------------------------------------------------------------------------------------

class EpollLoop {
 public:
  explicit EpollLoop(AsyncClient& client) : client_(client), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN;
    EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, client.fd(), &event), 0);
  }
  ~EpollLoop() { close(epoll_); }

  /// Sleeps, if `before_sleep` says that something will come; false: nobody woke it for a minute.
  template <typename BeforeSleep>
  bool Turn(BeforeSleep before_sleep) {
    client_.Arm();
    client_.Poll();
    const bool to_be_woken = before_sleep();
    epoll_event event{};
    const int woken = to_be_woken ? epoll_wait(epoll_, &event, 1, 60'000) : 1;
    client_.Disarm();
    client_.Poll();
    return woken == 1;
  }
  /// Returns true if the descriptor is readable now.
  bool IsReadable() {
    epoll_event event{};
    return epoll_wait(epoll_, &event, 1, 0) == 1;
  }

 private:
  AsyncClient& client_;
  const int epoll_;
};

TEST_P(AsyncTask, NoWakeUpOfAnEventLoopIsLost) {
  START();
  ConnectAsync({.depth = 8});
  EpollLoop loop(*async_);
  std::mt19937 random(11);
  const std::size_t total = slow() ? 1000 : 10'000;
  std::size_t begun = 0;
  std::size_t ended = 0;
  const auto begin_some = [&] {
    for (auto some = random() % 4; some > 0 && begun < total && async_->free_slots() > 0; --some, ++begun) {
      const auto done = [&ended](const AsyncResult& result) {
        EXPECT_TRUE(result.status.ok() || absl::IsNotFound(result.status) || absl::IsCancelled(result.status))
            << result.status;
        ++ended;
      };
      const std::string key = std::to_string(random() % 100);
      const AsyncClient::Begun one =
          random() % 2 == 0 ? async_->Get(key, done) : async_->Put(key, "value", done);
      ASSERT_TRUE(one.ok()) << one.status();
      // Now and then, somebody loses patience.
      if (random() % 8 == 0) {
        EXPECT_TRUE(async_->Cancel(*one));
      }
    }
  };
  while (begun < total || async_->in_flight() > 0) {
    // Some are begun while the loop is armed, as by another of its tasks.
    if (random() % 2 == 0) begin_some();
    if (async_->in_flight() == 0) continue;
    const bool woken = loop.Turn([&] {
      begin_some();
      return async_->in_flight() > 0;
    });
    ASSERT_TRUE(woken) << ended << " of " << begun;
  }
  EXPECT_EQ(ended, total);
}

TEST_P(AsyncTask, ADescriptorSeesTheServersEndAndThenRests) {
  START();
  ConnectAsync();
  EpollLoop loop(*async_);
  deployment_->Stop();
  while (async_->status().ok()) ASSERT_TRUE(loop.Turn([&] { return async_->status().ok(); }));
  EXPECT_CODE(kUnavailable, async_->status());
  EXPECT_FALSE(loop.IsReadable());
}

}  // namespace
}  // namespace remora
