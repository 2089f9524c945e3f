// News of other threads, and the brief sleep of the server thread.
#include "server/wake_signals.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/patience.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora {
namespace {

using rdma::IsOk;

/// A listener with one client.
class WakeSignalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const rdma::Address where = {
        .kind = rdma::TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
    auto listener = rdma::Listen(where, {}, clock_);
    ASSERT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
    auto client = rdma::Dial(where, {}, clock_, TimePoint::max());
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
    const std::jthread connecting(
        [this] { EXPECT_THAT(client_->Connect({}, clock_.Now() + std::chrono::minutes(1)), IsOk()); });
    listener_->Arm();  // it looks at the sockets each time
    while (server_ == nullptr) server_ = listener_->NextRequest();
    listener_->Disarm();
    ASSERT_THAT(server_->Accept({}), IsOk());
    auto signals = WakeSignals::Create();
    ASSERT_THAT(signals, IsOk());
    signals_ = *std::move(signals);
  }

  const SteadyClock clock_ = {};
  rdma::TemporaryFolder folder_;
  std::unique_ptr<rdma::Listener> listener_;
  std::unique_ptr<rdma::ServerConnection> server_;
  std::unique_ptr<rdma::ClientConnection> client_;
  std::unique_ptr<WakeSignals> signals_;
};

TEST_F(WakeSignalsTest, NewsBehindTheLastLookPreventABriefSleep) {
  ASSERT_TRUE(listener_->ArmBriefly());
  const std::uint32_t seen = signals_->news();
  signals_->ReportSynced();
  EXPECT_TRUE(signals_->SleepBriefly(*listener_, seen, std::chrono::seconds(1)));
  listener_->Disarm();
}

TEST_F(WakeSignalsTest, NewsEndABriefSleep) {
  const auto tells = {&WakeSignals::Wake, &WakeSignals::ReportSynced, &WakeSignals::RequestReload,
                      &WakeSignals::Stop};
  for (const auto tell : tells) {
    ASSERT_TRUE(listener_->ArmBriefly());
    const std::uint32_t seen = signals_->news();
    const std::jthread teller([this, tell] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely the other one sleeps by then
      (*signals_.*tell)();
    });
    ASSERT_TRUE(signals_->SleepBriefly(*listener_, seen, Patience(std::chrono::minutes(1))));
    listener_->Disarm();
  }
  EXPECT_TRUE(signals_->stopped());
}

TEST_F(WakeSignalsTest, ABriefSleepEndsWithoutNews) {
  ASSERT_TRUE(listener_->ArmBriefly());
  EXPECT_FALSE(signals_->SleepBriefly(*listener_, signals_->news(), std::chrono::milliseconds(1)));
  listener_->Disarm();
}

// A word that is used behind the sleep may have ended with its connection.
TEST_F(WakeSignalsTest, NewsBehindABriefSleepLeaveItsWordAlone) {
  ASSERT_TRUE(listener_->ArmBriefly());
  const std::atomic<std::uint32_t>* const word = listener_->brief_word();
  EXPECT_FALSE(signals_->SleepBriefly(*listener_, signals_->news(), std::chrono::milliseconds(1)));
  const std::uint32_t count = word->load();
  signals_->Wake();
  EXPECT_EQ(word->load(), count);
  listener_->Disarm();
}

TEST_F(WakeSignalsTest, NewsMayComeAllTheTime) {
  std::atomic<bool> is_over = false;
  const std::jthread teller([&] {
    while (!is_over) signals_->Wake();
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(listener_->ArmBriefly());
    signals_->SleepBriefly(*listener_, signals_->news(), std::chrono::microseconds(50));
    listener_->Disarm();
  }
  server_ = nullptr;  // its word with it
  is_over = true;
}

}  // namespace
}  // namespace remora
