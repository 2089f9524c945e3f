// One-sided scans (ScanOptions::one_sided): the client READs the leaves of the server's ordered index, and
// the records of their keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/scans_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using testing::HasSubstr;

class OneSidedScans : public Scans {
 protected:
  Pairs AllOneSided(ScanOptions options = {}) {
    options.one_sided = true;
    return All(options);
  }
  /// Scans once, so that the client knows all leaves.
  std::uint64_t RequestsOf(const ScanOptions& options) {
    const std::uint64_t before = kv_->client()->counters().requests;
    AllOneSided(options);
    return kv_->client()->counters().requests - before;
  }
};
INSTANTIATE_TEST_SUITE_P(On, OneSidedScans, testing::ValuesIn(ClientsOfOrderedIndex()), NameOfScanned);

TEST_P(OneSidedScans, AgreeWithThoseOfTheServer) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  std::mt19937 random(3);
  for (int i = 0; i < 600; ++i) {
    const std::string key =
        std::string(1 + random() % 3, static_cast<char>(random() % 7 * 42)) + static_cast<char>(random());
    const std::size_t sizes[] = {0, random() % 100, random() % 5000, i % 50 == 0 ? 300'000u : 7u};
    ASSERT_CODE(kOk, Put(key, std::string(sizes[random() % 4], static_cast<char>('a' + i % 26))));
  }
  for (int i = 0; i < (slow() ? 40 : 300); ++i) {
    const auto bound = [&] {
      return random() % 2 == 0 ? std::string() : std::string(1, static_cast<char>(random() % 7 * 42));
    };
    const std::string prefix = bound(), begin = bound(), end = bound();
    ScanOptions options{.prefix = prefix, .begin = begin, .end = end};
    options.reverse = random() % 2 == 0;
    options.keys_only = random() % 4 == 0;
    options.limit = random() % 3 == 0 ? 1 + random() % 60 : 0;
    ASSERT_TRUE(AllOneSided(options) == All(options)) << i;
  }
}

// The keys have many leaves. The second time the client knows these, and the server has nothing to do.
TEST_P(OneSidedScans, TheServerDoesNothingOnceTheClientKnowsTheLeaves) {
  StartInOrder({}, 64 * kMiB);
  if (IsSkipped() || HasFatalFailure()) return;
  const int count = slow() ? 2000 : 20'000;
  Pairs pairs = Fill(count, 8);
  EXPECT_TRUE(AllOneSided() == pairs);
  EXPECT_EQ(RequestsOf({}), 0u);
  EXPECT_EQ(RequestsOf({.reverse = true}), 0u);
  EXPECT_EQ(RequestsOf({.begin = KeyOf(count / 2), .limit = 50}), 0u);
  EXPECT_EQ(RequestsOf({.prefix = "nothing"}), 0u);
  std::reverse(pairs.begin(), pairs.end());
  EXPECT_TRUE(AllOneSided({.reverse = true}) == pairs);
  // Another client finds its way by the links. It asks once.
  kv_ = Connect();
  EXPECT_EQ(RequestsOf({}), 1u);
}

TEST_P(OneSidedScans, ShowVersionsAndExpiries) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  for (int i = 0; i < 100; ++i) {
    PutOptions put;
    if (i % 3 == 0) put.ttl = std::chrono::hours(1000 + i);
    ASSERT_CODE(kOk, kv_->Put(KeyOf(i), "value", put));
  }
  const auto ours = Begin({.one_sided = true});
  const auto theirs = Begin();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(ours->Next() && theirs->Next()) << ours->status();
    EXPECT_EQ(ours->key(), theirs->key());
    EXPECT_EQ(ours->version(), theirs->version());
    EXPECT_EQ(ours->expiry_ms(), theirs->expiry_ms());
    EXPECT_EQ(ours->expiry_ms() != 0, i % 3 == 0);
  }
}

TEST_P(OneSidedScans, AnEmptyStoreAndEmptyRanges) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_TRUE(AllOneSided().empty());
  EXPECT_TRUE(AllOneSided({.reverse = true}).empty());
  ASSERT_CODE(kOk, Put("\xff\xff", "value"));
  EXPECT_TRUE(AllOneSided({.begin = "b", .end = "a"}).empty());
  EXPECT_TRUE(AllOneSided({.begin = "b", .end = "a", .reverse = true}).empty());
  EXPECT_EQ(AllOneSided({.prefix = "\xff\xff"}).size(), 1u);
  ASSERT_CODE(kOk, Delete("\xff\xff"));
  EXPECT_TRUE(AllOneSided().empty());
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(AllOneSided().size(), 1u) << "the leaf that the client knew is gone";
}

// A leaf of such a key cannot be READ: the server shows it, and the client goes on behind it.
TEST_P(OneSidedScans, TheServerShowsWhatCannotBeRead) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  for (int i = 0; i < 900; ++i) {
    std::string key = KeyOf(i);
    if (i % 300 == 7) key.resize(kMaxKeySize, 'l');
    ASSERT_CODE(kOk, Put(key, std::to_string(i)));
  }
  for (const bool reverse : {false, true}) {
    for (const std::uint64_t limit : {0u, 1u, 8u, 9u, 300u}) {
      EXPECT_TRUE(AllOneSided({.reverse = reverse, .limit = limit}) ==
                  All({.reverse = reverse, .limit = limit}));
    }
  }
  const std::string begin = KeyOf(7);
  EXPECT_TRUE(AllOneSided({.begin = begin}) == All({.begin = begin}));
}

