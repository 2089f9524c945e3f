// Which record an operation is for: the request distributions of YCSB (Cooper et al., SoCC 2010).
#pragma once

#include <cstdint>

#include "bench/random.h"

namespace remora::bench {

/// YCSB's constant: the larger, the more the few popular ranks are asked for.
inline constexpr double kZipfianTheta = 0.99;

/// Sum of 1 / k^theta for k = 1 .. n, in constant time, with a relative error below 1e-12.
/// REQUIRES: 0 < theta < 1, n >= 1.
double Zeta(std::uint64_t n, double theta);

/// Ranks 0 .. ranks - 1, of which rank r is drawn with a probability near 1 / (r + 1)^theta / zeta. The
/// algorithm is Gray et al.'s ("Quickly generating billion-record synthetic databases", SIGMOD 1994), which
/// YCSB uses too. It is exact for ranks 0 and 1; ranks 2 to 5 come 20 to 9 % too often, and everything behind
/// within 5 % (theta 0.99).
///
/// Thread Safety: const members may be called from many threads.
class Zipfian {
 public:
  /// REQUIRES: ranks >= 3, 0 < theta < 1.
  explicit Zipfian(std::uint64_t ranks, double theta = kZipfianTheta);

  std::uint64_t Next(Random& random) const;

  /// What theory says, for tests.
  double Probability(std::uint64_t rank) const;

 private:
  std::uint64_t ranks_;
  double theta_;
  double zeta_;
  double alpha_;
  double eta_;
  double second_;  // where the share of ranks 0 and 1 ends
};

/// Chooses records 0 .. records - 1.
///
/// Thread Safety: const members may be called from many threads.
class RecordChooser {
 public:
  enum class Kind : std::uint8_t { kUniform = 1, kZipfian = 2 };

  /// kZipfian is YCSB's *scrambled* one: a rank of 10^10 is drawn and hashed to a record, so that popular
  /// records are not neighbours. As there, the ranks do not depend on the number of records: the most
  /// popular record gets 1 / zeta(10^10) = 3.8 % of the requests however many records there are.
  RecordChooser(Kind kind, std::uint64_t records);

  std::uint64_t Next(Random& random) const;

  /// The record that a rank is hashed to.
  std::uint64_t RecordOfRank(std::uint64_t rank) const;

  static constexpr std::uint64_t kRanks = 10'000'000'000;

 private:
  Kind kind_;
  std::uint64_t records_;
  Zipfian zipfian_;
};

}  // namespace remora::bench
