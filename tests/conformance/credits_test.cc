// A client that sends more than it may have unanswered, before the server takes any of it. The requests that
// wait at a server are bounded, whatever its clients send.
#include <gtest/gtest.h>

#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"

namespace remora {
namespace {

class Credits : public SimServed, public testing::Test {
 protected:
  Credits() : SimServed(/*seed=*/3) {}
  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.clock = &network_.clock();
    ASSERT_NO_FATAL_FAILURE(Serve(options));
  }
  std::uint64_t Count(Metric counter) { return server_->store().Read(counter); }
  static constexpr auto kPing = Operation::kPing;
};

TEST_F(Credits, AllOfThemMayBeUsedAtOnceAndAgain) {
  HandClient hand(network_.Dial(), network_.clock());
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < hand.hello().credits; ++i) hand.Post(HandClient::MakeRequest(kPing, 0, 0));
    EXPECT_TRUE(hand.Await().has_value());
  }
  EXPECT_EQ(Count(Metric::kPings), 3 * hand.hello().credits);
  EXPECT_EQ(Count(Metric::kConnectionsBroken), 0u);
}

TEST_F(Credits, OneMoreEndsTheConnectionAndNoOther) {
  HandClient other(network_.Dial(), network_.clock());
  HandClient hand(network_.Dial(), network_.clock());
  for (std::uint32_t i = 0; i <= hand.hello().credits; ++i) hand.Post(HandClient::MakeRequest(kPing, 0, 0));
  EXPECT_FALSE(hand.Await().has_value());
  EXPECT_EQ(Count(Metric::kRejectedRequests), 1u);
  EXPECT_EQ(Count(Metric::kConnectionsBroken), 1u);
  EXPECT_TRUE(other.Ask(kPing, 0, 0).has_value());
}

}  // namespace
}  // namespace remora
