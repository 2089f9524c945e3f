// Fixture of the tests of the transport contract: the transport, the address, and a service there.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "rdma/transport.h"
#include "store/base/check.h"
#include "tests/unit/rdma/transport_client.h"
#include "tests/unit/rdma/transport_service.h"

namespace remora::rdma {

/// A folder of its own, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "remora-XXXXXX";
    REMORA_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Starts the service of the suite at an address of one transport. The parameter names it: "local",
/// "tcp", "tls" or "verbs". Verbs needs REMORA_VERBS_HOST, an address with an RDMA device.
class TransportTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* host = std::getenv("REMORA_VERBS_HOST");
    if (is_tcp()) {
      where_ = {.kind = TransportKind::kTcp,
                .host = "127.0.0.1",
                .port = 0,
                .path = "",
                .tls = GetParam() == "tls"};
    } else if (!is_verbs()) {
      where_ = {.kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
    } else if (host != nullptr) {
      where_ = {.kind = TransportKind::kVerbs, .host = host, .port = 0, .path = ""};
    } else if (std::getenv("REMORA_REQUIRE_VERBS") != nullptr) {
      FAIL() << "REMORA_REQUIRE_VERBS is set, but REMORA_VERBS_HOST does not say which address has an RDMA "
                "device";
    } else {
      GTEST_SKIP() << "REMORA_VERBS_HOST is not set: no address with an RDMA device to test verbs on "
                      "(tools/rdma-guest makes one)";
    }
  }

  /// Returns the kernel's count of RDMA objects, and of this process's descriptors.
  static std::string HeldResources() {
    FILE* const tool = popen("PATH=$PATH:/usr/sbin:/sbin rdma resource show", "r");
    REMORA_CHECK(tool != nullptr);
    std::array<char, 256> line{};
    std::string held;
    while (std::fgets(line.data(), line.size(), tool) != nullptr) held += line.data();
    EXPECT_EQ(pclose(tool), 0);
    const std::filesystem::directory_iterator descriptors("/proc/self/fd");
    return held + std::to_string(std::distance(begin(descriptors), end(descriptors))) + " descriptors";
  }

  /// Returns HeldResources once they no longer change: a listener ends connections, and prepares
  /// others, in the background.
  static std::string HeldAtRest() {
    std::string before, now = HeldResources();
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      before = std::exchange(now, HeldResources());
    } while (now != before);
    return now;
  }

  bool is_verbs() const { return GetParam() == "verbs"; }
  /// Returns whether the transport is TCP, with TLS or without.
  bool is_tcp() const { return GetParam() == "tcp" || GetParam() == "tls"; }
  /// `count`, or a part of it where rounds are slow: over verbs, and in an emulated machine.
  int Rounds(int count) const {
    return is_verbs() || std::getenv("REMORA_GUEST") != nullptr ? count / 10 : count;
  }

  void StartService(const QueueLimits& limits = {}, MemoryWindows windows = MemoryWindows::kAuto) {
    auto service = ServiceThread::Start(where_, limits, clock_, windows);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
  }
  absl::StatusOr<std::unique_ptr<Listener>> ListenAt(const Address& address) {
    const auto tls = TestServerTls();
    if (!tls.ok()) return tls.status();
    return Listen(address, {}, clock_, MemoryWindows::kAuto, 1, {}, *tls);
  }
  absl::StatusOr<std::unique_ptr<ClientConnection>> DialAt(const Address& address, TimePoint deadline) {
    return Dial(address, {}, clock_, deadline, TestTls());
  }
  std::unique_ptr<Client> Open(const ClientOptions& options = {}) {
    return OpenAt(service_->address(), options);
  }
  std::unique_ptr<Client> OpenAt(const Address& address, const ClientOptions& options = {}) {
    auto client = Client::Open(address, clock_, options);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// Connect's own answer.
  absl::Status TryOpen(const ClientOptions& options = {}) {
    return Client::Open(service_->address(), clock_, options).status();
  }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  Address where_;
  std::unique_ptr<ServiceThread> service_;
};

}  // namespace remora::rdma