TEST_P(OneSidedScans, ResumeTokensAreThoseOfAllScans) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(500);
  std::string token;
  Pairs shown;
  for (int i = 0; shown.size() < pairs.size(); ++i) {
    const auto scan = Begin({.limit = 60, .resume_token = token, .one_sided = i % 2 == 0});
    const Pairs some = Rest(*scan);
    ASSERT_FALSE(some.empty());
    shown.insert(shown.end(), some.begin(), some.end());
    token = scan->resume_token();
  }
  EXPECT_TRUE(shown == pairs);
}

TEST_P(OneSidedScans, WhatMakesNoSenseSaysWhy) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  Fill(3);
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.any_order = true, .one_sided = true}).status());
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.one_moment = true, .one_sided = true}).status());
  const std::string long_bound(kMaxKeySize + 2, 'k');
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.prefix = long_bound, .one_sided = true}).status());
}

TEST_P(OneSidedScans, TwoTakeTurnsWithOneOfTheServer) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(1500, 20);
  const auto one = Begin({.one_sided = true});
  const auto other = Begin({.reverse = true, .one_sided = true});
  const auto theirs = Begin();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_TRUE(one->Next() && other->Next() && theirs->Next());
    ASSERT_EQ(one->key(), pairs[i].first);
    ASSERT_EQ(one->value(), pairs[i].second);
    ASSERT_EQ(theirs->key(), pairs[i].first);
    ASSERT_EQ(other->key(), pairs[pairs.size() - 1 - i].first);
  }
  EXPECT_FALSE(one->Next() || other->Next() || theirs->Next());
}

// Keys around those that stay come and go, so many that leaves are split and joined under the scan.
TEST_P(OneSidedScans, ShowEachKeyThatStaysOnceWhileOthersComeAndGo) {
  StartInOrder({}, 64 * kMiB);
  if (IsSkipped() || HasFatalFailure()) return;
  std::map<std::string, std::string> stay;
  std::mt19937 random(7);
  const auto any_key = [&] {
    return KeyOf(static_cast<int>(random() % 3000)) + (random() % 2 == 0 ? "" : " guest");
  };
  for (int i = 0; i < 3000; i += 5) {
    stay[KeyOf(i)] = std::to_string(i);
    ASSERT_CODE(kOk, Put(KeyOf(i), std::to_string(i)));
  }
  const std::unique_ptr<KeyValue> other = Connect();
  for (int round = 0; round < (slow() ? 2 : 10); ++round) {
    const bool reverse = round % 2 != 0;
    const auto scan = Begin({.reverse = reverse, .one_sided = true});
    std::vector<std::string> seen;
    std::string last;
    while (scan->Next()) {
      const std::string key(scan->key());
      if (!last.empty()) {
        ASSERT_TRUE(reverse ? key < last : key > last);
      }
      last = key;
      if (stay.contains(key)) {
        ASSERT_EQ(scan->value(), stay[key]);
        seen.push_back(key);
      }
      for (int i = 0; i < 3; ++i) {
        const std::string changed = any_key();
        if (stay.contains(changed)) continue;
        if (random() % 2 == 0) {
          ASSERT_CODE(kOk, other->Put(changed, "guest"));
        } else {
          const absl::Status gone = other->Delete(changed);
          ASSERT_TRUE(gone.ok() || absl::IsNotFound(gone)) << gone;
        }
      }
    }
    ASSERT_CODE(kOk, scan->status());
    EXPECT_EQ(seen.size(), stay.size());
  }
}

// Four times as much as memory holds: most records are read from the disk, as by GETs.
TEST_P(OneSidedScans, ShowColdKeys) {
  if (is_in_memory()) return;
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(slow() ? 700 : 3000, 20'000);
  EXPECT_TRUE(AllOneSided() == pairs);
}

TEST_P(OneSidedScans, GoOnAfterARestart) {
  if (is_in_memory()) return;
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(1000);
  EXPECT_TRUE(AllOneSided() == pairs);
  const auto scan = Begin({.one_sided = true});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(scan->Next());
  const absl::Status restarted = deployment_->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  // The first call meets the end of the connection; the server may still be loading.
  ASSERT_TRUE(Await([&] { return kv_->Count({}).ok() && !store().loading(); }));
  const Pairs rest = Rest(*scan);
  ASSERT_EQ(rest.size(), pairs.size() - 10);
  EXPECT_EQ(rest.back().first, pairs.back().first);
}

// --- Servers that have no leaves to READ ----------------------------------------------------------------

class OneSidedElsewhere : public Behaviour {};
INSTANTIATE_TEST_SUITE_P(On, OneSidedElsewhere,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(OneSidedElsewhere, WithoutAnOrderedIndexTheErrorSaysWhatToDo) {
  START({});
  const absl::Status status = kv_->Scan({.one_sided = true}).status();
  EXPECT_CODE(kFailedPrecondition, status);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--ordered=memory"));
}

}  // namespace
}  // namespace remora
