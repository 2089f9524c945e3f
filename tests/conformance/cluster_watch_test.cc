// Watches over the shards of a cluster: each change once, those of a key in order, and tokens that continue.
#include "client/cluster/cluster_watch.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr milliseconds kLong = std::chrono::minutes(1);

class ClusterWatches : public Clusters {
 protected:
  std::unique_ptr<ClusterWatch> Watch(const WatchOptions& options = {}) {
    auto watch = kv_->Watch(options);
    EXPECT_TRUE(watch.ok()) << watch.status();
    return watch.ok() ? *std::move(watch) : nullptr;
  }
  /// Returns the next changes, as "key=value" or "key deleted".
  static std::vector<std::string> Take(ClusterWatch& watch, std::size_t count) {
    std::vector<std::string> changes;
    while (changes.size() < count) {
      const absl::StatusOr<bool> came = watch.Next(kLong);
      EXPECT_TRUE(came.ok() && *came) << came.status();
      if (!came.ok() || !*came) break;
      changes.push_back(std::string(watch.key()) +
                        (watch.kind() == ChangeKind::kPut ? "=" + std::string(watch.value()) : " deleted"));
    }
    return changes;
  }
  static std::vector<std::string> Sorted(std::vector<std::string> changes) {
    std::ranges::sort(changes);
    return changes;
  }
};

INSTANTIATE_TEST_SUITE_P(On, ClusterWatches,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ClusterWatches, ShowEachChangeOnce) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  ASSERT_CODE(kOk, kv_->Put("before", "x"));
  const auto watch = Watch();
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(watch->Next(milliseconds(0)).value_or(true), false);
  std::map<std::string, std::vector<std::string>> expected;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    for (const char* value : {"1", "2"}) {
      ASSERT_CODE(kOk, kv_->Put(key, value));
      expected[key].push_back(value);
    }
    if (i % 3 == 0) {
      ASSERT_CODE(kOk, kv_->Delete(key));
      expected[key].push_back("deleted");
    }
  }
  std::size_t left = 234;
  std::map<std::string, std::vector<std::string>> shown;
  std::vector<std::uint64_t> last(3);
  for (; left > 0; --left) {
    const absl::StatusOr<bool> came = watch->Next(kLong);
    ASSERT_TRUE(came.ok() && *came) << came.status();
    const bool is_put = watch->kind() == ChangeKind::kPut;
    shown[std::string(watch->key())].push_back(is_put ? std::string(watch->value()) : "deleted");
    EXPECT_EQ(watch->version() > 0, is_put);
    EXPECT_EQ(watch->expiry_ms(), 0u);
    EXPECT_EQ(watch->shard(), kv_->topology().ShardOf(watch->key()));
    EXPECT_GT(watch->sequence(), last[watch->shard()]);
    last[watch->shard()] = watch->sequence();
  }
  EXPECT_EQ(shown, expected);
  EXPECT_EQ(watch->Next(milliseconds(0)).value_or(true), false);
}

TEST_P(ClusterWatches, OmitOtherPrefixesAndKeysOfOtherShards) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const auto watch = Watch({.prefix = "user"});
  ASSERT_NE(watch, nullptr);
  const std::string here = KeyOf(0, "user"), there = KeyOf(1, "user");
  ASSERT_CODE(kOk, (*kv_->shard(1))->Put(here, "wrong"));
  ASSERT_CODE(kOk, (*kv_->shard(0))->Put(there, "wrong"));
  ASSERT_CODE(kOk, kv_->Put(KeyOf(0, "other"), "x"));
  ASSERT_CODE(kOk, kv_->Put(here, "a"));
  ASSERT_CODE(kOk, kv_->Put(there, "b"));
  EXPECT_EQ(Sorted(Take(*watch, 2)), Sorted({here + "=a", there + "=b"}));
  EXPECT_EQ(watch->Next(milliseconds(0)).value_or(true), false);
}

