// Bounds of the bytes that a client READs to keep its mirror of the index fresh.
#pragma once

#include <algorithm>
#include <cstdint>

namespace remora {

/// Budget in bytes: one for every `price` bytes of records that GETs READ, and some at once.
///
/// Thread safety: none.
class UpkeepBudget {
 public:
  constexpr UpkeepBudget(std::int64_t price, std::int64_t at_once)
      : price_(price), most_(at_once * price), credit_(at_once * price) {}

  bool Covers(std::uint64_t bytes) const { return credit_ >= static_cast<std::int64_t>(bytes) * price_; }
  /// Returns how many more bytes of records it takes to cover these; 0: it covers them.
  std::uint64_t Lacks(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(
        std::max(static_cast<std::int64_t>(bytes) * price_ - credit_, std::int64_t{0}));
  }
  void Spend(std::uint64_t bytes) { credit_ -= static_cast<std::int64_t>(bytes) * price_; }
  void Earn(std::uint64_t bytes_of_records) {
    credit_ = std::min(credit_ + static_cast<std::int64_t>(bytes_of_records), most_);
  }

 private:
  std::int64_t price_;
  std::int64_t most_;
  std::int64_t credit_;
};

}  // namespace remora
