// Sleeps over the local transport (A4 of rdma/local/wire.h): brief ones of a server, and those of a client in
// an event loop.
#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rdma/local/futex.h"
#include "rdma/local/polled_connections.h"
#include "tests/support/patience.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

// Ended before it begins, a sleep takes no time. So the pass of a test does not depend on this.
constexpr std::chrono::seconds kLong(1);

class LocalSleepTest : public ::testing::Test {
 protected:
  LocalSleepTest() {
    const Address where = {
        .kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
    auto service = ServiceThread::Start(where, {}, clock_);
    EXPECT_THAT(service, IsOk());
    service_ = *std::move(service);
  }

  void Open(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto client = Client::Open(service_->address(), clock_);
      ASSERT_THAT(client, IsOk());
      clients_.push_back(*std::move(client));
    }
  }
  /// Has `task` run on the service's thread, which is not in its loop meanwhile.
  void AtService(const std::function<void(Service&, Listener&)>& task) {
    service_->Do([&task](Service& service) { task(service, service.listener()); });
  }
  static absl::Status Send(Client& client) { return client.Send(CommandText(ServiceOp::kEcho)); }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  std::unique_ptr<ServiceThread> service_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_F(LocalSleepTest, AMessageBehindTheLastLookEndsIt) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
    Open(count - clients_.size());
    for (const auto& client : clients_) {
      AtService([&](Service& service, Listener& listener) {
        ASSERT_TRUE(listener.ArmBriefly());
        service.WorkTimes(1);
        ASSERT_THAT(Send(*client), IsOk());
        ASSERT_NE(listener.brief_word(), nullptr);
        EXPECT_TRUE(listener.SleepBriefly(kLong));
        listener.Disarm();
      });
    }
  }
}

TEST_F(LocalSleepTest, AMessageEndsItWhileTheServerSleeps) {
  Open(2);
  for (const auto& client : clients_) {
    AtService([&](Service& service, Listener& listener) {
      ASSERT_TRUE(listener.ArmBriefly());
      service.WorkTimes(1);
      std::jthread sender([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely it sleeps by then
        EXPECT_THAT(Send(*client), IsOk());
      });
      EXPECT_TRUE(listener.SleepBriefly(Patience(kPatience)));
      listener.Disarm();
    });
  }
}

TEST_F(LocalSleepTest, TheWordEndsIt) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}}) {
    Open(count - clients_.size());
    AtService([&](Service& service, Listener& listener) {
      ASSERT_TRUE(listener.ArmBriefly());
      service.WorkTimes(1);
      FutexNotify(*listener.brief_word());
      EXPECT_TRUE(listener.SleepBriefly(kLong));
      listener.Disarm();
    });
  }
}

TEST_F(LocalSleepTest, ItEndsByItself) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}}) {
    Open(count - clients_.size());
    AtService([&](Service& service, Listener& listener) {
      ASSERT_TRUE(listener.ArmBriefly());
      service.WorkTimes(1);
      EXPECT_FALSE(listener.SleepBriefly(std::chrono::milliseconds(1)));
      listener.Disarm();
    });
  }
}

// Behind a brief sleep, the client sends a byte again.
TEST_F(LocalSleepTest, ASleepAtTheSocketFollows) {
  Open(1);
  AtService([&](Service& service, Listener& listener) {
    ASSERT_TRUE(listener.ArmBriefly());
    service.WorkTimes(1);
    EXPECT_FALSE(listener.SleepBriefly(std::chrono::milliseconds(1)));
    listener.Disarm();
  });
  ASSERT_TRUE(service_->AwaitSleep());
  const std::string message = CommandText(ServiceOp::kEcho, 7);
  EXPECT_EQ(clients_.front()->Call(message).value_or(""), message);
}

TEST_F(LocalSleepTest, WithoutClientsThereIsNone) {
  AtService([](Service&, Listener& listener) { EXPECT_FALSE(listener.ArmBriefly()); });
}

