#include "bench/kvbench/load/distribution.h"

#include <algorithm>
#include <cmath>

#include "store/base/check.h"

namespace remora::bench {

double Zeta(std::uint64_t n, double theta) {
  // The head is summed; for the tail, the Euler-Maclaurin formula. Its first term left out is of the order
  // of kHead^-(theta + 3).
  constexpr std::uint64_t kHead = 10'000;
  double sum = 0;
  for (std::uint64_t k = std::min(n, kHead); k >= 1; --k) sum += std::pow(static_cast<double>(k), -theta);
  if (n <= kHead) return sum;
  const double from = static_cast<double>(kHead);
  const double to = static_cast<double>(n);
  return sum + (std::pow(to, 1 - theta) - std::pow(from, 1 - theta)) / (1 - theta) +
         (std::pow(to, -theta) - std::pow(from, -theta)) / 2 +
         theta / 12 * (std::pow(from, -theta - 1) - std::pow(to, -theta - 1));
}

Zipfian::Zipfian(std::uint64_t ranks, double theta)
    : ranks_(ranks),
      theta_(theta),
      zeta_(Zeta(ranks, theta)),
      alpha_(1 / (1 - theta)),
      eta_((1 - std::pow(2.0 / static_cast<double>(ranks), 1 - theta)) / (1 - Zeta(2, theta) / zeta_)),
      second_(1 + std::pow(0.5, theta)) {}

double Zipfian::Probability(std::uint64_t rank) const {
  return std::pow(static_cast<double>(rank + 1), -theta_) / zeta_;
}

namespace {

constexpr std::uint64_t kFewestRanks = 3;

std::uint64_t RanksFor(RequestDistribution::Kind kind, std::uint64_t records) {
  return kind == RequestDistribution::Kind::kLatest ? std::max(records, kFewestRanks) : RecordChooser::kRanks;
}

// At least one record is hot, so that there is one for the operations that go there.
std::uint64_t HotRecords(const RequestDistribution& distribution, std::uint64_t records) {
  const auto hot = static_cast<std::uint64_t>(static_cast<double>(records) * distribution.hot_data_fraction);
  return std::clamp(hot, std::uint64_t{1}, records);
}

}  // namespace

RecordChooser::RecordChooser(const RequestDistribution& distribution, std::uint64_t records)
    : kind_(distribution.kind),
      records_(records),
      zipfian_(RanksFor(distribution.kind, records)),
      hot_records_(HotRecords(distribution, records)),
      hot_operations_(distribution.hot_operation_fraction),
      mean_age_(static_cast<double>(records) * distribution.exponential_fraction /
                -std::log1p(-distribution.exponential_percentile / 100)) {}

std::uint64_t RecordChooser::RecordOfRank(std::uint64_t rank) const {
  // Rank 0 must not be record 0 whatever the number of records, hence the constant.
  return Random::ScaleBelow(Mix64(rank + 0x9e3779b97f4a7c15), records_);
}

std::uint64_t RecordChooser::Next(Random& random) const {
  switch (kind_) {
    case Kind::kUniform:
      return random.NextBelow(records_);
    case Kind::kZipfian:
      return RecordOfRank(zipfian_.Next(random));
    case Kind::kLatest:
      // More ranks than records only when there are one or two.
      for (;;) {
        if (const std::uint64_t age = zipfian_.Next(random); age < records_) return age;
      }
    case Kind::kHotspot: {
      const bool is_hot = random.NextDouble() < hot_operations_ || hot_records_ == records_;
      return is_hot ? random.NextBelow(hot_records_)
                    : hot_records_ + random.NextBelow(records_ - hot_records_);
    }
    case Kind::kExponential:
      // A record older than the oldest is drawn again.
      for (;;) {
        const double age = -std::log1p(-random.NextDouble()) * mean_age_;
        if (age < static_cast<double>(records_)) return static_cast<std::uint64_t>(age);
      }
    case Kind::kSequential:
      break;
  }
  REMORA_CHECK(false);  // nothing to draw
  return 0;
}

}  // namespace remora::bench
