// Watches of a store that is only in memory: when they end.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

// For a change that must come.
constexpr milliseconds kWaitForChange{20'000};

class WatchesInMemory : public Behaviour {
 protected:
  std::unique_ptr<KeyWatch> Begin(const WatchOptions& options = {}) {
    auto watch = kv_->Watch(options);
    EXPECT_TRUE(watch.ok()) << watch.status();
    return *std::move(watch);
  }
  /// Returns the error with which a watch ends, at its begin or at its first change.
  absl::Status EndAt(const std::string& token) {
    auto watch = kv_->Watch({.resume_token = token});
    return watch.ok() ? (*watch)->Next(kWaitForChange).status() : watch.status();
  }
};
INSTANTIATE_TEST_SUITE_P(OnChangeLog, WatchesInMemory,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(WatchesInMemory, EndIfTheyAreTooFarBehind) {
  START({.change_log_bytes = kMinChangeLogBytes});
  const auto watch = Begin();
  const std::string token = watch->resume_token();
  for (int i = 0; i < 20; ++i) ASSERT_CODE(kOk, Put("key", std::to_string(i) + std::string(100'000, 'v')));
  const absl::Status behind = watch->Next(kWaitForChange).status();
  EXPECT_CODE(kOutOfRange, behind);
  EXPECT_THAT(std::string(behind.message()), testing::HasSubstr("--change_log"));
  EXPECT_CODE(kOutOfRange, watch->Next(kWaitForChange).status()) << "this is final";
  EXPECT_CODE(kOutOfRange, EndAt(token));
  const auto other = Begin();
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_TRUE(*other->Next(kWaitForChange));
  EXPECT_EQ(other->key(), "a");
}

TEST_P(WatchesInMemory, ShowAllChangesBeforeTheOneThatIsNotKept) {
  START({.change_log_bytes = kMinChangeLogBytes});
  const auto watch = Begin();
  for (const char* key : {"a", "b"}) ASSERT_CODE(kOk, Put(key, "1"));
  ASSERT_CODE(kOk, Put("large", std::string(kMiB, 'l')));
  for (const char* key : {"a", "b"}) {
    const auto shown = watch->Next(kWaitForChange);
    ASSERT_TRUE(shown.ok()) << shown.status();
    ASSERT_TRUE(*shown);
    EXPECT_EQ(watch->key(), key);
  }
  EXPECT_CODE(kOutOfRange, watch->Next(kWaitForChange).status());
}

TEST_P(WatchesInMemory, EndAtAValueThatIsLargerThanTheLog) {
  START({.change_log_bytes = kMinChangeLogBytes});
  const auto watch = Begin();
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_TRUE(*watch->Next(kWaitForChange));
  EXPECT_EQ(watch->value(), "1");
  ASSERT_CODE(kOk, Put("large", std::string(kMiB, 'l')));
  const absl::Status status = watch->Next(kWaitForChange).status();
  EXPECT_CODE(kOutOfRange, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("larger than the change log"));
}

TEST_P(WatchesInMemory, EndAtARestart) {
  START({.change_log_bytes = kMinChangeLogBytes});
  auto watch = Begin();
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_TRUE(*watch->Next(kWaitForChange));
  const std::string token = watch->resume_token();
  watch.reset();
  Restart();
  for (int i = 0; i < 10; ++i) ASSERT_CODE(kOk, Put("other", "2"));
  const absl::Status status = EndAt(token);
  EXPECT_CODE(kOutOfRange, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("started anew"));
}

TEST_P(WatchesInMemory, ShowWhatIsEvicted) {
  START({.eviction = Eviction::kLeastUsed, .change_log_bytes = 64 * kMiB});
  const auto watch = Begin();
  for (int i = 0; i < 300; ++i) {
    absl::Status put;
    do {
      put = Put(std::to_string(i), std::string(100'000, 'v'));
    } while (absl::IsAborted(put));
    ASSERT_CODE(kOk, put);
  }
  ASSERT_CODE(kOk, Put("end", ""));
  int puts = 0;
  int deletions = 0;
  do {
    ASSERT_TRUE(*watch->Next(kWaitForChange));
    ++(watch->kind() == ChangeKind::kDelete ? deletions : puts);
  } while (watch->key() != "end");
  EXPECT_EQ(puts, 301);
  EXPECT_GT(deletions, 100);
  EXPECT_CODE(kNotFound, GetStatus("0"));
}

}  // namespace
}  // namespace remora
