// For fixtures: a real server and its clients on one simulated network.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "client/client.h"
#include "server/server.h"
#include "tests/simulation/sim_transport.h"

namespace remora {

class SimServed {
 protected:
  explicit SimServed(std::uint64_t seed) : network_(seed) {}

  void Serve(const ServerOptions& options) {
    auto server = Server::Create(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->AddListener(network_.Listen()).ok());
    network_.set_step([this] { server_->Step(); });
  }

  std::unique_ptr<Client> Connect(const ClientOptions& options) {
    auto client = Client::Connect([this](TimePoint) { return network_.Dial(); }, options, network_.clock());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // The network outlives the server, and the clients of a fixture's own, which go before both.
  SimNetwork network_;
  std::unique_ptr<Server> server_;
};

}  // namespace remora
