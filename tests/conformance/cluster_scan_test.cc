// Scans over the shards of a cluster: one order of keys, and tokens that continue anywhere in it.
#include "client/cluster/cluster_scan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using testing::HasSubstr;

class ClusterScans : public Clusters {
 protected:
  /// Puts keys of equal length, and returns them in their order.
  std::vector<std::string> PutKeys(int count) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; ++i) {
      keys.push_back("key" + std::to_string(1000 + i));
      EXPECT_CODE(kOk, kv_->Put(keys.back(), "value of " + keys.back()));
    }
    return keys;
  }
  std::vector<std::string> Shown(const ScanOptions& options) {
    std::vector<std::string> keys;
    auto scan = kv_->Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    if (!scan.ok()) return keys;
    while ((*scan)->Next()) {
      keys.emplace_back((*scan)->key());
      if (!options.keys_only) {
        EXPECT_EQ((*scan)->value(), "value of " + keys.back());
      }
    }
    EXPECT_CODE(kOk, (*scan)->status());
    return keys;
  }
  /// Shows everything by scans of a few entries each, which tokens continue.
  std::vector<std::string> ShownInPieces(const ScanOptions& options, std::uint64_t limit) {
    std::vector<std::string> keys;
    ScanOptions next = options;
    for (std::string token;;) {
      next.limit = limit;
      auto scan = kv_->Scan(next);
      EXPECT_TRUE(scan.ok()) << scan.status();
      if (!scan.ok()) return keys;
      const std::string before = (*scan)->resume_token();
      EXPECT_FALSE(before.empty());
      std::uint64_t count = 0;
      for (; (*scan)->Next(); ++count) keys.emplace_back((*scan)->key());
      EXPECT_CODE(kOk, (*scan)->status());
      EXPECT_LE(count, limit);
      token = (*scan)->resume_token();
      if (count == 0) return keys;
      next = {.resume_token = token};
    }
  }
};

INSTANTIATE_TEST_SUITE_P(On, ClusterScans,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ClusterScans, ShowAllKeysInOneOrder) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  const std::vector<std::string> keys = PutKeys(300);
  EXPECT_EQ(Shown({}), keys);
  EXPECT_EQ(Shown({.keys_only = true}), keys);
  EXPECT_EQ(Shown({.prefix = "key12"}), std::vector(keys.begin() + 200, keys.end()));
  EXPECT_EQ(Shown({.begin = "key1005", .end = "key1009"}), std::vector(keys.begin() + 5, keys.begin() + 9));
  EXPECT_EQ(Shown({.limit = 17}), std::vector(keys.begin(), keys.begin() + 17));
  const std::vector<std::string> backwards(keys.rbegin(), keys.rend());
  EXPECT_EQ(Shown({.reverse = true}), backwards);
  EXPECT_EQ(Shown({.reverse = true, .limit = 17}), std::vector(backwards.begin(), backwards.begin() + 17));
  EXPECT_TRUE(Shown({.prefix = "none"}).empty());
}

TEST_P(ClusterScans, TokensContinueBehindTheLastEntry) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  const std::vector<std::string> keys = PutKeys(60);
  for (const std::uint64_t limit : {1u, 7u, 60u, 100u}) {
    EXPECT_EQ(ShownInPieces({}, limit), keys);
    EXPECT_EQ(ShownInPieces({.prefix = "key102"}, limit), std::vector(keys.begin() + 20, keys.begin() + 30));
    EXPECT_EQ(ShownInPieces({.reverse = true}, limit), std::vector(keys.rbegin(), keys.rend()));
  }
}

TEST_P(ClusterScans, ATokenOfABeginIsRightForAllKeys) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  const std::vector<std::string> keys = PutKeys(30);
  auto scan = kv_->Scan({});
  ASSERT_TRUE(scan.ok());
  const std::string begin = (*scan)->resume_token();
  EXPECT_EQ(Shown({.resume_token = begin}), keys);
  ASSERT_TRUE((*scan)->Next());
  EXPECT_EQ(Shown({.resume_token = begin}), keys);
  EXPECT_EQ(Shown({.resume_token = (*scan)->resume_token()}), std::vector(keys.begin() + 1, keys.end()));
}