TEST_F(LocalSleepTest, WithManyClientsThereIsNone) {
  Open(PolledConnections::kAlwaysPolled);
  AtService([](Service&, Listener& listener) { EXPECT_FALSE(listener.ArmBriefly()); });
}

// A parked client sends a byte, which would not end the sleep.
TEST_F(LocalSleepTest, BesideAParkedConnectionThereIsNone) {
  Open(2 * PolledConnections::kAlwaysPolled);
  AtService([](Service& service, Listener&) { service.WorkTimes(2 * PolledConnections::kIdlePolls); });
  clients_.resize(4);
  ASSERT_TRUE(service_->Await([](Service& service) { return service.session_count() == 4; }));
  // The first one was idle for the longest time, so it is parked. The last one is polled.
  const std::string message = CommandText(ServiceOp::kEcho, 7);
  EXPECT_EQ(clients_.back()->Call(message).value_or(""), message);
  AtService([](Service&, Listener& listener) { EXPECT_FALSE(listener.ArmBriefly()); });
  // While the clients connected slowly, others may have been idle for as long.
  for (const auto& client : clients_) EXPECT_EQ(client->Call(message).value_or(""), message);
  AtService([](Service&, Listener& listener) {
    EXPECT_TRUE(listener.ArmBriefly());
    listener.Disarm();
  });
}

TEST_F(LocalSleepTest, AClientThatComesBehindTheArmingPreventsIt) {
  Open(1);
  AtService([&](Service& service, Listener& listener) {
    ASSERT_TRUE(listener.ArmBriefly());
    std::jthread opener([this] { Open(1); });
    while (service.session_count() < 2) service.WorkTimes(1);
    EXPECT_EQ(listener.brief_word(), nullptr);
    listener.Disarm();
  });
}

TEST_F(LocalSleepTest, AClientThatGoesBehindTheArmingPreventsIt) {
  Open(2);
  AtService([&](Service& service, Listener& listener) {
    ASSERT_TRUE(listener.ArmBriefly());
    clients_.pop_back();
    while (service.session_count() > 1) service.WorkTimes(1);
    EXPECT_EQ(listener.brief_word(), nullptr);
    listener.Disarm();
  });
}

// The client may write the word at any time. The sleep then ends, and nothing else comes of it.
TEST_F(LocalSleepTest, AnEndWithoutAMessageHarmsNobody) {
  Open(2);
  for (int i = 0; i < 100; ++i) {
    AtService([&](Service& service, Listener& listener) {
      ASSERT_TRUE(listener.ArmBriefly());
      service.WorkTimes(1);
      FutexNotify(*listener.brief_word());
      EXPECT_TRUE(listener.SleepBriefly(kLong));
      listener.Disarm();
      service.WorkTimes(1);
    });
  }
  const std::string message = CommandText(ServiceOp::kEcho, 7);
  for (const auto& client : clients_) EXPECT_EQ(client->Call(message).value_or(""), message);
}

// The server sends one byte for each sleep of a client. A client that took it between Arm and Disarm would
// sleep on while later messages come.
TEST_F(LocalSleepTest, APollLeavesTheByteThatWakesTheClient) {
  Open(1);
  Client& client = *clients_.front();
  client.connection().Arm();
  while (client.Poll() > 0) {
  }
  ASSERT_THAT(Send(client), IsOk());
  pollfd fd = {client.connection().wait_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&fd, 1, 60'000), 1);
  for (int i = 0; i < 10'000; ++i)
    client.Poll();  // a client that is not armed looks at its socket now and then
  EXPECT_EQ(client.receive_count(), 1u);
  EXPECT_EQ(poll(&fd, 1, 0), 1);
  client.connection().Disarm();
  EXPECT_EQ(poll(&fd, 1, 0), 0);
}

}  // namespace
}  // namespace remora::rdma
