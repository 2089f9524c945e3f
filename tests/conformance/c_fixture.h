// For tests of remora.h against a real server.
#pragma once

#include <memory>
#include <string>

#include "client/c/remora.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/server_thread.h"

namespace remora {

class CInterface : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  CInterface() : address_(FreshAddress(GetParam(), sockets_.path())) {
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    server_ = *ServerThread::Start(options, address_);
    remora_options wanted;
    remora_options_init(&wanted);
    EXPECT_EQ(wanted.reconnect, 1u);
    wanted.timeout_ms = 1000;  // no longer than a server that is gone is to be waited for
    EXPECT_EQ(remora_connect(server_->address().c_str(), &wanted, &client_), REMORA_OK) << remora_message();
  }
  ~CInterface() override { remora_close(client_); }

  remora_code Put(const std::string& key, const std::string& value) {
    return remora_put(client_, key.data(), key.size(), value.data(), value.size(), nullptr);
  }
  std::string Get(const std::string& key) {
    const void* value = nullptr;
    size_t size = 0;
    const remora_code code = remora_get(client_, key.data(), key.size(), &value, &size, nullptr);
    if (code != REMORA_OK) return remora_code_name(code);
    return {static_cast<const char*>(value), size};
  }

  const TempDir sockets_;
  const rdma::Address address_;
  std::unique_ptr<ServerThread> server_;
  remora_client* client_ = nullptr;
};

}  // namespace remora
