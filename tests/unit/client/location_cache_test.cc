// Tests the location cache and its budget.
#include "client/cache/location_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

constexpr std::size_t kOneSet = 64;

std::uint64_t HashOf(int i) { return HashKey("key " + std::to_string(i)); }
KnownLocation At(std::uint64_t key_hash, std::uint64_t place, SegmentGenerations::Number number = 1) {
  return {EncodeSlot({Fingerprint(key_hash), /*extent_code=*/5, place}), number};
}

TEST(LocationCacheTest, ACachedLocationIsFound) {
  LocationCache cache(kOneSet);
  EXPECT_EQ(cache.Find(HashOf(1)).slot, 0u);
  cache.Remember(HashOf(1), At(HashOf(1), 1000, 17));
  EXPECT_EQ(cache.Find(HashOf(1)).slot, At(HashOf(1), 1000).slot);
  EXPECT_EQ(cache.Find(HashOf(1)).number, 17u);
  EXPECT_EQ(cache.Find(HashOf(2)).slot, 0u);
}

TEST(LocationCacheTest, TheLastPlaceCounts) {
  LocationCache cache(kOneSet);
  cache.Remember(HashOf(1), At(HashOf(1), 1000, 1));
  cache.Remember(HashOf(1), At(HashOf(1), 2000, 2));
  EXPECT_EQ(cache.Find(HashOf(1)).slot, At(HashOf(1), 2000).slot);
  EXPECT_EQ(cache.Find(HashOf(1)).number, 2u);
  cache.Forget(HashOf(1));
  EXPECT_EQ(cache.Find(HashOf(1)).slot, 0u);  // and there is no older one behind it
}

TEST(LocationCacheTest, ForgettingWhatIsNotThereTouchesNothing) {
  LocationCache cache(kOneSet);
  cache.Remember(HashOf(1), At(HashOf(1), 1000));
  cache.Forget(HashOf(2));
  EXPECT_NE(cache.Find(HashOf(1)).slot, 0u);
}

TEST(LocationCacheTest, KeysWithEqualTagsAreToldApartByTheFingerprint) {
  LocationCache cache(kOneSet);
  const std::uint64_t one = 0x1230'0000'5555'5555;
  const std::uint64_t other = 0x4560'0000'5555'5555;
  cache.Remember(one, At(one, 1000));
  EXPECT_EQ(cache.Find(other).slot, 0u);
  cache.Forget(other);
  EXPECT_NE(cache.Find(one).slot, 0u);
}

TEST(LocationCacheTest, AFrequentLocationIsNotReplaced) {
  LocationCache cache(kOneSet);
  ASSERT_EQ(cache.capacity(), 4u);
  for (int i = 0; i < 4; ++i) cache.Remember(HashOf(i), At(HashOf(i), 1000));
  for (int i = 4; i < 100; ++i) {
    EXPECT_NE(cache.Find(HashOf(2)).slot, 0u);
    cache.Remember(HashOf(i), At(HashOf(i), 1000));
    EXPECT_NE(cache.Find(HashOf(i)).slot, 0u);  // the newest is always in
  }
}

// A key that was popular once does not hold its way for ever.
TEST(LocationCacheTest, ALocationThatIsNoLongerUsedIsReplaced) {
  LocationCache cache(kOneSet);
  for (int i = 0; i < 4; ++i) {
    cache.Remember(HashOf(i), At(HashOf(i), 1000));
    for (int hits = 0; hits < 10; ++hits) cache.Find(HashOf(i));
  }
  for (int i = 10; i < 14; ++i) {
    cache.Remember(HashOf(i), At(HashOf(i), 1000));
    for (int hits = 0; hits < 4; ++hits) cache.Find(HashOf(i));
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cache.Find(HashOf(i)).slot, 0u) << i;
  for (int i = 10; i < 14; ++i) EXPECT_NE(cache.Find(HashOf(i)).slot, 0u) << i;
}

TEST(LocationCacheTest, ATableOfAnySizeHoldsAboutAsManyAsItHasSpaceFor) {
  LocationCache cache(100 * kOneSet + 63);
  ASSERT_EQ(cache.capacity(), 400u);
  for (int i = 0; i < 400; ++i) cache.Remember(HashOf(i), At(HashOf(i), 1000));
  int found = 0;
  for (int i = 0; i < 400; ++i) found += cache.Find(HashOf(i)).slot != 0;
  EXPECT_GT(found, 300);  // sets fill unevenly
}

TEST(LocationCacheTest, OfLessThanASetThereIsNone) {
  LocationCache cache(63);
  EXPECT_FALSE(cache.is_on());
  cache.Remember(HashOf(1), At(HashOf(1), 1000));
  EXPECT_EQ(cache.Find(HashOf(1)).slot, 0u);
  cache.Forget(HashOf(1));
}

TEST(ReadAllowanceTest, AFewAtOnceThenNone) {
  SpeculationBudget allowance;
  int spent = 0;
  for (; allowance.has_some(); ++spent) allowance.Spend();
  EXPECT_EQ(spent, SpeculationBudget::kAtOnce);
}

TEST(ReadAllowanceTest, InTheLongRunOneForEachPrice) {
  SpeculationBudget allowance;
  std::int64_t spent = 0;
  for (int reads = 0; reads < 12000; ++reads) {
    while (allowance.has_some()) {
      allowance.Spend();
      ++spent;
    }
    allowance.Earn(1);
  }
  EXPECT_NEAR(static_cast<double>(spent), 12000.0 / SpeculationBudget::kPrice, SpeculationBudget::kAtOnce);
}

TEST(ReadAllowanceTest, GoodTimesAreNotSavedUp) {
  SpeculationBudget allowance;
  allowance.Earn(1'000'000);
  std::int64_t spent = 0;
  for (; allowance.has_some(); ++spent) allowance.Spend();
  EXPECT_EQ(spent, SpeculationBudget::kAtOnce);
}

}  // namespace
}  // namespace remora
