// Copies of a primary's data for a member, over each transport between machines: R15 of
// server/replication/copy_receiver.h, V7 of store/durable/incoming_copy.h.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "rdma/tls.h"
#include "rdma/transport.h"
#include "store/durable/incoming_copy.h"
#include "tests/conformance/membership_fixture.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"
#include "tests/support/tls_files.h"

namespace remora {
namespace {

struct CopiesOver {
  rdma::TransportKind kind;
  bool is_tls = false;
};

class Copies : public MembershipFixture, public testing::WithParamInterface<CopiesOver> {
 protected:
  void SetUp() override {
    if (GetParam().kind == rdma::TransportKind::kVerbs) {
      if (const auto host = VerbsHost(); !host.ok()) GTEST_SKIP() << host.status().message();
    }
    if (GetParam().is_tls) {
      certificates_ = std::make_unique<TlsFolder>();
      certificates_->Sign("server", "IP:127.0.0.1");
      client_tls_.ca = certificates_->ca();
    }
    may_copy_ = false;  // until the primary has something to send
    StartDiverged();
  }
  rdma::Address NewAddress() override {
    rdma::Address address = FreshAddress(GetParam().kind, dir_.path());
    address.tls = GetParam().is_tls;
    return address;
  }
  std::shared_ptr<rdma::ServerTls> NewTls() override {
    if (certificates_ == nullptr) return nullptr;
    return rdma::ServerTls::Create(certificates_->Files("server", false)).value();
  }

  /// Puts a value of a key, which no table compresses.
  void Put(const std::string& key, std::size_t size) {
    if (client_of_primary_ == nullptr) {
      auto client = Client::Connect(primary_.server->address(), {.connect_timeout = std::chrono::seconds(30),
                                                                 .timeout = std::chrono::seconds(60),
                                                                 .tls = client_tls_});
      ASSERT_TRUE(client.ok()) << client.status();
      client_of_primary_ = *std::move(client);
    }
    std::string value(size, '\0');
    for (char& c : value) c = static_cast<char>(random_());
    const absl::Status put = client_of_primary_->Put(key, value);
    ASSERT_TRUE(put.ok()) << put;
    values_[key] = value;
  }
  /// Puts values that make several tables.
  void Fill() {
    for (int table = 0; table < kTables; ++table) {
      for (int i = 0; i < 8; ++i) ASSERT_NO_FATAL_FAILURE(Put(absl::StrCat("fill", table, ".", i), 100'000));
      const auto flushed = primary_.server->server().store().BeginCopy();
      ASSERT_TRUE(flushed.ok()) << flushed.status();
    }
  }
  /// Lets the member take a copy, and puts until `is_so`.
  void CopyUntil(const std::function<bool(const MemberReport&)>& is_so) {
    follower_.orders.may_copy = true;
    int puts = 0;
    follower_.Await(
        [&](const MemberReport& report) {
          if (puts < 2000) Put(absl::StrCat("during", puts++ % 50), 100);
          return is_so(report);
        },
        "the copy comes");
  }
  /// Starts the member with the copy, and compares it with the primary.
  void ExpectCopied() {
    ASSERT_TRUE(AcceptCopy(DataOfFollower()).ok());
    const bool may_copy = follower_.orders.may_copy;
    StartAgain(follower_, "f", 3);
    follower_.orders.min_epoch = 3;
    follower_.orders.may_copy = may_copy;
    follower_.Order();
    primary_.Await([](const MemberReport& report) { return report.followers[0].life == 3; }, "it follows");
    primary_.orders.counts = {true};
    primary_.Await([](const MemberReport& report) { return report.followers[0].acknowledged == report.last; },
                   "it has all groups");
    ServerStore& store = follower_.server->server().store();
    std::string value;
    for (const auto& [key, expected] : values_) {
      ASSERT_TRUE(store.Get(key, &value).ok()) << key;
      ASSERT_EQ(value, expected) << key;
    }
  }
  std::string DataOfFollower() const { return dir_.path() + "/f"; }
  static std::uint64_t Read(const Node& node, Metric metric) {
    return node.server->server().store().Read(metric);
  }

  static constexpr int kTables = 3;
  std::unique_ptr<TlsFolder> certificates_;
  std::unique_ptr<Client> client_of_primary_;
  std::minstd_rand random_{7};
  std::map<std::string, std::string> values_;
};

TEST_P(Copies, AMemberHasAllThatItsPrimaryHas) {  // R15
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(CopyUntil([](const MemberReport& report) { return report.has_copy; }));
  ExpectCopied();
}

TEST_P(Copies, ACopyGoesOnAfterTheMemberStartedAgain) {  // V7
  ASSERT_NO_FATAL_FAILURE(Fill());
  const std::uint64_t whole = 100'000ULL * 8 * kTables;
  ASSERT_NO_FATAL_FAILURE(CopyUntil([&](const MemberReport& report) {
    return report.has_copy || Read(follower_, Metric::kCopyBytesTaken) > whole / 2;
  }));
  ASSERT_FALSE(follower_.report.has_copy) << "it comes too fast for the test";
  StartAgain(follower_, "f", 2);
  follower_.orders.min_epoch = 3;
  ASSERT_NO_FATAL_FAILURE(CopyUntil([](const MemberReport& report) { return report.has_copy; }));
  EXPECT_LT(Read(follower_, Metric::kCopyBytesTaken), whole) << "tables of the earlier copy were kept";
  ExpectCopied();
}

INSTANTIATE_TEST_SUITE_P(On, Copies,
                         testing::Values(CopiesOver{rdma::TransportKind::kLocal},
                                         CopiesOver{rdma::TransportKind::kTcp},
                                         CopiesOver{.kind = rdma::TransportKind::kTcp, .is_tls = true},
                                         CopiesOver{rdma::TransportKind::kVerbs}),
                         [](const auto& one) { return one.param.is_tls ? "tls" : NameOf(one.param.kind); });

}  // namespace
}  // namespace remora
