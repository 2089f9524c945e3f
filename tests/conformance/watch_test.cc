// Watches, wherever the store is.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/format/wire/resume_token.h"
#include "store/format/wire/scan_messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using Lines = std::vector<std::string>;
using Map = std::map<std::string, std::string>;

// For a change that must come.
constexpr milliseconds kLong{60'000};

class Watches : public Behaviour {
 protected:
  void StartLogged(const ClientOptions& client = {}) {
    Start({.durability = Durability::kLogged, .memory_size = 16 * kMiB}, client);
  }
  std::unique_ptr<KeyWatch> Begin(const WatchOptions& options = {}) { return Begin(*kv_, options); }
  static std::unique_ptr<KeyWatch> Begin(KeyValue& kv, const WatchOptions& options = {}) {
    auto watch = kv.Watch(options);
    EXPECT_TRUE(watch.ok()) << watch.status();
    return *std::move(watch);
  }
  static std::string PreferredLine(const KeyWatch& watch) {
    if (watch.kind() == ChangeKind::kDelete) return "-" + std::string(watch.key());
    return std::string(watch.key()) + "=" + std::string(watch.value());
  }
  /// The next `count`.
  static Lines Take(KeyWatch& watch, std::size_t count) {
    Lines lines;
    while (lines.size() < count) {
      const absl::StatusOr<bool> came = watch.Next(kLong);
      EXPECT_TRUE(came.ok() && *came) << came.status();
      if (!came.ok() || !*came) break;
      lines.push_back(PreferredLine(watch));
    }
    return lines;
  }
  static bool None(KeyWatch& watch) {
    const absl::StatusOr<bool> came = watch.Next(milliseconds(5));
    EXPECT_TRUE(came.ok()) << came.status();
    return came.ok() && !*came;
  }
};
INSTANTIATE_TEST_SUITE_P(On, Watches,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });
INSTANTIATE_TEST_SUITE_P(OnCommitLog, Watches,
                         testing::Values(WithCommitLog(DeploymentKind::kEmbedded),
                                         WithCommitLog(DeploymentKind::kLocal),
                                         WithCommitLog(DeploymentKind::kTcp),
                                         WithCommitLog(DeploymentKind::kSim)),
                         [](const auto& test) { return NameOf(test.param); });

INSTANTIATE_TEST_SUITE_P(OnChangeLog, Watches,
                         testing::Values(WithChangeLog(DeploymentKind::kEmbedded),
                                         WithChangeLog(DeploymentKind::kLocal),
                                         WithChangeLog(DeploymentKind::kTcp),
                                         WithChangeLog(DeploymentKind::kSim)),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Watches, ShowWhatIsWrittenFromThenOn) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, Put("before", ""));
  const auto watch = Begin();
  EXPECT_TRUE(None(*watch));
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_CODE(kOk, Delete("a"));
  ASSERT_CODE(kOk, Put("empty", ""));
  EXPECT_EQ(Take(*watch, 3), Lines({"a=1", "-a", "empty="}));
  EXPECT_TRUE(None(*watch));
  ASSERT_CODE(kOk, Put("a", "4"));
  EXPECT_EQ(Take(*watch, 1), Lines({"a=4"}));
}

TEST_P(Watches, ATokenGoesOnForAnotherClient) {
  START({.durability = Durability::kLogged});
  auto watch = Begin({.prefix = "user/"});
  const std::string start = watch->resume_token();
  for (int i = 0; i < 5; ++i) {
    ASSERT_CODE(kOk, Put("user/" + std::to_string(i), "u"));
    ASSERT_CODE(kOk, Put("other", ""));
  }
  EXPECT_EQ(Take(*watch, 2), Lines({"user/0=u", "user/1=u"}));
  const std::string middle = watch->resume_token();
  watch.reset();
  const auto other = Connect();
  EXPECT_EQ(Take(*Begin(*other, {.prefix = "user/", .resume_token = middle}), 3),
            Lines({"user/2=u", "user/3=u", "user/4=u"}));
  EXPECT_EQ(Take(*Begin(*other, {.prefix = "user/", .resume_token = start}), 5).front(), "user/0=u");
}

