// Parts that the tests of hostile peers share: a kvserver, a witness beside the attack, and the conditions
// that hold after it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/adversarial/raw_peer.h"
#include "tests/adversarial/served.h"

namespace remora {

class Hostile : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  bool is_verbs() const { return GetParam() == rdma::TransportKind::kVerbs; }

  void Start(std::vector<std::string> flags = {}) {
    if (is_verbs() && !VerbsHost().ok()) GTEST_SKIP() << VerbsHost().status();
    auto served = Served::Start(GetParam(), std::move(flags));
    ASSERT_TRUE(served.ok()) << served.status();
    served_ = *std::move(served);
    witness_ = std::make_unique<Witness>(served_->address(), served_->clock());
    broken_ = served_->Count("connections_broken");
  }
  std::unique_ptr<RawPeer> Enter(const HelloRequest& hello = {}) {
    auto peer = RawPeer::At(served_->where());
    EXPECT_TRUE(peer->Join(hello));
    return peer;
  }
  std::uint64_t Count(const std::string& counter) { return served_->Count(counter); }
  /// Since Start, or since this was asked last, it has come to so many.
  void ExpectBroken(std::uint64_t count) {
    EXPECT_TRUE(served_->AwaitCount("connections_broken", broken_ + count)) << count;
    EXPECT_EQ(Count("connections_broken"), broken_ + count);
    broken_ += count;
  }
  /// The witness has seen nothing of it, somebody else is served, and the server ends as it should.
  void ExpectNobodyElseHarmed() {
    ASSERT_TRUE(served_->IsAlive());
    const Witness::Report report = witness_->Stop();
    EXPECT_EQ(report.faults, 0u) << report.first_fault;
    EXPECT_GE(report.operations, 100u);
    const auto late = Enter();
    const auto answer = late->Put(1, "late", "but served");
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->reply.status, ReplyStatus::kOk);
    EXPECT_EQ(served_->Stop(), 0);
  }

  std::unique_ptr<Served> served_;
  std::unique_ptr<Witness> witness_;
  std::uint64_t broken_ = 0;
};

/// Ends a test that was skipped, or could not begin, too.
#define START_HOSTILE(...)                     \
  ASSERT_NO_FATAL_FAILURE(Start(__VA_ARGS__)); \
  if (IsSkipped()) return

#define INSTANTIATE_HOSTILE(suite)                                                          \
  INSTANTIATE_TEST_SUITE_P(                                                                 \
      On, suite, testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kVerbs), \
      [](const auto& test) {                                                                \
        return std::string(test.param == rdma::TransportKind::kLocal ? "local" : "verbs");  \
      })

}  // namespace remora