TEST_P(ClusterScans, InMemoryShowEachKeyOnce) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3, Durability::kMemory));
  const std::vector<std::string> keys = PutKeys(100);
  EXPECT_CODE(kFailedPrecondition, kv_->Scan({}).status());
  std::vector<std::string> shown = Shown({.any_order = true});
  std::sort(shown.begin(), shown.end());
  EXPECT_EQ(shown, keys);
  for (const std::uint64_t limit : {1u, 7u, 100u}) {
    shown = ShownInPieces({.any_order = true}, limit);
    std::sort(shown.begin(), shown.end());
    EXPECT_EQ(shown, keys) << limit;
    shown = ShownInPieces({.prefix = "key102", .any_order = true}, limit);
    std::sort(shown.begin(), shown.end());
    EXPECT_EQ(shown, std::vector(keys.begin() + 20, keys.begin() + 30)) << limit;
  }
}

TEST_P(ClusterScans, InAnyOrderOfLoggedStoresKeepTheirRange) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  const std::vector<std::string> keys = PutKeys(100);
  std::vector<std::string> shown = ShownInPieces({.prefix = "key102", .any_order = true}, 3);
  std::sort(shown.begin(), shown.end());
  EXPECT_EQ(shown, std::vector(keys.begin() + 20, keys.begin() + 30));
}

TEST_P(ClusterScans, OmitKeysOfOtherShards) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const std::vector<std::string> keys = PutKeys(50);
  // All keys into both servers, past the cluster.
  for (std::size_t shard = 0; shard < 2; ++shard) {
    for (const std::string& key : keys) {
      if (kv_->topology().ShardOf(key) == shard) continue;
      ASSERT_CODE(kOk, (*kv_->shard(shard))->Put(key, "wrong"));
    }
  }
  EXPECT_EQ(Shown({}), keys);
  EXPECT_EQ(ShownInPieces({}, 5), keys);
  EXPECT_EQ(ShownInPieces({.reverse = true}, 5), std::vector(keys.rbegin(), keys.rend()));
}

TEST_P(ClusterScans, KeysOfOtherShardsDoNotCountForTheLimit) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const std::vector<std::string> keys = PutKeys(50);
  // In front of all keys, and in one server alone.
  for (int i = 0, wrong = 0; wrong < 30; ++i) {
    const std::string key = "a" + std::to_string(i);
    if (kv_->topology().ShardOf(key) == 0) continue;
    ASSERT_CODE(kOk, (*kv_->shard(0))->Put(key, "wrong"));
    ++wrong;
  }
  for (const std::uint64_t limit : {1u, 17u, 30u, 31u, 50u}) {
    EXPECT_EQ(Shown({.limit = limit}),
              std::vector(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(limit)));
  }
}

TEST_P(ClusterScans, WrongTokensAreRejected) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  PutKeys(10);
  for (const char* const token : {"x", "1.", "1.x", ".a.b", "x.a.b", "-1.a.b", "1.a.b"}) {
    EXPECT_CODE(kInvalidArgument, kv_->Scan({.resume_token = token}).status()) << token;
  }
  auto scan = kv_->Scan({.any_order = true});
  ASSERT_TRUE(scan.ok());
  const std::string token = (*scan)->resume_token();
  const absl::Status rejected = kv_->Scan({.resume_token = "7" + token.substr(1)}).status();
  EXPECT_CODE(kInvalidArgument, rejected);
  EXPECT_THAT(std::string(rejected.message()),
              HasSubstr("names shard number 7, and this topology has only 2"));
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.prefix = "a", .resume_token = token}).status());
}

TEST_P(ClusterScans, EndWithTheNameOfAShardThatIsDown) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const std::vector<std::string> keys = PutKeys(1000);
  kv_ = NewClient({.timeout = std::chrono::seconds(3), .scan_window_bytes = 2 * kMinPageSize});
  ASSERT_NE(kv_, nullptr);
  auto scan = kv_->Scan({});
  ASSERT_TRUE(scan.ok());
  std::vector<std::string> shown;
  for (int i = 0; i < 10 && (*scan)->Next(); ++i) shown.emplace_back((*scan)->key());
  StopServer(1);
  while ((*scan)->Next()) shown.emplace_back((*scan)->key());
  EXPECT_CODE(kUnavailable, (*scan)->status());
  EXPECT_THAT(std::string((*scan)->status().message()), HasSubstr(NameOfShard(1)));
  EXPECT_CODE(kUnavailable, kv_->Scan({}).status());
  const std::string token = (*scan)->resume_token();
  ASSERT_NO_FATAL_FAILURE(StartServer(1));
  kv_ = NewClient();
  ASSERT_NE(kv_, nullptr);
  for (const std::string& key : Shown({.resume_token = token})) shown.push_back(key);
  EXPECT_EQ(shown, keys);
}

}  // namespace
}  // namespace remora
