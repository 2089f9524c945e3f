#include "bench/kvbench/load/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/kvbench/load/random.h"

namespace remora::bench {
namespace {

// All seeds are fixed: the same draws, and so the same verdict, every time.
constexpr int kDraws = 1'000'000;

// Six standard deviations of a count that is expected `expected` times.
double Noise(double expected) { return 6 * std::sqrt(expected); }

/// How far counts are from what a distribution wants, in standard deviations: Pearson's chi-square, whose
/// cube root is nearly normal (Wilson and Hilferty). Cells that are too rare for that are taken together.
double Deviation(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  double draws = 0;
  for (const double count : counts) draws += count;
  double chi_square = 0;
  double cells = 0;
  double rare_seen = 0;
  double rare_expected = 0;
  const auto add = [&](double seen, double expected) {
    chi_square += (seen - expected) * (seen - expected) / expected;
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    if (expected >= 10) {
      add(counts[i], expected);
      continue;
    }
    rare_seen += counts[i];
    rare_expected += expected;
  }
  if (rare_expected >= 10) add(rare_seen, rare_expected);
  const double freedom = cells - 1;
  return (std::cbrt(chi_square / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
}

// One draw in 150,000 of a right distribution is further off, and with fixed seeds it is known which.
constexpr double kFarOff = 4.5;

template <typename Next>
std::vector<double> Count(std::uint64_t cells, std::uint64_t seed, Next next) {
  Random random(seed);
  std::vector<double> counts(cells);
  for (int i = 0; i < kDraws; ++i) ++counts.at(next(random));
  return counts;
}

// Returns the probabilities that Gray's algorithm gives each rank, from where its inverse of the cumulative
// distribution passes from one rank to the next.
std::vector<double> GraysProbabilities(std::uint64_t ranks, double theta) {
  const auto n = static_cast<double>(ranks);
  double zeta = 0;
  for (std::uint64_t rank = ranks; rank >= 1; --rank) zeta += std::pow(static_cast<double>(rank), -theta);
  const double zeta2 = 1 + std::pow(2, -theta);
  const double eta = (1 - std::pow(2 / n, 1 - theta)) / (1 - zeta2 / zeta);
  std::vector<double> probabilities = {1 / zeta, (zeta2 - 1) / zeta};
  double below = zeta2 / zeta;
  for (std::uint64_t rank = 2; rank < ranks; ++rank) {
    const double passes = 1 - (1 - std::pow(static_cast<double>(rank + 1) / n, 1 - theta)) / eta;
    probabilities.push_back(passes - below);
    below = passes;
  }
  return probabilities;
}

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

TEST(Zipfian, IsGraysAlgorithmToTheLastRank) {
  // Of others, 1 / (1 - theta) is no whole number.
  for (const double theta : {kZipfianTheta, 0.97}) {
    for (const std::uint64_t ranks : {std::uint64_t{3}, std::uint64_t{10}, std::uint64_t{1000}}) {
      const Zipfian zipfian(ranks, theta);
      const auto counts = Count(ranks, ranks, [&](Random& random) { return zipfian.Next(random); });
      EXPECT_LT(std::abs(Deviation(counts, GraysProbabilities(ranks, theta))), kFarOff)
          << ranks << ' ' << theta;
    }
  }
}

TEST(Zipfian, AnotherConstantWouldBeNoticed) {
  const Zipfian zipfian(1000, 0.98);
  const auto counts = Count(1000, 1, [&](Random& random) { return zipfian.Next(random); });
  EXPECT_GT(Deviation(counts, GraysProbabilities(1000, kZipfianTheta)), kFarOff);
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

using Kind = RequestDistribution::Kind;

TEST(RecordChooser, UniformIsUniform) {
  constexpr std::uint64_t kRecords = 1000;
  const RecordChooser chooser({.kind = Kind::kUniform}, kRecords);
  const auto counts = Count(kRecords, 3, [&](Random& random) { return chooser.Next(random); });
  EXPECT_LT(std::abs(Deviation(counts, std::vector<double>(kRecords, 1.0 / kRecords))), kFarOff);
}

TEST(RecordChooser, ZipfianIsScrambled) {
  constexpr std::uint64_t kRecords = 1000;
  const RecordChooser chooser({.kind = Kind::kZipfian}, kRecords);
  // The first ranks one by one; the others, ten billion of them, fall on all records alike. Each rank's share
  // is that of Gray's algorithm.
  constexpr std::uint64_t kHead = 1'000'000;
  const auto n = static_cast<double>(RecordChooser::kRanks);
  const double zeta = Zeta(RecordChooser::kRanks, kZipfianTheta);
  const double zeta2 = Zeta(2, kZipfianTheta);
  const double eta = (1 - std::pow(2 / n, 1 - kZipfianTheta)) / (1 - zeta2 / zeta);
  std::vector<double> probabilities(kRecords);
  double below = 0;
  for (std::uint64_t rank = 0; rank < kHead; ++rank) {
    const double passes =
        rank < 2 ? Zeta(rank + 1, kZipfianTheta) / zeta
                 : 1 - (1 - std::pow(static_cast<double>(rank + 1) / n, 1 - kZipfianTheta)) / eta;
    probabilities[chooser.RecordOfRank(rank)] += passes - below;
    below = passes;
  }
  for (double& probability : probabilities) probability += (1 - below) / kRecords;
  const auto counts = Count(kRecords, 4, [&](Random& random) { return chooser.Next(random); });
  EXPECT_LT(std::abs(Deviation(counts, probabilities)), kFarOff);
}

TEST(RecordChooser, LatestIsZipfianFromTheNewestOn) {
  constexpr std::uint64_t kRecords = 1000;
  const RecordChooser chooser({.kind = Kind::kLatest}, kRecords);
  EXPECT_TRUE(chooser.CountsBack());
  const auto ages = Count(kRecords, 5, [&](Random& random) { return chooser.Next(random); });
  EXPECT_LT(std::abs(Deviation(ages, GraysProbabilities(kRecords, kZipfianTheta))), kFarOff);
}

TEST(RecordChooser, HotspotHasTwoLevels) {
  constexpr std::uint64_t kRecords = 1000;
  const RecordChooser chooser(
      {.kind = Kind::kHotspot, .hot_data_fraction = 0.05, .hot_operation_fraction = 0.7}, kRecords);
  EXPECT_FALSE(chooser.CountsBack());
  std::vector<double> probabilities(kRecords, 0.3 / 950);
  for (std::uint64_t record = 0; record < 50; ++record) probabilities[record] = 0.7 / 50;
  const auto counts = Count(kRecords, 6, [&](Random& random) { return chooser.Next(random); });
  EXPECT_LT(std::abs(Deviation(counts, probabilities)), kFarOff);
}

TEST(RecordChooser, HotspotsBoundsAreTaken) {
  constexpr std::uint64_t kRecords = 100;
  const auto chosen = [](double data, double operations) {
    const RecordChooser chooser(
        {.kind = Kind::kHotspot, .hot_data_fraction = data, .hot_operation_fraction = operations}, kRecords);
    return Count(kRecords, 7, [&](Random& random) { return chooser.Next(random); });
  };
  const std::vector<double> uniform(kRecords, 1.0 / kRecords);
  EXPECT_LT(std::abs(Deviation(chosen(1, 0), uniform)), kFarOff);
  EXPECT_LT(std::abs(Deviation(chosen(1, 1), uniform)), kFarOff);
  EXPECT_EQ(chosen(0, 1)[0], kDraws);  // one record is hot at least
  EXPECT_EQ(chosen(0, 0)[0], 0);
}

TEST(RecordChooser, ExponentialFallsAsItsPercentileSays) {
  constexpr std::uint64_t kRecords = 1000;
  // 90 % of the operations for the newest quarter of the records, but for what is older than all of them.
  const RecordChooser chooser(
      {.kind = Kind::kExponential, .exponential_percentile = 90, .exponential_fraction = 0.25}, kRecords);
  EXPECT_TRUE(chooser.CountsBack());
  const auto beyond = [](double age) { return std::pow(0.1, age / 250); };
  std::vector<double> probabilities;
  for (std::uint64_t age = 0; age < kRecords; ++age) {
    const auto from = static_cast<double>(age);
    probabilities.push_back((beyond(from) - beyond(from + 1)) / (1 - beyond(kRecords)));
  }
  const auto ages = Count(kRecords, 8, [&](Random& random) { return chooser.Next(random); });
  EXPECT_LT(std::abs(Deviation(ages, probabilities)), kFarOff);
}

TEST(RecordChooser, ThePopularRecordsGetTheSharesOfTheirRanks) {
  constexpr std::uint64_t kRecords = 1'000'000;
  const RecordChooser chooser({.kind = Kind::kZipfian}, kRecords);
  const Zipfian ranks(RecordChooser::kRanks);
  const auto counts = Count(kRecords, 4, [&](Random& random) { return chooser.Next(random); });
  // Each record also gets its part of the ranks far behind, about 1 / kRecords: within the noise here.
  for (const std::uint64_t rank : {0u, 1u}) {
    const double expected = kDraws * ranks.Probability(rank);
    EXPECT_NEAR(counts[chooser.RecordOfRank(rank)], expected, Noise(expected) + 2) << rank;
  }
}

TEST(RecordChooser, PopularRecordsAreNoNeighbours) {
  const RecordChooser chooser({.kind = Kind::kZipfian}, 1'000'000);
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
  for (const Kind kind :
       {Kind::kUniform, Kind::kZipfian, Kind::kLatest, Kind::kHotspot, Kind::kExponential}) {
    const RecordChooser chooser({.kind = kind}, 1);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(chooser.Next(random), 0u);
  }
}

}  // namespace
}  // namespace remora::bench
