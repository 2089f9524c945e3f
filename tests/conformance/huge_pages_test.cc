// Memory becomes huge pages under clients that read it, and a server that writes it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "rdma/shared_memory.h"
#include "store/base/clock.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::steady_clock;

constexpr int kLargePageKeys = 6000;
const std::string kFiller(1000, 'v');

class HugePagesTest : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  bool is_verbs() const { return GetParam() == rdma::TransportKind::kVerbs; }

  void SetUp() override {
    if (is_verbs() && !VerbsHost().ok()) GTEST_SKIP() << VerbsHost().status().message();
    options_.store.memory_size = std::size_t{32} << 20;
    options_.store.eviction = Eviction::kNone;
  }
  void Start() {
    auto server = ServerThread::Start(options_, FreshAddress(GetParam(), directory_.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = Client::Connect(server_->address(), {}, clock_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  std::uint64_t LargePageBytes() { return server_->server().store().Read(Metric::kLargePageBytes); }
  void Fill() {
    for (int i = 0; i < kLargePageKeys; ++i) {
      ASSERT_TRUE(client_->Put(absl::StrCat("key ", i), absl::StrCat(i, kFiller)).ok());
    }
  }
  void ReadAll() {
    for (int i = 0; i < kLargePageKeys; ++i) {
      ASSERT_EQ(client_->Get(absl::StrCat("key ", i)).value_or("none"), absl::StrCat(i, kFiller));
    }
  }

  const SteadyClock clock_ = {};
  const TempDir directory_;
  ServerOptions options_;
  std::unique_ptr<ServerThread> server_;
  std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(On, HugePagesTest,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kVerbs),
                         [](const auto& test) {
                           return test.param == rdma::TransportKind::kVerbs ? "verbs" : "local";
                         });

TEST_P(HugePagesTest, ReadersFindTheSameBytesBeforeAndBehind) {
  options_.huge_pages = true;
  Start();
  const std::uint64_t at_first = LargePageBytes();
  Fill();
  // Full pages: those of the values alone.
  const std::uint64_t wanted = kLargePageKeys * kFiller.size() / rdma::kHugePage * rdma::kHugePage;
  const auto patience = steady_clock::now() + std::chrono::seconds(120);
  while (LargePageBytes() < wanted && steady_clock::now() < patience) ReadAll();
  ReadAll();
  if (LargePageBytes() == 0) GTEST_SKIP() << "the system has no large pages: before Linux 6.1, perhaps";
  EXPECT_GE(LargePageBytes(), wanted);
  EXPECT_LE(LargePageBytes(), options_.store.memory_size);
  // A device locks all of it at the start.
  EXPECT_EQ(at_first == options_.store.memory_size, is_verbs());
}

TEST_P(HugePagesTest, NoneUnlessAskedFor) {
  Start();
  Fill();
  EXPECT_EQ(LargePageBytes(), 0u);
}

TEST_P(HugePagesTest, TheServerEndsInTheMiddleOfThat) {
  options_.huge_pages = true;
  for (int i = 0; i < 3; ++i) {
    Start();
    for (int key = 0; key < 1000 * (i + 1); ++key) {
      ASSERT_TRUE(client_->Put(absl::StrCat("key ", key), kFiller).ok());
    }
    client_.reset();
    server_.reset();
  }
}

}  // namespace
}  // namespace remora
