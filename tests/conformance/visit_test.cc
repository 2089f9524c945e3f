// Visits of values: in place where a READ is a copy and where the store is embedded, and of copies elsewhere.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class Visits : public Behaviour {
 protected:
  /// Returns whether this deployment shows values where they are.
  static bool shows_in_place() {
    return GetParam() == DeploymentKind::kEmbedded || GetParam() == DeploymentKind::kLocal;
  }
  /// Visits a key; the first call of the function runs `during` between two looks at the value.
  template <typename During>
  absl::Status Visit(std::string_view key, const During& during) {
    shown_.clear();
    still_shown_ = true;
    version_ = 0;
    return kv_->Visit(
        key,
        [&](std::string_view value) {
          shown_.emplace_back(value);
          if (shown_.size() == 1) during();
          still_shown_ = value == shown_.back();
        },
        &version_);
  }
  absl::Status Visit(std::string_view key) {
    return Visit(key, [] {});
  }

  std::vector<std::string> shown_;  // in each call
  bool still_shown_ = true;         // the last call saw the same bytes at its end
  std::uint64_t version_ = 0;
};

INSTANTIATE_TEST_SUITE_P(On, Visits,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Visits, ShowAValueOnceAndWhole) {
  // A busy machine may take longer than the usual grace period, and then a value is shown again.
  START({.memory_size = 64 * kMiB, .grace = std::chrono::seconds(10)});
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000},
                                 kMaxSmallValueSize, kMaxSmallValueSize + 1, 3 * kMiB + 7}) {
    const std::string value = RandomBytes(size, size);
    for (const std::string& key : {std::string("key"), std::string(kMaxKeySize, 'k')}) {
      ASSERT_CODE(kOk, Put(key, value));
      std::string got;
      std::uint64_t version = 0;
      ASSERT_CODE(kOk, kv_->Get(key, &got, &version));  // from here on, the client knows the index
      ASSERT_CODE(kOk, Visit(key));
      ASSERT_EQ(shown_.size(), 1u);
      EXPECT_TRUE(shown_[0] == value) << size << " bytes";
      EXPECT_EQ(version_, version);
    }
  }
}

TEST_P(Visits, ShowNothingOfAKeyThatDoesNotExist) {
  START();
  EXPECT_CODE(kNotFound, Visit("key"));
  EXPECT_CODE(kInvalidArgument, Visit(""));
  EXPECT_CODE(kInvalidArgument, Visit(std::string(kMaxKeySize + 1, 'k')));
  ASSERT_CODE(kOk, kv_->Put("key", "value", {.ttl = std::chrono::hours(1)}));
  ASSERT_CODE(kOk, Visit("key"));
  EXPECT_EQ(shown_, std::vector<std::string>{"value"});
  deployment_->Advance(std::chrono::hours(1) + milliseconds(10));
  EXPECT_CODE(kNotFound, Visit("key"));
  EXPECT_TRUE(shown_.empty());
}

TEST_P(Visits, ShowTheOldValueWhileAnotherIsWritten) {
  START({.memory_size = 64 * kMiB, .grace = std::chrono::seconds(10)});
  const std::unique_ptr<KeyValue> other = Connect();
  for (const std::size_t size : {std::size_t{100}, 3 * kMiB}) {
    const std::string before = RandomBytes(size, 1), after = RandomBytes(size, 2);
    ASSERT_CODE(kOk, Put("key", before));
    std::string got;
    ASSERT_CODE(kOk, kv_->Get("key", &got));
    ASSERT_CODE(kOk, Visit("key", [&] { ASSERT_CODE(kOk, other->Put("key", after)); }));
    ASSERT_EQ(shown_.size(), 1u);
    EXPECT_TRUE(shown_[0] == before && still_shown_);
    ASSERT_CODE(kOk, Visit("key"));
    EXPECT_TRUE(shown_.back() == after);
  }
}

/// Visits beside writes of more than the memory has.
class VisitsBesideWrites : public Visits {};

INSTANTIATE_TEST_SUITE_P(On, VisitsBesideWrites,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(VisitsBesideWrites, ShowTheValueAgainIfItsMemoryWasUsedAgain) {
  START({.memory_size = kMinMemorySize, .grace = milliseconds(kMinGraceMs)});
  const std::unique_ptr<KeyValue> other = Connect();
  for (const std::size_t size : {std::size_t{100}, kMiB}) {
    const std::string before = RandomBytes(size, 1), after = RandomBytes(size, 2);
    ASSERT_CODE(kOk, Put("key", before));
    std::string got;
    ASSERT_CODE(kOk, kv_->Get("key", &got));
    const auto use_all_memory_again = [&] {
      ASSERT_CODE(kOk, other->Put("key", after));
      const std::string filling(100'000, 'f');
      for (std::size_t bytes = 0; bytes < 4 * kMinMemorySize; bytes += filling.size()) {
        ASSERT_CODE(kOk, other->Put("filling", filling));
      }
      deployment_->Advance(milliseconds(4 * kMinGraceMs));
    };
    ASSERT_CODE(kOk, Visit("key", use_all_memory_again));
    ASSERT_EQ(shown_.size(), shows_in_place() ? 2u : 1u);
    EXPECT_TRUE(shown_.back() == (shows_in_place() ? after : before));
    EXPECT_TRUE(still_shown_) << "the call that counts";
  }
}

TEST_P(VisitsBesideWrites, ShowValuesThatAreOnlyOnDisk) {
  START({.durability = Durability::kLogged, .memory_size = kMinMemorySize, .eviction = Eviction::kLeastUsed});
  constexpr std::size_t kCount = 180;  // more than memory has
  const auto value_of = [](std::size_t i) { return RandomBytes(100'000, i); };
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_CODE(kOk, Put(std::to_string(i), value_of(i)));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_CODE(kOk, Visit(std::to_string(i)));
    ASSERT_TRUE(shown_.back() == value_of(i)) << i;
  }
}

TEST_P(Visits, EndWithAnErrorIfTheServerIsGone) {
  if (!remote()) GTEST_SKIP() << "an embedded store is in the same process";
  START({}, {.timeout = std::chrono::seconds(2)});
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
  const absl::Status status = Visit("key", [&] { deployment_->Stop(); });
  if (shows_in_place()) {
    EXPECT_FALSE(status.ok()) << "what was shown last may have been of a server that was gone";
  } else {
    EXPECT_CODE(kOk, status);
  }
  EXPECT_FALSE(Visit("key").ok());
  kv_.reset();
}

}  // namespace
}  // namespace remora
