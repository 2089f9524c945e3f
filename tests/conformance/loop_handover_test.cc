// The event loop in the hands of a transport's threads (server/loop_handover.h).
#include "server/loop_handover.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma/transport.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

/// A loop whose only work is to count its turns, with a variable that L1 alone protects.
class CountingLoop final : public LoopHandover::Loop {
 public:
  void ServeForSleeper(rdma::Listener&) override { Turn(); }
  void Turn() {
    is_alone_ = is_alone_ && !is_running_;
    is_running_ = true;
    const std::uint64_t turns = turns_;
    for (int i = 0; i < 100; ++i) is_running_ = true;
    turns_ = turns + 1;
    is_running_ = false;
  }
  std::uint64_t turns() const { return turns_; }
  bool is_alone() const { return is_alone_; }

 private:
  std::uint64_t turns_ = 0;
  volatile bool is_running_ = false;  // so that each store takes its time
  bool is_alone_ = true;
};

TEST(LoopHandoverTest, OneThreadAtATimeRunsTheLoop) {
  constexpr std::uint64_t kTurns = 1'000;  // of the owner, and of the others at least
  const SteadyClock clock;
  const auto listener =
      rdma::Listen({.kind = rdma::TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""},
                   {.sends = 1, .receives = 1, .reads = 1}, clock);
  ASSERT_TRUE(listener.ok()) << listener.status();
  LoopHandover handover;
  CountingLoop loop;
  EXPECT_FALSE(handover.TryServe(**listener)) << "the server thread has the loop at first";
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!is_over.load()) served += handover.TryServe(**listener) ? 1 : 0;
    });
  }
  std::uint64_t own = 0;
  while (own < kTurns || served.load() < kTurns) {
    loop.Turn();
    ++own;
    handover.Give(loop);
    std::this_thread::sleep_for(std::chrono::microseconds(1));
    handover.TakeBack();
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(loop.is_alone());
  EXPECT_EQ(loop.turns(), own + served.load());
  EXPECT_FALSE(handover.TryServe(**listener)) << "the server thread has it again";
}

/// Servers that listen at TCP, whose threads may serve requests.
class Handover : public Behaviour {
 protected:
  std::uint64_t served() { return store().Read(Metric::kTcpServed); }
  /// Puts the key until a thread of the transport has served a put.
  template <typename PutOnce>
  void PutUntilServed(const PutOnce& put) {
    const TimePoint deadline = deployment_->clock().Now() + std::chrono::seconds(60);
    const std::uint64_t before = served();
    do {
      put();
    } while (served() == before && deployment_->clock().Now() < deadline);
    ASSERT_GT(served(), before);
  }
};

INSTANTIATE_TEST_SUITE_P(On, Handover, ::testing::Values(DeploymentKind::kTcp, DeploymentKind::kTls),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Handover, AThreadOfTheTransportServesWhileTheServerSleeps) {
  START();
  int puts = 0;
  PutUntilServed([&] { ASSERT_CODE(kOk, Put("key", "value " + std::to_string(++puts))); });
  EXPECT_EQ(Get("key"), "value " + std::to_string(puts));
  // The server thread goes on with the same loop.
  ASSERT_CODE(kOk, Put("key", "last"));
  EXPECT_EQ(Get("key"), "last");
}

// The server thread sleeps until it probes its clients, some seconds. The key expires before.
TEST_P(Handover, TheServerWakesForWorkThatAnotherThreadHasCaused) {
  START();
  const TimePoint deadline = deployment_->clock().Now() + std::chrono::seconds(60);
  const auto expired = [&] { return store().Read(Metric::kExpired); };
  bool was_served = false;
  while (!was_served && deployment_->clock().Now() < deadline) {
    const std::uint64_t served_before = served(), expired_before = expired();
    const std::uint64_t wakeups = store().Read(Metric::kWakeups);
    ASSERT_CODE(kOk, kv_->Put("key", "value", {.ttl = std::chrono::milliseconds(100)}));
    while (expired() == expired_before && deployment_->clock().Now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(expired(), expired_before + 1);
    was_served = served() > served_before;
    // A server thread that was awake for the put sleeps until the expiry by itself, and is not woken for it.
    if (was_served) {
      EXPECT_GT(store().Read(Metric::kWakeups), wakeups);
    }
  }
  EXPECT_TRUE(was_served);
}

}  // namespace
}  // namespace remora
