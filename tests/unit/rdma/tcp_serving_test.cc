// Requests over tcp:// while the server thread sleeps: a NIC thread serves them, or wakes it.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

class TcpServingTest : public ::testing::Test {
 protected:
  /// Starts a service whose NIC thread calls `serve`.
  void StartService(const std::function<bool()>& serve) {
    auto service = ServiceThread::Start(
        {.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""}, QueueLimits(), clock_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
    service_->Do([&](Service& running) { running.ServeBy(serve); });
    auto client = Client::Open(service_->address(), clock_);
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
  }

  const SteadyClock clock_ = {};
  std::atomic<int> asked_ = 0;  // calls of `serve`, as long as the service lives
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<Client> client_;
};

TEST_F(TcpServingTest, AThreadThatMayNotServeARequestWakesTheServer) {
  ASSERT_NO_FATAL_FAILURE(StartService([this] { return ++asked_ == 0; }));
  for (int i = 0; i < 1000 && asked_.load() == 0; ++i) {
    ASSERT_TRUE(service_->AwaitSleep());
    ASSERT_THAT(client_->Send(CommandText(ServiceOp::kEcho)), IsOk());
    // Shorter than the patience of Receive: a fault is to show soon.
    const TimePoint deadline = clock_.Now() + std::chrono::seconds(15);
    std::size_t came = 0;  // the end of the send, and the echo
    while (came < 2 && clock_.Now() < deadline) came += client_->Poll();
    ASSERT_EQ(came, 2u);
    ASSERT_THAT(client_->Receive(), IsOk());
  }
  EXPECT_GT(asked_.load(), 0);
}

TEST_F(TcpServingTest, AThreadThatServesARequestWakesNobody) {
  ASSERT_NO_FATAL_FAILURE(StartService([this] { return ++asked_ > 0; }));
  std::uint64_t before = 0, after = 0;
  service_->Do([&](Service& service) { before = service.wake_ups(); });
  ASSERT_TRUE(service_->AwaitSleep());
  ASSERT_THAT(client_->Send(CommandText(ServiceOp::kEcho)), IsOk());
  const TimePoint deadline = clock_.Now() + kPatience;
  while (asked_.load() == 0 && clock_.Now() < deadline) std::this_thread::yield();
  ASSERT_EQ(asked_.load(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // The function has served nothing. So the service finds the message now, and was not woken for it.
  service_->Do([&](Service& service) { after = service.wake_ups(); });
  EXPECT_EQ(after, before);
  EXPECT_THAT(client_->Receive(), IsOk());
}

}  // namespace
}  // namespace remora::rdma
