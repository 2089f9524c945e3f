// Long messages of a server to a client that takes none (ServerConnection::TakesLong).
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "rdma/transport.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

TEST(LocalLongMessagesTest, LeaveSpaceForShortOnes) {
  const SteadyClock clock;
  const TemporaryFolder folder;
  const Address where = {
      .kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder.path() / "socket"};
  const auto listener = Listen(where, {}, clock);
  ASSERT_THAT(listener, IsOk());
  const TimePoint deadline = clock.Now() + std::chrono::minutes(1);
  std::unique_ptr<ClientConnection> client;
  std::thread connecting([&] {
    auto dialed = Dial(where, {}, clock, deadline);
    ASSERT_THAT(dialed, IsOk());
    client = *std::move(dialed);
    EXPECT_THAT(client->Connect({}, deadline), IsOk());
  });
  std::unique_ptr<ServerConnection> server;
  while (server == nullptr && clock.Now() < deadline) server = (*listener)->NextRequest();
  if (server != nullptr) {
    EXPECT_THAT(server->Accept({}), IsOk());
  }
  connecting.join();
  ASSERT_NE(server, nullptr);

  constexpr std::size_t kLong = 4144;
  std::array<std::byte, kLong> message{};
  const auto from = server->RegisterMessages(message);
  ASSERT_THAT(from, IsOk());
  const auto send = [&](std::size_t size) {
    const absl::Status sent = server->PostSend(1, MakeSge(**from, 0, size));
    std::array<Completion, 4> completions;
    while ((*listener)->Poll(completions) > 0) {
    }
    return sent;
  };
  int long_ones = 0;
  for (; long_ones < 1000 && server->TakesLong(kLong); ++long_ones) ASSERT_THAT(send(kLong), IsOk());
  EXPECT_GT(long_ones, 0);
  EXPECT_LT(long_ones, 1000);
  for (std::uint32_t i = 0; i < QueueLimits().receives; ++i) ASSERT_THAT(send(2 * kMaxShortMessage), IsOk());
}

}  // namespace
}  // namespace remora::rdma
