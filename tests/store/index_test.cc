#include "store/index.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/format/key_search.h"
#include "store/format/record.h"

namespace remora {
namespace {

class IndexTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kIncarnation = 42;
  static constexpr IndexShape kShape{.bucket_count = 2, .overflow_count = 3};

  struct Buckets {
    Bucket all[5] = {};
  } buckets_;
  std::vector<std::byte> log_memory_ = std::vector<std::byte>(1 << 20);
  ValueLog log_{log_memory_, kIncarnation};
  Index index_{std::as_writable_bytes(std::span(buckets_.all)), kShape, log_};

  Place Record(std::string_view key, std::string_view value) {
    const Place place = *log_.Append(key, value);
    log_.Seal(place, key.size(), value.size(), 1, HashKey(key), HashValue(value.data(), value.size()));
    log_.MakeLive(place);
    return place;
  }
  bool Insert(std::string_view key) {
    if (!index_.Reserve(HashKey(key), 1)) return false;
    index_.Insert(HashKey(key), Record(key, "value"));
    return true;
  }
  /// As a reader looks for it.
  KeySearch::Step Search(std::string_view key) const {
    const StoreShape shape{kShape.bucket_count, kShape.overflow_count, log_.bytes(), kIncarnation};
    KeySearch search(key, HashKey(key), shape);
    Bucket copy;
    for (;;) {
      if (search.step() == KeySearch::Step::kReadBucket) {
        index_.Copy(search.bucket(), &copy);
        search.TakeBucket(copy);
      } else if (search.step() == KeySearch::Step::kReadRecord) {
        const Place place = Place::Of(search.slot());
        search.TakeRecord(log_.Header(place), log_.Body(place));
      } else {
        return search.step();
      }
    }
  }
  /// The i-th key whose main bucket is `bucket`.
  static std::string KeyOf(std::uint64_t bucket, int i) {
    for (int n = 0;; ++n) {
      std::string key = "key" + std::to_string(n);
      if (MainBucket(HashKey(key), kShape.bucket_count) == bucket && i-- == 0) return key;
    }
  }
};

TEST_F(IndexTest, InsertReplaceErase) {
  EXPECT_FALSE(index_.Find("key", HashKey("key")).has_value());
  ASSERT_TRUE(Insert("key"));
  const std::optional<Index::Entry> entry = index_.Find("key", HashKey("key"));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(Search("key"), KeySearch::Step::kFound);

  log_.Kill(entry->place);
  EXPECT_EQ(Search("key"), KeySearch::Step::kUnsure) << "between I5's two steps";
  const Place next = Record("key", "next");
  index_.Replace(*entry, next);
  EXPECT_EQ(Search("key"), KeySearch::Step::kFound);
  EXPECT_EQ(index_.Find("key", HashKey("key"))->place.offset_units, next.offset_units);
  EXPECT_EQ(index_.Find("key", HashKey("key"))->slot, entry->slot) << "I2: entries do not move";

  index_.Erase(*entry);
  EXPECT_FALSE(index_.Find("key", HashKey("key")).has_value());
  EXPECT_EQ(Search("key"), KeySearch::Step::kMissing);
}

TEST_F(IndexTest, ChainsGrowUntilNoOverflowBucketIsLeft) {
  // One main bucket and all three overflow buckets: 60 entries.
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(Insert(KeyOf(0, i))) << i;
    EXPECT_EQ(index_.overflow_used(), static_cast<std::uint64_t>(i / kSlotsPerBucket));
  }
  EXPECT_FALSE(Insert(KeyOf(0, 60)));
  for (int i = 0; i < 60; ++i) ASSERT_EQ(Search(KeyOf(0, i)), KeySearch::Step::kFound) << i;
  EXPECT_EQ(Search(KeyOf(0, 60)), KeySearch::Step::kMissing);
  // The other bucket has its own slots, and then is full as well.
  for (int i = 0; i < kSlotsPerBucket; ++i) ASSERT_TRUE(Insert(KeyOf(1, i))) << i;
  EXPECT_FALSE(Insert(KeyOf(1, kSlotsPerBucket)));
}

TEST_F(IndexTest, AnErasedSlotIsUsedAgainAndNothingElseMoves) {
  std::map<std::string, Index::Entry> before;
  for (int i = 0; i < 40; ++i) {
    const std::string key = KeyOf(0, i);
    ASSERT_TRUE(Insert(key));
    before[key] = *index_.Find(key, HashKey(key));
  }
  const std::string victim = KeyOf(0, 7);
  index_.Erase(before[victim]);
  ASSERT_TRUE(Insert(KeyOf(0, 40)));
  const Index::Entry entry = *index_.Find(KeyOf(0, 40), HashKey(KeyOf(0, 40)));
  EXPECT_EQ(entry.bucket, before[victim].bucket);
  EXPECT_EQ(entry.slot, before[victim].slot);
  for (const auto& [key, old] : before) {
    if (key == victim) continue;
    const std::optional<Index::Entry> now = index_.Find(key, HashKey(key));
    ASSERT_TRUE(now.has_value()) << key;
    EXPECT_EQ(now->bucket, old.bucket);
    EXPECT_EQ(now->slot, old.slot);
  }
}

TEST_F(IndexTest, ReserveMakesRoomForAsManyAsAsked) {
  EXPECT_TRUE(index_.Reserve(0, 15));
  EXPECT_EQ(index_.overflow_used(), 0u);
  EXPECT_TRUE(index_.Reserve(0, 0));
  EXPECT_TRUE(index_.Reserve(0, 16));
  EXPECT_EQ(index_.overflow_used(), 1u);
  EXPECT_TRUE(index_.Reserve(0, 16)) << "asking twice takes no more";
  EXPECT_EQ(index_.overflow_used(), 1u);
  EXPECT_FALSE(index_.Reserve(0, 61));
  EXPECT_TRUE(index_.Reserve(0, 60));
  EXPECT_EQ(index_.overflow_used(), 3u);
}

}  // namespace
}  // namespace remora