// Nobody writes, and nobody reads.
TEST_P(Watches, ShowWhatExpires) {
  StartLogged();
  if (IsSkipped()) return;
  const auto watch = Begin();
  ASSERT_CODE(kOk, kv_->Put("a", "1", {.ttl = milliseconds(1)}));
  ASSERT_CODE(kOk, kv_->Put("b", "2", {.ttl = milliseconds(300)}));
  Lines seen = Take(*watch, 2);  // where time is real, "a" may expire before "b" is written
  deployment_->Advance(std::chrono::seconds(2));
  for (int i = 0; i < 3 && !deployment_->concurrent(); ++i) {  // one thread: a caller that asks steps it
    ASSERT_CODE(kOk, kv_->client()->Ping());
  }
  for (const std::string& line : Take(*watch, 2)) seen.push_back(line);
  EXPECT_THAT(seen, testing::AnyOf(Lines({"a=1", "b=2", "-a", "-b"}), Lines({"a=1", "-a", "b=2", "-b"})));
  EXPECT_TRUE(Await([&] { return store().Read(Metric::kExpired) == 2; })) << "counted behind the change";
}

TEST_P(Watches, LargeValuesComeInPieces) {
  StartLogged(kSmallWindow);
  if (IsSkipped()) return;
  const auto watch = Begin();
  const std::string large(slow() ? kMiB / 2 : 3 * kMiB, 'x');
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_CODE(kOk, Put("large", large));
  ASSERT_CODE(kOk, Put("b", "2"));
  EXPECT_EQ(Take(*watch, 3), Lines({"a=1", "large=" + large, "b=2"}));
}

TEST_P(Watches, AreGivenUpAndGoOn) {
  StartLogged(kSmallWindow);
  if (IsSkipped()) return;
  // More than the server keeps for a client, and scans beside them.
  std::vector<std::unique_ptr<KeyWatch>> watches;
  for (std::size_t i = 0; i < kMaxCursors + 2; ++i) watches.push_back(Begin());
  Lines expected;
  for (int i = 0; i < 200; ++i) {
    const std::string value = std::to_string(i) + std::string(100, 'v');
    ASSERT_CODE(kOk, Put("key", value));
    expected.push_back("key=" + value);
  }
  for (std::size_t at = 0; at < expected.size(); at += 20) {
    for (const auto& watch : watches) {
      EXPECT_EQ(Take(*watch, 20), Lines(expected.begin() + static_cast<std::ptrdiff_t>(at),
                                        expected.begin() + static_cast<std::ptrdiff_t>(at) + 20));
      const auto scan = kv_->Scan({.any_order = GetParam().has_change_log});
      ASSERT_TRUE(scan.ok()) << scan.status();
      EXPECT_TRUE((*scan)->Next());
    }
  }
}

// A map that is made of the changes alone is the store's in the end.
TEST_P(Watches, ACopyFollows) {
  StartLogged(kSmallWindow);
  if (IsSkipped()) return;
  const auto watch = Begin();
  std::mt19937 random(7);
  Map map;
  std::map<std::string, std::uint64_t> sequences;
  std::uint64_t last = 0;
  const int rounds = slow() ? 5 : 40;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::string key = "key " + std::to_string(random() % 100);
      switch (random() % 4) {
        case 0:
          Delete(key).IgnoreError();
          break;
        case 1: {
          WriteBatch batch;
          batch.Put(key, std::to_string(random()));
          batch.Put(key + "'", std::to_string(random()));
          ASSERT_CODE(kOk, kv_->Apply(batch));
          break;
        }
        default:
          ASSERT_CODE(kOk, Put(key, std::string(random() % 300, 'v') + std::to_string(i)));
      }
    }
    ASSERT_CODE(kOk, Put("end", std::to_string(round)));
    do {
      const absl::StatusOr<bool> came = watch->Next(kLong);
      ASSERT_TRUE(came.ok() && *came) << came.status();
      EXPECT_GT(watch->sequence(), last);
      last = watch->sequence();
      if (watch->kind() == ChangeKind::kDelete) {
        map.erase(std::string(watch->key()));
      } else {
        map[std::string(watch->key())] = watch->value();
      }
    } while (map["end"] != std::to_string(round));
    auto scan = kv_->Scan({.any_order = GetParam().has_change_log});
    ASSERT_TRUE(scan.ok()) << scan.status();
    Map stored;
    while ((*scan)->Next()) stored.emplace((*scan)->key(), (*scan)->value());
    ASSERT_EQ(map, stored);
  }
}

