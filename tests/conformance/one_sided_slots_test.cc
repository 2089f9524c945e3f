// One-sided scans at a server that has a part of a cluster's slots (S1 and S2 of client/scan/leaf_scan.h).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/region/atomic_word.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/scans_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

constexpr std::uint32_t kOwnedSlots = kSlots / 2;

class OneSidedSlots : public Scans {
 protected:
  /// Starts a server that has the lower half of the slots.
  void StartLower() {
    ClusterSlots slots;
    slots.Add(0, kOwnedSlots - 1);
    Start({.durability = is_in_memory() ? Durability::kMemory : Durability::kLogged,
           .memory_size = 16 * kMiB,
           .ordered_index = true,
           .slots = std::make_shared<const ClusterSlots>(slots)});
  }
  /// Returns a key that begins with `name`, of the server's slots or of others.
  static std::string KeyIn(bool own, const std::string& name) {
    for (int i = 0;; ++i) {
      std::string key = name + " " + std::to_string(i);
      if ((SlotOf(key) < kOwnedSlots) == own) return key;
    }
  }
  /// Puts `count` keys of the server's slots, in their order, with `key_size` bytes more each.
  Pairs FillOwn(int count, std::size_t value_size = 100, std::size_t key_size = 0) {
    Pairs pairs;
    for (int i = 0; i < count; ++i) {
      const std::string stem = std::to_string(100'000 + i) + std::string(key_size, 'l');
      pairs.emplace_back(KeyIn(true, stem), std::to_string(i) + std::string(value_size, 'v'));
      EXPECT_CODE(kOk, Put(pairs.back().first, pairs.back().second));
    }
    return pairs;
  }
  /// Puts keys of several leaves.
  Pairs FillLeaves() { return FillOwn(slow() ? 300 : 1500, 100, 60); }
  /// Sets the word as a server does that gives slots away, or gets some.
  void RaiseWord() {
    std::uint64_t& word = const_cast<Superblock&>(store().superblock()).slots_word;
    StoreWord(word, LoadWord(word, std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Shows the rest of a scan, and expects that it ends because slots came or went. Returns how many it
  /// showed.
  static std::size_t ShowUntilMoved(KeyScan& scan) {
    std::size_t shown = 0;
    while (scan.Next()) ++shown;
    EXPECT_TRUE(IsMoved(scan.status())) << scan.status();
    EXPECT_NE(scan.status().message().find("begin anew"), absl::string_view::npos) << scan.status();
    return shown;
  }
};
INSTANTIATE_TEST_SUITE_P(On, OneSidedSlots, testing::ValuesIn(ClientsOfOrderedIndex()), NameOfScanned);

#define START_LOWER() \
  StartLower();       \
  if (IsSkipped() || HasFatalFailure()) return

TEST_P(OneSidedSlots, AgreeWithScansOfTheServer) {
  START_LOWER();
  EXPECT_TRUE(All({.one_sided = true}).empty());
  const Pairs pairs = FillLeaves();
  EXPECT_TRUE(IsMoved(Put(KeyIn(false, "other"), "of another server")));
  for (const bool reverse : {false, true}) {
    for (const std::uint64_t limit : {0u, 1u, 70u}) {
      EXPECT_TRUE(All({.reverse = reverse, .limit = limit, .one_sided = true}) ==
                  All({.reverse = reverse, .limit = limit}));
    }
  }
  EXPECT_TRUE(All({.one_sided = true}) == pairs);
}

TEST_P(OneSidedSlots, AskTheServerOnce) {
  START_LOWER();
  FillLeaves();
  All({.one_sided = true});
  const ClientCounters before = kv_->client()->counters();
  All({.one_sided = true});
  const ClientCounters cost = kv_->client()->counters() - before;
  EXPECT_EQ(cost.requests, 1u);
}

TEST_P(OneSidedSlots, EndOnceSlotsCameOrWent) {
  START_LOWER();
  const Pairs pairs = FillLeaves();
  for (const bool reverse : {false, true}) {
    const auto scan = Begin({.reverse = reverse, .one_sided = true});
    ASSERT_TRUE(scan->Next());
    RaiseWord();
    EXPECT_LT(ShowUntilMoved(*scan), pairs.size() / 2) << "the rest of a page";
    EXPECT_EQ(All({.reverse = reverse, .one_sided = true}).size(), pairs.size()) << "a new scan has the word";
  }
}

TEST_P(OneSidedSlots, DoNotEndAsIfNothingWereLeft) {
  START_LOWER();
  const Pairs pairs = FillLeaves();
  const auto scan = Begin({.one_sided = true});
  ASSERT_TRUE(scan->Next());
  // The word changes so when the last slots of a server go.
  RaiseWord();
  for (const auto& [key, value] : pairs) ASSERT_CODE(kOk, Delete(key));
  EXPECT_LT(ShowUntilMoved(*scan), pairs.size());
}

// The server shows these keys in pages, and loses the scan among others. It goes on as of a later moment.
TEST_P(OneSidedSlots, PartsThatTheServerShowsEnd) {
  START_LOWER();
  const Pairs pairs = FillOwn(150, 100, kMaxKeySize - 100);
  const auto scan = Begin({.limit = pairs.size(), .one_sided = true});
  ASSERT_TRUE(scan->Next());
  std::vector<std::unique_ptr<KeyScan>> others;
  for (int i = 0; i < 6; ++i) {
    others.push_back(Begin());
    ASSERT_TRUE(others.back()->Next());
  }
  RaiseWord();
  EXPECT_LT(ShowUntilMoved(*scan) + 1, pairs.size());
}

TEST_P(OneSidedSlots, GoOnAfterARestart) {
  if (is_in_memory()) return;
  START_LOWER();
  const Pairs pairs = FillLeaves();
  RaiseWord();
  const auto scan = Begin({.one_sided = true}), other = Begin({.one_sided = true});
  ASSERT_TRUE(scan->Next());
  ASSERT_TRUE(other->Next());
  const absl::Status restarted = deployment_->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  ASSERT_TRUE(Await([&] { return kv_->Count({}).ok() && !store().loading(); }));
  EXPECT_EQ(Rest(*scan).size() + 1, pairs.size()) << "the word of an earlier start says nothing of this one";
  std::size_t shown = 1;
  for (; shown < pairs.size() / 2; ++shown) ASSERT_TRUE(other->Next());
  RaiseWord();
  EXPECT_LT(shown + ShowUntilMoved(*other), pairs.size()) << "it has the word of this start by now";
}

}  // namespace
}  // namespace remora
