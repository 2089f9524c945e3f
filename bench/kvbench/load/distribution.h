// Which record an operation is for: the request distributions of YCSB (Cooper et al., SoCC 2010).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bench/kvbench/load/random.h"

namespace remora::bench {

/// YCSB's constant: the larger, the more the few popular ranks are asked for.
inline constexpr double kZipfianTheta = 0.99;

/// Sum of 1 / k^theta for k = 1 .. n, in constant time, with a relative error below 1e-12.
/// REQUIRES: 0 < theta < 1, n >= 1.
double Zeta(std::uint64_t n, double theta);

inline double Square(double x) { return x * x; }

/// By eight multiplications, which is far less than std::pow does.
inline double HundredthPower(double x) {
  const double fourth = Square(Square(x));
  const double thirty_second = Square(Square(Square(fourth)));
  return fourth * thirty_second * Square(thirty_second);
}

/// Ranks 0 .. ranks - 1, of which rank r is drawn with a probability near 1 / (r + 1)^theta / zeta. The
/// algorithm is Gray et al.'s ("Quickly generating billion-record synthetic databases", SIGMOD 1994), which
/// YCSB uses too. It is exact for ranks 0 and 1; ranks 2 to 5 come 20 to 9 % too often, and everything behind
/// within 5 % (theta 0.99).
///
/// Thread safety: const members may be called from many threads.
class Zipfian {
 public:
  /// REQUIRES: ranks >= 3, 0 < theta < 1.
  explicit Zipfian(std::uint64_t ranks, double theta = kZipfianTheta);

  // Here, so that whoever draws many keeps the generator in registers.
  std::uint64_t Next(Random& random) const {
    const double u = random.NextDouble();
    const double share = u * zeta_;
    if (share < 1) return 0;
    if (share < second_) return 1;
    const double base = eta_ * u - eta_ + 1;
    const double power = theta_ == kZipfianTheta ? HundredthPower(base) : std::pow(base, alpha_);
    // By way of a signed number, which takes one instruction. u just below 1 may round up to the number of
    // ranks itself.
    const auto rank = static_cast<std::int64_t>(static_cast<double>(ranks_) * power);
    return std::min(static_cast<std::uint64_t>(rank), ranks_ - 1);
  }

  /// Returns the probability in theory, for tests.
  double Probability(std::uint64_t rank) const;

 private:
  std::uint64_t ranks_;
  double theta_;
  double zeta_;
  double alpha_;  // 100 for kZipfianTheta
  double eta_;
  double second_;  // where the share of ranks 0 and 1 ends
};

/// A request distribution, by the names and with the settings that YCSB gives it.
struct RequestDistribution {
  enum class Kind : std::uint8_t {
    kUniform = 1,
    kZipfian = 2,      // scrambled: popular records are no neighbours
    kLatest = 3,       // zipfian, the newest record first
    kHotspot = 4,      // some operations go to a hot set, the others to the rest; uniform in each
    kExponential = 5,  // the newer, the likelier
    kSequential = 6,   // one record after the other, all threads together; then again
  };

  Kind kind = Kind::kZipfian;
  /// kHotspot: of the records, those that are hot (0 to 1), and of the operations, those that are for them.
  double hot_data_fraction = 0.2;
  double hot_operation_fraction = 0.8;
  /// kExponential: so many percent of the operations (0 < p < 100) are for the newest records, which are this
  /// fraction of all (0 < f).
  double exponential_percentile = 95;
  double exponential_fraction = 0.8571428571;
};

/// Draws which of a number of records an operation is for.
///
/// Thread safety: const members may be called from many threads.
class RecordChooser {
 public:
  /// kZipfian is YCSB's *scrambled* one: a rank of 10^10 is drawn and hashed to a record. As there, the ranks
  /// do not depend on the number of records: the most popular record gets 1 / zeta(10^10) = 3.8 % of the
  /// requests however many records there are.
  /// REQUIRES: records >= 1, settings within their bounds.
  RecordChooser(const RequestDistribution& distribution, std::uint64_t records);

  /// A number below `records`: the record, or, if CountsBack, how many records are newer than it. kSequential
  /// draws nothing: REQUIRES another kind.
  std::uint64_t Next(Random& random) const;

  /// Returns true if the distribution follows the newest record, as records are inserted.
  bool CountsBack() const { return kind_ == Kind::kLatest || kind_ == Kind::kExponential; }

  /// kZipfian: the record that a rank is hashed to.
  std::uint64_t RecordOfRank(std::uint64_t rank) const;

  static constexpr std::uint64_t kRanks = 10'000'000'000;

 private:
  using Kind = RequestDistribution::Kind;

  Kind kind_;
  std::uint64_t records_;
  Zipfian zipfian_;            // kZipfian: of kRanks; kLatest: of the records
  std::uint64_t hot_records_;  // kHotspot
  double hot_operations_;
  double mean_age_;  // kExponential: of the distribution before it is cut off at the oldest record
};

}  // namespace remora::bench
