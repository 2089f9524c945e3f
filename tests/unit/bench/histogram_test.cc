#include "bench/kvbench/load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bench/kvbench/load/random.h"

namespace remora::bench {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::uint64_t OnlyValueSeen(std::uint64_t value) {
  Histogram histogram;
  histogram.Add(value);
  histogram.Add(kMax);  // so that max() does not stand in for the cell's top
  return histogram.Quantile(0.5);
}

TEST(Histogram, EmptySaysZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
  EXPECT_EQ(histogram.Quantile(1), 0u);
}

TEST(Histogram, ManyAtOnceAreAsManyOneByOne) {
  Histogram at_once;
  Histogram one_by_one;
  for (const std::uint64_t value : {1000u, 3u}) {
    at_once.Add(value, 5);
    for (int i = 0; i < 5; ++i) one_by_one.Add(value);
  }
  EXPECT_EQ(at_once.count(), 10u);
  EXPECT_EQ(at_once.mean(), one_by_one.mean());
  EXPECT_EQ(at_once.Quantile(0.5), 3u);
  EXPECT_EQ(at_once.max(), 1000u);
}

TEST(Histogram, KeepsSmallValuesExactly) {
  for (std::uint64_t value = 0; value < 256; ++value) EXPECT_EQ(OnlyValueSeen(value), value);
}

TEST(Histogram, LargeValuesAreKnownWithinOneIn128) {
  Random random(1);
  for (int bits = 9; bits <= 64; ++bits) {
    const std::uint64_t low = std::uint64_t{1} << (bits - 1);
    const std::uint64_t high = low + (low - 1);
    for (const std::uint64_t value : {low, low + 1, low + random.NextBelow(low), high - 1, high}) {
      const std::uint64_t seen = OnlyValueSeen(value);
      EXPECT_GE(seen, value);
      EXPECT_LE(seen - value, value / 128) << value;
    }
  }
}

TEST(Histogram, QuantilesAreThoseOfTheSortedSamples) {
  Random random(2);
  Histogram histogram;
  std::vector<std::uint64_t> samples;
  for (int i = 0; i < 20'000; ++i) {
    // Log-uniform over six decades, as latencies with a tail are.
    samples.push_back(static_cast<std::uint64_t>(std::pow(10, 1 + 6 * random.NextDouble())));
    histogram.Add(samples.back());
  }
  std::sort(samples.begin(), samples.end());
  for (const double fraction : {0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(samples.size())));
    const std::uint64_t exact = samples[std::max<std::size_t>(rank, 1) - 1];
    const std::uint64_t seen = histogram.Quantile(fraction);
    EXPECT_GE(seen, exact) << fraction;
    EXPECT_LE(seen, exact + exact / 128) << fraction;
  }
}

TEST(Histogram, NoQuantileIsAboveTheMaximum) {
  Histogram histogram;
  histogram.Add(1'000'001);
  EXPECT_EQ(histogram.Quantile(0.5), 1'000'001u);
  EXPECT_EQ(histogram.Quantile(1), 1'000'001u);
  EXPECT_EQ(histogram.max(), 1'000'001u);
}

TEST(Histogram, MeanIsExact) {
  Histogram histogram;
  for (const std::uint64_t value : {1000u, 3001u, 100'002u}) histogram.Add(value);
  EXPECT_DOUBLE_EQ(histogram.mean(), 104'003 / 3.0);
}

TEST(Histogram, MergedIsAsIfAddedToOne) {
  Random random(3);
  Histogram all;
  Histogram parts[3];
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t value = random.NextBelow(1'000'000);
    all.Add(value);
    parts[i % 3].Add(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_EQ(merged.mean(), all.mean());
  for (const double fraction : {0.01, 0.5, 0.99, 1.0}) {
    EXPECT_EQ(merged.Quantile(fraction), all.Quantile(fraction));
  }
}

TEST(Histogram, ASparseOneIsTheSame) {
  Random random(4);
  Histogram all;
  Histogram sum;
  for (int part = 0; part < 3; ++part) {
    Histogram histogram;
    for (int i = 0; i < 1000; ++i) histogram.Add(random.NextBelow(1'000'000) << (part * 20));
    all.Merge(histogram);
    ASSERT_TRUE(sum.Merge(histogram.ToSparse()));
  }
  EXPECT_TRUE(sum.Merge(Histogram().ToSparse()));
  EXPECT_EQ(sum.count(), all.count());
  EXPECT_EQ(sum.min(), all.min());
  EXPECT_EQ(sum.max(), all.max());
  EXPECT_EQ(sum.mean(), all.mean());
  for (const double fraction : {0.01, 0.5, 0.99, 1.0})
    EXPECT_EQ(sum.Quantile(fraction), all.Quantile(fraction));
}

TEST(Histogram, MalformedSparseHistogramsAreRejected) {
  Histogram histogram;
  histogram.Add(300);
  histogram.Add(70'000);
  const Histogram::Sparse good = histogram.ToSparse();
  ASSERT_EQ(good.cells.size(), 2u);
  const auto rejected = [&good](auto change) {
    Histogram::Sparse wrong = good;
    change(wrong);
    Histogram target;
    const bool taken = target.Merge(wrong);
    EXPECT_TRUE(taken || target.count() == 0);
    return !taken;
  };
  EXPECT_FALSE(rejected([](Histogram::Sparse&) {}));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.cells[1].number = 1'000'000; }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.cells[0].number = s.cells[1].number; }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { std::swap(s.cells[0], s.cells[1]); }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.cells[0].count = 0; }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.min = 1; }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.max = 1; }));
  EXPECT_TRUE(rejected([](Histogram::Sparse& s) { s.cells.clear(); }));
}

}  // namespace
}  // namespace remora::bench
