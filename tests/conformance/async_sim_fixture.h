// For tests of what ends early: clients for many operations, and a server, in one thread, on a simulated
// network with somebody in between.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/conformance/async_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/tampered_connection.h"

namespace remora {

/// A server and clients on a simulated network. The parameter says whether large values go by grant
/// (true) or in parts.
class AsyncSim : public SimServed, public testing::TestWithParam<bool> {
 protected:
  using Outcome = AsyncOutcome;

  explicit AsyncSim(std::uint64_t seed) : SimServed(seed) {
    network_.set_piece_size(4096);
    network_.set_grants(GetParam());
    Serve({.store = {.memory_size = std::size_t{32} << 20, .clock = &network_.clock()}, .log = {}});
  }

  Client::Dialer Dialer() {
    return [this](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
      if (no_more_) return absl::UnavailableError("no more");
      return std::make_unique<TamperedConnection>(network_.Dial(), tampering_);
    };
  }
  std::unique_ptr<AsyncClient> NewClient(const ClientOptions& options = {}) {
    auto client = AsyncClient::Connect(Dialer(), options, {.depth = 16}, network_.clock());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  void WaitAll(AsyncClient& client) {
    const absl::Status all = client.WaitAll(network_.clock().Now() + std::chrono::minutes(10));
    ASSERT_TRUE(all.ok()) << all;
  }
  /// Returns the value of `key` in the store.
  std::string Seen(std::string_view key) {
    std::string value;
    const absl::Status status = server_->store().Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }

  void PassHalfASecond() {
    for (int i = 0; i < 50; ++i) network_.Advance(std::chrono::milliseconds(10)), server_->Step();
  }

  Tampering tampering_;
  bool no_more_ = false;  // connections can be made
};

}  // namespace remora
