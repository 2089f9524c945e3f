// Increment and Append, wherever the store is.
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

using std::chrono::hours;

class Modify : public Behaviour {
 protected:
  std::int64_t Increment(std::string_view key, std::int64_t delta) {
    const absl::StatusOr<std::int64_t> number = kv_->Increment(key, delta);
    EXPECT_TRUE(number.ok()) << number.status();
    return number.value_or(-1);
  }
  std::size_t Append(std::string_view key, std::string_view bytes) {
    const absl::StatusOr<std::size_t> size = kv_->Append(key, bytes);
    EXPECT_TRUE(size.ok()) << size.status();
    return size.value_or(0);
  }
};

INSTANTIATE_TEST_SUITE_P(On, Modify,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST_P(Modify, AnIncrementCountsFromNothing) {
  START();
  EXPECT_EQ(Increment("key", 5), 5);
  EXPECT_EQ(Get("key"), "5");
  EXPECT_EQ(Increment("key", -12), -7);
  EXPECT_EQ(Get("key"), "-7");
  EXPECT_EQ(Increment("key", 0), -7);
  ASSERT_CODE(kOk, Delete("key"));
  EXPECT_EQ(Increment("key", -1), -1);
  EXPECT_EQ(store().Read(Metric::kKeys), 1u);
}

TEST_P(Modify, AnIncrementGoesOnFromANumberThatWasPut) {
  START();
  ASSERT_CODE(kOk, Put("key", "099"));
  EXPECT_EQ(Increment("key", 1), 100);
  EXPECT_EQ(Get("key"), "100");
  EXPECT_EQ(Increment("least", kLeast), kLeast);
  EXPECT_EQ(Get("least"), "-9223372036854775808");
  EXPECT_EQ(Increment("least", kMaxNumber), -1);
  EXPECT_EQ(Increment("most", kMaxNumber), kMaxNumber);
  EXPECT_EQ(Get("most"), "9223372036854775807");
}

TEST_P(Modify, AValueThatIsNoNumberIsNotIncremented) {
  START();
  for (const std::string value : {"", " 1", "1 ", "+1", "-", "1.5", "0x10", "one", "9223372036854775808",
                                  "1\n", "123456789012345678901234567890"}) {
    ASSERT_CODE(kOk, Put("key", value));
    EXPECT_CODE(kFailedPrecondition, kv_->Increment("key", 1).status());
    EXPECT_EQ(Get("key"), value);
  }
  ASSERT_CODE(kOk, Put("key", std::string("1\0", 2)));
  EXPECT_CODE(kFailedPrecondition, kv_->Increment("key", 1).status());
}

TEST_P(Modify, AnOverflowLeavesTheValue) {
  START();
  ASSERT_EQ(Increment("most", kMaxNumber), kMaxNumber);
  ASSERT_EQ(Increment("least", kLeast), kLeast);
  const absl::Status status = kv_->Increment("most", 1).status();
  EXPECT_CODE(kOutOfRange, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("9223372036854775807"));
  EXPECT_CODE(kOutOfRange, kv_->Increment("most", kMaxNumber).status());
  EXPECT_CODE(kOutOfRange, kv_->Increment("least", -1).status());
  EXPECT_EQ(Increment("most", -1), kMaxNumber - 1);
  EXPECT_EQ(Increment("least", 1), kLeast + 1);
}

TEST_P(Modify, AnAppendMakesAndLengthens) {
  START();
  EXPECT_EQ(Append("key", "one"), 3u);
  EXPECT_EQ(Append("key", ""), 3u);
  EXPECT_EQ(Append("key", std::string(",\0two", 5)), 8u);
  EXPECT_EQ(Get("key"), std::string("one,\0two", 8));
  EXPECT_EQ(Append("empty", ""), 0u);
  EXPECT_EQ(Get("empty"), "");
  std::string expected = "one";
  ASSERT_CODE(kOk, Put("long", expected));
  for (int i = 0; i < 100; ++i) {
    const std::string more = std::string(static_cast<std::size_t>(i) * 23, static_cast<char>('a' + i % 26));
    expected += more;
    ASSERT_EQ(Append("long", more), expected.size());
  }
  EXPECT_EQ(Get("long"), expected);
}

TEST_P(Modify, AnAppendHasItsBounds) {
  START();
  const std::string half(kMaxSmallValueSize / 2, 'h');
  ASSERT_EQ(Append("key", half), half.size());
  EXPECT_CODE(kOutOfRange, kv_->Append("key", half + "1").status());
  EXPECT_EQ(Get("key"), half);
  EXPECT_EQ(Append("key", half), kMaxSmallValueSize);
  EXPECT_CODE(kOutOfRange, kv_->Append("key", "1").status());
  EXPECT_EQ(Append("key", ""), kMaxSmallValueSize);
  EXPECT_CODE(kOutOfRange, kv_->Append("new", half + half + "1").status());
  EXPECT_CODE(kOk, kv_->Append("new", half + half).status());
  EXPECT_CODE(kInvalidArgument, kv_->Append("new", std::string(kMaxValueSize + 1, 'v')).status());
  EXPECT_CODE(kInvalidArgument, kv_->Append("", "1").status());
  EXPECT_CODE(kInvalidArgument, kv_->Increment(std::string(kMaxKeySize + 1, 'k'), 1).status());
}

TEST_P(Modify, ATimeToLiveIsKeptUnlessOneIsGiven) {
  START({.default_ttl = hours(3)});
  ASSERT_CODE(kOk, kv_->Put("number", "1", {.ttl = hours(1)}));
  ASSERT_CODE(kOk, kv_->Put("text", "1", {.ttl = kNeverExpires}));
  EXPECT_EQ(Increment("number", 1), 2);
  EXPECT_EQ(Append("text", "2"), 2u);
  EXPECT_LE(kv_->Ttl("number")->value(), hours(1));
  EXPECT_FALSE(kv_->Ttl("text")->has_value());
  EXPECT_EQ(Increment("new", 1), 1);
  EXPECT_GT(kv_->Ttl("new")->value(), hours(2)) << "the store's default";
  ASSERT_CODE(kOk, kv_->Increment("number", 1, {.ttl = hours(2)}).status());
  EXPECT_GT(kv_->Ttl("number")->value(), hours(1));
  ASSERT_CODE(kOk, kv_->Append("text", "3", {.ttl = hours(1)}).status());
  deployment_->Advance(hours(2));
  EXPECT_EQ(Increment("number", 7), 7) << "what has expired is absent";
  EXPECT_EQ(Append("text", "again"), 5u);
  EXPECT_GT(kv_->Ttl("number")->value(), hours(2));
  EXPECT_CODE(kInvalidArgument, kv_->Increment("number", 1, {.ttl = std::chrono::seconds(0)}).status());
}

TEST_P(Modify, TheResultIsKeptAcrossARestart) {
  START({.durability = Durability::kLogged});
  EXPECT_EQ(Increment("number", 41), 41);
  EXPECT_EQ(Increment("number", 1), 42);
  EXPECT_EQ(Append("text", "forty"), 5u);
  EXPECT_EQ(Append("text", "two"), 8u);
  Restart();
  EXPECT_EQ(Get("number"), "42");
  EXPECT_EQ(Get("text"), "fortytwo");
  EXPECT_EQ(Increment("number", 1), 43);
}

TEST_P(Modify, EachIsOneRoundTrip) {
  START();
  if (!remote()) GTEST_SKIP() << "of clients";
  const ClientCounters before = kv_->client()->counters();
  Increment("number", 1);
  Append("text", "1");
  Append("text", "2");
  const ClientCounters after = kv_->client()->counters();
  EXPECT_EQ(after.requests - before.requests, 3u);
  EXPECT_EQ(after.reads - before.reads, 0u);
}

TEST_P(Modify, ManyAtOnceMakeTheExactSum) {
  START();
  const int rounds = GetParam() == DeploymentKind::kVerbs ? 50 : 500;
  std::vector<std::unique_ptr<KeyValue>> kvs;
  for (int i = 0; i < 4; ++i) kvs.push_back(Connect());
  const auto add = [](KeyValue& kv, int i) {
    ASSERT_CODE(kOk, kv.Increment("sum", i).status());
    if (i % 10 != 0) return;
    ASSERT_CODE(kOk, kv.Append("marks", "|").status());
  };
  if (deployment_->concurrent()) {
    std::vector<std::thread> threads;
    for (const std::unique_ptr<KeyValue>& kv : kvs) {
      threads.emplace_back([&add, &kv, rounds] {
        for (int i = 0; i < rounds; ++i) ASSERT_NO_FATAL_FAILURE(add(*kv, i));
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (int i = 0; i < rounds; ++i) {
      for (const std::unique_ptr<KeyValue>& kv : kvs) ASSERT_NO_FATAL_FAILURE(add(*kv, i));
    }
  }
  EXPECT_EQ(Get("sum"), std::to_string(4 * rounds * (rounds - 1) / 2));
  EXPECT_EQ(Get("marks"), std::string(static_cast<std::size_t>(4 * rounds / 10), '|'));
}

}  // namespace
}  // namespace remora