TEST_P(Watches, GoOnOverARestart) {
  if (GetParam().has_change_log) GTEST_SKIP() << "a store in memory keeps nothing: watch_memory_test.cc";
  StartLogged();
  if (IsSkipped()) return;
  auto watch = Begin();
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_CODE(kOk, Put("b", "2"));
  EXPECT_EQ(Take(*watch, 1), Lines({"a=1"}));
  const std::string token = watch->resume_token();
  watch.reset();
  Restart();
  Restart();
  ASSERT_CODE(kOk, Put("c", "3"));
  EXPECT_EQ(Take(*Begin({.resume_token = token}), 2), Lines({"b=2", "c=3"}));
}

TEST_P(Watches, WithoutRetentionSayWhenTheyAreTooFarBehind) {
  if (GetParam().has_commit_log) GTEST_SKIP() << "its first file stays; watch_log_test.cc fills several";
  if (GetParam().has_change_log) GTEST_SKIP() << "it keeps nothing over a restart: watch_memory_test.cc";
  START({.durability = Durability::kLogged, .watch_retention_bytes = 0});
  auto watch = Begin();
  const std::string token = watch->resume_token();
  ASSERT_CODE(kOk, Put("a", "1"));
  watch.reset();
  Restart();
  ASSERT_CODE(kOk, Put("c", "3"));
  auto late = kv_->Watch({.resume_token = token});
  absl::Status status = late.status();
  if (status.ok()) status = (*late)->Next(kLong).status();
  EXPECT_CODE(kOutOfRange, status);
  EXPECT_THAT(std::string(status.message()), testing::EndsWith("scan all, then go on with the watch"));
}

TEST_P(Watches, BadAsksAreRejected) {
  START({.durability = Durability::kLogged});
  EXPECT_CODE(kInvalidArgument, kv_->Watch({.resume_token = "nonsense"}).status());
  EXPECT_CODE(kInvalidArgument, kv_->Watch({.prefix = std::string(kMaxBoundSize + 1, 'k')}).status());
  const auto watch = Begin();
  std::optional<ChangePosition> position = ReadChangeToken(watch->resume_token());
  ASSERT_TRUE(position);
  position->sequence += 1000;
  EXPECT_CODE(kInvalidArgument, kv_->Watch({.resume_token = MakeChangeToken(*position)}).status());
  position->incarnation += 2;
  EXPECT_CODE(kOutOfRange, kv_->Watch({.resume_token = MakeChangeToken(*position)}).status());
  ASSERT_CODE(kOk, Put("a", "1"));
  EXPECT_EQ(Take(*watch, 1), Lines({"a=1"})) << "the connection is as good as before";
}

TEST_P(Watches, AStoreInMemoryHasNone) {
  START();
  EXPECT_CODE(kFailedPrecondition, kv_->Watch({}).status());
}

TEST_P(Watches, BesideWritersMissNothing) {
  if (GetParam() == DeploymentKind::kSim) GTEST_SKIP() << "one thread steps everything";
  START({.durability = Durability::kLogged});
  const int writes = slow() ? 200 : 3000;
  std::vector<std::unique_ptr<KeyValue>> kvs;
  for (int i = 0; i < 3; ++i) kvs.push_back(Connect());
  const auto watch = Begin();
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < writes; ++i) {
        ASSERT_CODE(kOk, kvs[static_cast<std::size_t>(w)]->Put("w" + std::to_string(w), std::to_string(i)));
      }
    });
  }
  std::map<std::string, int> next;
  for (int i = 0; i < 3 * writes; ++i) {
    const absl::StatusOr<bool> came = watch->Next(kLong);
    ASSERT_TRUE(came.ok() && *came) << came.status() << " after " << i;
    EXPECT_EQ(watch->value(), std::to_string(next[std::string(watch->key())]++));
  }
  EXPECT_TRUE(None(*watch));
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace remora
