#include "bench/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/random.h"

namespace remora::bench {
namespace {

// All seeds are fixed: the same draws, and so the same verdict, every time.
constexpr int kDraws = 1'000'000;

// Six standard deviations of a count that is expected `expected` times.
double Noise(double expected) { return 6 * std::sqrt(expected); }

TEST(Zeta, IsTheSum) {
  double sum = 0;
  for (std::uint64_t n = 1; n <= 200'000; ++n) {
    sum += std::pow(static_cast<double>(n), -kZipfianTheta);
    if (n <= 3 || n == 9'999 || n == 10'000 || n == 10'001 || n == 200'000) {
      EXPECT_NEAR(Zeta(n, kZipfianTheta), sum, 1e-11 * sum) << n;
    }
  }
}

TEST(Zeta, IsWhatYcsbComputedForItsTenBillionItems) {
  EXPECT_NEAR(Zeta(RecordChooser::kRanks, kZipfianTheta), 26.46902820178302, 1e-7);
}

TEST(Zipfian, RanksComeAsOftenAsTheoryWants) {
  const Zipfian zipfian(1000);
  Random random(1);
  std::vector<double> counts(1000);
  for (int i = 0; i < kDraws; ++i) ++counts.at(zipfian.Next(random));

  for (const std::uint64_t rank : {0u, 1u}) {
    const double expected = kDraws * zipfian.Probability(rank);
    EXPECT_NEAR(counts[rank], expected, Noise(expected)) << rank;
  }
  // Behind these, Gray's inverse of the cumulative distribution is an approximation, coarsest at first.
  for (std::uint64_t first = 2, last = 9; first < 1000; first = last + 1, last = std::min(999ul, last * 4)) {
    double expected = 0;
    double seen = 0;
    for (std::uint64_t rank = first; rank <= last; ++rank) {
      expected += kDraws * zipfian.Probability(rank);
      seen += counts[rank];
    }
    const double allowed = first == 2 ? 0.1 : 0.05;
    EXPECT_NEAR(seen, expected, allowed * expected + Noise(expected)) << first << " to " << last;
  }
}

TEST(Zipfian, StaysInRange) {
  const Zipfian zipfian(3);
  Random random(2);
  bool seen[3] = {};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t rank = zipfian.Next(random);
    ASSERT_LT(rank, 3u);
    seen[rank] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
}

TEST(RecordChooser, UniformIsUniform) {
  constexpr std::uint64_t kRecords = 1000;
  const RecordChooser chooser(RecordChooser::Kind::kUniform, kRecords);
  Random random(3);
  std::vector<double> counts(kRecords);
  for (int i = 0; i < kDraws; ++i) ++counts.at(chooser.Next(random));
  const double expected = static_cast<double>(kDraws) / kRecords;
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
  // 999 degrees of freedom: mean 999, standard deviation sqrt(2 * 999) = 44.7.
  EXPECT_NEAR(chi_square, 999, 6 * 44.7);
}

TEST(RecordChooser, ThePopularRecordsGetTheSharesOfTheirRanks) {
  constexpr std::uint64_t kRecords = 1'000'000;
  const RecordChooser chooser(RecordChooser::Kind::kZipfian, kRecords);
  const Zipfian ranks(RecordChooser::kRanks);
  Random random(4);
  std::vector<double> counts(kRecords);
  for (int i = 0; i < kDraws; ++i) ++counts.at(chooser.Next(random));
  // Each record also gets its part of the ranks far behind, about 1 / kRecords: within the noise here.
  for (const std::uint64_t rank : {0u, 1u}) {
    const double expected = kDraws * ranks.Probability(rank);
    EXPECT_NEAR(counts[chooser.RecordOfRank(rank)], expected, Noise(expected) + 2) << rank;
  }
}

TEST(RecordChooser, PopularRecordsAreNoNeighbours) {
  const RecordChooser chooser(RecordChooser::Kind::kZipfian, 1'000'000);
  for (std::uint64_t rank = 0; rank < 10; ++rank) {
    for (std::uint64_t other = 0; other < rank; ++other) {
      const auto distance = static_cast<std::int64_t>(chooser.RecordOfRank(rank)) -
                            static_cast<std::int64_t>(chooser.RecordOfRank(other));
      EXPECT_GT(std::abs(distance), 100) << rank << " and " << other;
    }
  }
}

TEST(RecordChooser, EvenOneRecordIsChosen) {
  Random random(5);
  for (const auto kind : {RecordChooser::Kind::kUniform, RecordChooser::Kind::kZipfian}) {
    const RecordChooser chooser(kind, 1);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(chooser.Next(random), 0u);
  }
}

}  // namespace
}  // namespace remora::bench