TEST_P(ClusterWatches, TokensContinueBehindTheLastChange) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  auto watch = Watch();
  ASSERT_NE(watch, nullptr);
  std::vector<std::string> expected, shown;
  for (int i = 100; i < 140; ++i) {
    expected.push_back("key" + std::to_string(i) + "=x");
    ASSERT_CODE(kOk, kv_->Put("key" + std::to_string(i), "x"));
  }
  while (shown.size() < expected.size()) {
    const std::string token = watch->resume_token();
    kv_ = NewClient();
    ASSERT_NE(kv_, nullptr);
    watch = Watch({.resume_token = token});
    ASSERT_NE(watch, nullptr);
    for (std::string& change : Take(*watch, 5)) shown.push_back(change);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(Sorted(shown), expected);
}

TEST_P(ClusterWatches, RejectTokensThatAreNotTheirs) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const std::string token = Watch()->resume_token();
  const std::string half = token.substr(0, token.find('.'));
  const auto fails = [&](const std::string& bad, const std::string& why) {
    const absl::Status status = kv_->Watch({.resume_token = bad}).status();
    EXPECT_CODE(kInvalidArgument, status) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << bad;
  };
  fails(half, "of 1 shards, and this topology has 2");
  fails(token + "." + half, "of 3 shards, and this topology has 2");
  fails(half + ".", "malformed");
  fails(".", "malformed");
  fails(half + ".none", NameOfShard(1));
  // Those of the other order are of other data.
  const absl::Status status =
      kv_->Watch({.resume_token = token.substr(half.size() + 1) + "." + half}).status();
  EXPECT_CODE(kOutOfRange, status);
  EXPECT_THAT(std::string(status.message()), HasSubstr(NameOfShard(0)));
}

TEST_P(ClusterWatches, ABusyShardDoesNotHideAnother) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const auto watch = Watch();
  ASSERT_NE(watch, nullptr);
  const std::string busy = KeyOf(0), other = KeyOf(1);
  for (int i = 0; i < 1000; ++i) ASSERT_CODE(kOk, kv_->Put(busy, "x"));
  ASSERT_CODE(kOk, kv_->Put(other, "x"));
  const std::vector<std::string> first = Take(*watch, 200);
  EXPECT_EQ(std::ranges::count(first, other + "=x"), 1);
}

TEST_P(ClusterWatches, AShardThatIsGoneComesBack) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  kv_ = NewClient({.timeout = milliseconds(200)});
  ASSERT_NE(kv_, nullptr);
  const auto watch = Watch();
  ASSERT_NE(watch, nullptr);
  const std::string here = KeyOf(0), there = KeyOf(1);
  ASSERT_CODE(kOk, kv_->Put(there, "a"));
  StopServer(1);
  std::vector<std::string> shown;
  absl::Status failed;
  const auto look = [&] {
    const absl::StatusOr<bool> came = watch->Next(milliseconds(1));
    if (!came.ok()) {
      failed = came.status();
    } else if (*came) {
      shown.push_back(std::string(watch->key()) + "=" + std::string(watch->value()));
    }
  };
  ASSERT_CODE(kOk, kv_->Put(here, "b"));
  while (failed.ok() || shown.empty()) look();
  EXPECT_THAT(shown, ElementsAre(here + "=b"));
  EXPECT_TRUE(absl::IsUnavailable(failed) || absl::IsDeadlineExceeded(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr(NameOfShard(1)));
  EXPECT_THAT(std::string(kv_->Watch().status().message()), HasSubstr(NameOfShard(1)));
  ASSERT_NO_FATAL_FAILURE(StartServer(1));
  while (shown.size() < 2) look();
  EXPECT_THAT(shown, ElementsAre(here + "=b", there + "=a"));
}

TEST_P(ClusterWatches, MayOutliveTheClient) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const auto watch = Watch();
  ASSERT_NE(watch, nullptr);
  const std::string key = KeyOf(1);
  ASSERT_CODE(kOk, kv_->Put(key, "x"));
  EXPECT_THAT(Take(*watch, 1), ElementsAre(key + "=x"));
  const std::string token = watch->resume_token();
  kv_.reset();
  EXPECT_CODE(kFailedPrecondition, watch->Next(kLong).status());
  EXPECT_EQ(watch->resume_token(), token);
}

TEST_P(ClusterWatches, NeedALogOfEachShard) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2, Durability::kMemory));
  const absl::Status status = kv_->Watch().status();
  EXPECT_CODE(kFailedPrecondition, status);
  EXPECT_THAT(std::string(status.message()), HasSubstr(NameOfShard(0)));
}

}  // namespace
}  // namespace remora
