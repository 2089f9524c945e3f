// A random test of an index with its log and its cleaner,
// against a plain map, with readers that stop anywhere.
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "index_walk.h"
#include "store/index/index.h"
#include "store_parts.h"

namespace remora {
namespace {

using Step = KeySearch::Step;

struct Mix {
  const char* name;
  std::uint64_t keys;      // number of possible keys
  std::size_t value_size;  // maximum
  unsigned erase_percent;  // share of the writes
  unsigned pass_percent;   // share of all operations
  std::size_t segments;
  bool cleans;
  bool fills = false;
  bool chills = false;
};

/// A reader in flight, and the results that are correct at its end.
struct Started {
  std::list<Reader>::iterator reader;
  TimePoint start;
  bool was_there = false;  // since the start
  bool could_be_there = false;
  bool could_be_cold = false;
  std::set<std::string> values = {};  // values of the key since the start
};

class IndexModelTest : public testing::TestWithParam<Mix> {
 protected:
  const Mix mix_ = GetParam();
  StoreParts parts_{mix_.segments};
  Model model_;
  std::mt19937_64 random_{mix_.keys + mix_.erase_percent};
  std::list<Reader> readers_;
  std::vector<Started> started_;
  std::uint64_t full_ = 0;
  std::uint64_t stale_cold_ = 0;
  std::uint64_t ends_[7] = {};  // number of readers that ended, by their last step

  bool Chance(unsigned percent) { return random_() % 100 < percent; }
  std::string AnyKey() { return "key" + std::to_string(random_() % mix_.keys); }

  void Write() {
    const std::string key = AnyKey();
    if (Chance(mix_.erase_percent)) {
      ASSERT_EQ(parts_.Erase(key), model_.erase(key) == 1) << key;
      for (Started& started : started_) started.was_there &= started.reader->key() != key;
      return;
    }
    const std::string value(random_() % (mix_.value_size + 1), static_cast<char>('a' + random_() % 26));
    if (!parts_.Put(key, value)) {
      ++full_;
      return;
    }
    model_[key] = value;
    for (Started& started : started_) {
      if (started.reader->key() == key) started.values.insert(value);
      started.could_be_there |= started.reader->key() == key;
    }
  }

  /// Makes a key cold, or promotes it if it is cold. Its value stays the same.
  void ChillOrFetch() {
    const auto near = model_.lower_bound(AnyKey());
    if (near == model_.end()) return;
    const std::string& key = near->first;
    if (!parts_.IsCold(key)) {
      parts_.MarkCold(key);
      for (Started& started : started_) started.could_be_cold |= started.reader->key() == key;
    } else if (!parts_.Fetch(key)) {
      ++full_;
    }
  }

  void StartAReader() {
    std::string key = AnyKey();
    if (const auto near = model_.lower_bound(key); near != model_.end() && Chance(70)) key = near->first;
    readers_.emplace_back(parts_, key, Chance(50) ? kFirstView : parts_.index.view());
    Started started{std::prev(readers_.end()), parts_.now};
    const auto found = model_.find(key);
    started.was_there = started.could_be_there = found != model_.end();
    if (started.was_there) started.values.insert(found->second);
    started.could_be_cold = started.was_there && parts_.IsCold(key);
    started_.push_back(std::move(started));
  }

  /// Lets one reader read once. Discards it if it began longer ago
  /// than the reuse delay, after which its result is not valid.
  void StepAReader() {
    if (started_.empty()) return;
    const auto started = started_.begin() + static_cast<std::ptrdiff_t>(random_() % started_.size());
    const bool late = parts_.now - started->start >= kTestRest;
    if (!late && started->reader->Read()) return;
    if (!late) {
      ASSERT_NO_FATAL_FAILURE(CheckEnd(*started));
    }
    readers_.erase(started->reader);
    started_.erase(started);
  }
  void CheckEnd(const Started& started) {
    const Reader& reader = *started.reader;
    const Step step = reader.search().step();
    ++ends_[static_cast<std::size_t>(step)];
    if (started.was_there) {
      ASSERT_NE(step, Step::kMissing) << reader.key();
    }
    if (step == Step::kCold && !started.could_be_cold) ++stale_cold_;
    if (step != Step::kFound) return;
    ASSERT_TRUE(started.could_be_there) << reader.key();
    ASSERT_EQ(started.values.count(reader.value()), 1u) << reader.key();
  }

  void Operate() {
    if (Chance(mix_.pass_percent)) {
      parts_.Pass(std::chrono::milliseconds(random_() % 60));
    } else if (Chance(20)) {
      parts_.index.Grow(random_() % 4, parts_.now);
    } else if (mix_.cleans && Chance(20)) {
      parts_.cleaner.Work(random_() % 10'000, parts_.now, 0);
    } else if (mix_.chills && Chance(30)) {
      ChillOrFetch();
    } else if (Chance(15)) {
      StartAReader();
    } else if (Chance(50)) {
      ASSERT_NO_FATAL_FAILURE(StepAReader());
    } else {
      ASSERT_NO_FATAL_FAILURE(Write());
    }
  }
  void CheckAll(bool settled) const {
    ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, model_, settled).Check());
    for (const auto& [key, value] : model_) ASSERT_EQ(parts_.ValueOf(key), value) << key;
  }
};

TEST_P(IndexModelTest, HoldsWhatAMapHolds) {
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 1000; ++i) ASSERT_NO_FATAL_FAILURE(Operate()) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(CheckAll(false)) << "round " << round;
    if (round % 20 != 19) continue;
    parts_.Settle();
    ASSERT_NO_FATAL_FAILURE(CheckAll(true)) << "round " << round;
  }
  EXPECT_GT(ends_[static_cast<std::size_t>(Step::kFound)], 1000u);
  EXPECT_GT(ends_[static_cast<std::size_t>(Step::kMissing)], 100u);
  EXPECT_GT(parts_.index.bucket_count(), std::uint64_t{1} << Index::kFirstLevel);
  EXPECT_EQ(full_ > 0, mix_.fills) << full_ << " writes found no space";
  if (mix_.chills) {
    // A reader may say kCold of a key that is not cold, if
    // the key was erased or promoted while the reader ran.
    EXPECT_GT(ends_[static_cast<std::size_t>(Step::kCold)], 500u);
    EXPECT_LT(stale_cold_, ends_[static_cast<std::size_t>(Step::kCold)] / 20);
  }
  if (mix_.cleans) {
    EXPECT_GT(parts_.cleaner.segments_cleaned(), 10u);
  }
}

// Without the cleaner, the region must have space for every value ever written.
INSTANTIATE_TEST_SUITE_P(Mixes, IndexModelTest,
                         testing::Values(Mix{"Growing", 200'000, 30, 5, 5, 24, false},
                                         Mix{"ComingAndGoing", 4'000, 30, 45, 10, 24, false},
                                         Mix{"InNoTime", 6'000, 30, 30, 1, 24, false},
                                         Mix{"Cleaned", 5'000, 3'000, 25, 10, 16, true},
                                         Mix{"AlmostFull", 7'000, 5'000, 15, 20, 16, true, true},
                                         Mix{"Chilled", 6'000, 3'000, 30, 5, 16, true, false, true},
                                         Mix{"ChilledInNoTime", 4'000, 2'000, 20, 1, 24, true, false, true}),
                         [](const auto& mix) { return mix.param.name; });

}  // namespace
}  // namespace remora
