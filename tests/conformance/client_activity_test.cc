// The requests of each client of a server (server/monitoring/client_activity.h).
#include "server/monitoring/client_activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "rdma/address.h"
#include "store/base/clock.h"
#include "store/format/memory/metric_registry.h"
#include "store/options.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

// No reader sees a mixture of two clients.
TEST(ClientActivitiesTest, APlaceThatChangesHandsIsOfOneClient) {
  ClientActivities activities(1);
  std::atomic<bool> ends = false;
  std::thread reader([&] {
    while (!ends) {
      for (const ClientActivity& client : activities.Read()) {
        EXPECT_EQ(static_cast<std::uint64_t>(client.since_unix_ms), client.number);
        EXPECT_EQ(client.bytes % client.number, 0u) << client.number;
      }
    }
  });
  for (std::int64_t number = 1; number <= 20'000; ++number) {
    ClientActivities::Place* const place = activities.Begin(Metric::kConnectionsLocal, number);
    for (int i = 0; i < 3; ++i) place->Count(static_cast<std::uint64_t>(number));
    activities.End(place);
  }
  ends = true;
  reader.join();
}

// Its requests, with the bytes of their keys and values, and no read in place.
TEST(ClientActivitiesTest, AClientIsCountedWhileItIsConnected) {
  const TempDir dir;
  const SteadyClock clock;
  ServerOptions options;
  options.store.memory_size = kMinMemorySize;
  auto started = ServerThread::Start(options, FreshAddress(rdma::TransportKind::kLocal, dir.path()));
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<ServerThread> server = *std::move(started);
  const ClientActivities& activities = server->server().activities();
  EXPECT_TRUE(activities.Read().empty());
  {
    const auto idle = Client::Connect(server->address());
    const auto busy = Client::Connect(server->address());
    ASSERT_TRUE(idle.ok() && busy.ok());
    for (int i = 0; i < 7; ++i) ASSERT_TRUE((*busy)->Put("key", std::string(100, 'v')).ok());
    for (int i = 0; i < 50; ++i) ASSERT_TRUE((*busy)->Get("key").ok());
    std::vector<ClientActivity> clients = activities.Read();
    ASSERT_EQ(clients.size(), 2u);
    std::ranges::sort(clients, {}, &ClientActivity::number);
    EXPECT_EQ(clients[0].number, 1u);
    EXPECT_EQ(clients[0].requests, 0u);
    EXPECT_EQ(clients[1].number, 2u);
    EXPECT_EQ(clients[1].transport, Metric::kConnectionsLocal);
    EXPECT_EQ(clients[1].requests, 7u);
    EXPECT_EQ(clients[1].bytes, 7u * 103);
    EXPECT_LE(clients[0].since_unix_ms, clients[1].since_unix_ms);
  }
  const TimePoint deadline = clock.Now() + std::chrono::seconds(60);
  while (!activities.Read().empty() && clock.Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(activities.Read().empty());
}

}  // namespace
}  // namespace remora
