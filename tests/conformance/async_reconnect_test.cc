// An AsyncClient whose server goes, and comes back, over every transport.
#include <poll.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/async_fixture.h"

namespace remora {
namespace {

class AsyncReconnect : public Async {
 protected:
  void Connect(const AsyncOptions& async = {}) {
    auto client = AsyncClient::Connect([this](TimePoint) { return deployment_->Dial(); }, {}, async,
                                       deployment_->clock());
    ASSERT_TRUE(client.ok()) << client.status();
    async_ = *std::move(client);
  }
  void RestartBelow() {
    const absl::Status restarted = deployment_->Restart();
    ASSERT_TRUE(restarted.ok()) << restarted;
  }
};

INSTANTIATE_TEST_SUITE_P(On, AsyncReconnect,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AsyncReconnect, OperationsGoOnWithALoggedServerThatWasRestarted) {
  START({.durability = Durability::kLogged});
  Connect();
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  RestartBelow();
  EXPECT_EQ(AsyncGet("key").text(), "value");
  EXPECT_EQ(async_->counters().reconnects, 1u);
  RestartBelow();
  EXPECT_OUTCOME(kOk, AsyncPut("key", "other"));
  EXPECT_EQ(async_->counters().reconnects, 2u);
  EXPECT_EQ(AsyncGet("key").text(), "other");
}

TEST_P(AsyncReconnect, OperationsInFlightAreDoneOnce) {
  START({.durability = Durability::kLogged});
  Connect({.depth = 64});
  const int rounds = slow() ? 3 : 10;
  std::int64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Outcome> sums(20), reads(20);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_TRUE(async_->Increment("sum", 1, Into(sums[i])).ok());
      ASSERT_TRUE(async_->Get("sum", Into(reads[i])).ok());
      if (i % 7 == static_cast<std::size_t>(round % 7)) async_->Poll();
    }
    RestartBelow();
    WaitAll();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_OUTCOME(kOk, sums[i]);
      EXPECT_EQ(sums[i].number, ++sum);
      EXPECT_TRUE(reads[i].status.ok() || absl::IsNotFound(reads[i].status)) << reads[i].status;
    }
  }
  EXPECT_EQ(AsyncGet("sum").text(), std::to_string(sum));
}

TEST_P(AsyncReconnect, AnEventLoopIsWokenBothTimes) {
  START({.durability = Durability::kLogged});
  Connect();
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  RestartBelow();
  Outcome got;
  ASSERT_TRUE(async_->Get("key", Into(got)).ok());
  while (got.calls == 0) {
    async_->Arm();
    async_->Poll();
    if (got.calls == 0) {
      const auto due = async_->next_deadline();
      ASSERT_TRUE(due.has_value());
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - async_->clock().Now());
      pollfd sleep{.fd = async_->fd(), .events = POLLIN, .revents = 0};
      ASSERT_GE(poll(&sleep, 1, std::max(0, static_cast<int>(left.count()))), 0);
    }
    async_->Disarm();
    async_->Poll();
  }
  EXPECT_EQ(got.text(), "value");
}

TEST_P(AsyncReconnect, AnotherThreadMakesTheAttempt) {
  START({.durability = Durability::kLogged});
  Connect();
  EXPECT_FALSE(async_->BeginReconnect());
  EXPECT_OUTCOME(kOk, AsyncPut("key", "value"));
  std::vector<std::byte> memory(100);
  auto buffer = async_->Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  RestartBelow();
  Outcome got, into;
  ASSERT_TRUE(async_->Get("key", Into(got)).ok());
  const AsyncClient::Begun reading = async_->Get("key", **buffer, Into(into));
  ASSERT_TRUE(reading.ok()) << reading.status();
  while (async_->status().ok()) async_->Poll();
  async_->Poll();
  EXPECT_FALSE(async_->status().ok());  // Poll makes no attempt
  ASSERT_TRUE(async_->BeginReconnect());
  EXPECT_FALSE(async_->BeginReconnect());
  std::thread attempt;
  if (deployment_->concurrent()) attempt = std::thread([this] { async_->Reconnect(); });
  // Meanwhile, all else goes on.
  EXPECT_TRUE(async_->Cancel(*reading));
  async_->Poll();
  EXPECT_OUTCOME(kCancelled, into);
  std::vector<Outcome> sums(50);
  for (Outcome& sum : sums) {
    ASSERT_TRUE(async_->Increment("sum", 1, Into(sum)).ok());
    async_->Poll();
    EXPECT_EQ(sum.calls, 0);
  }
  if (attempt.joinable()) {
    attempt.join();
  } else {
    async_->Reconnect();
  }
  async_->EndReconnect();
  WaitAll();
  EXPECT_EQ(got.text(), "value");
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i].number, static_cast<std::int64_t>(i) + 1);
  EXPECT_EQ(async_->counters().reconnects, 1u);
}

}  // namespace
}  // namespace remora
