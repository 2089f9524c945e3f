// Answers that one client may get about keys that it alone writes, over a network that loses calls: each
// answer is judged as it comes. Suppose a write ended without an answer. It was done, or never will be, when
// the next call has been answered (client.h). So the first answer behind it decides which, for good.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace remora {

/// A key whose values have numbers that go up.
class NumberedKey {
 public:
  std::uint64_t Next() { return ++last_; }
  /// The write of the last number was acknowledged; or nobody knows.
  void Acknowledged() { oldest_ = newest_ = last_; }
  void Unanswered() { newest_ = last_; }
  /// Returns true if a read may show `number`. From then on it is that one.
  bool Saw(std::uint64_t number) {
    if (number != oldest_ && (number < oldest_ || number > newest_)) return false;
    oldest_ = newest_ = number;
    return true;
  }
  /// Returns true if a read may have found nothing.
  bool SawNothing() {
    newest_ = oldest_;
    return oldest_ == 0;
  }

 private:
  std::uint64_t last_ = 0;    // tried
  std::uint64_t oldest_ = 0;  // there is this one, or
  std::uint64_t newest_ = 0;  // one up to here
};

/// A sum to which 1 is added.
class Sum {
 public:
  void Unanswered() { ++most_; }
  /// Returns true if an addition may end with `sum`.
  bool Added(std::int64_t sum) {
    const bool is_right = sum > least_ && sum <= most_ + 1;
    least_ = most_ = sum;
    return is_right;
  }
  /// Returns true if a read may show `sum`.
  bool Saw(std::int64_t sum) {
    const bool is_right = sum >= least_ && sum <= most_;
    least_ = most_ = sum;
    return is_right;
  }

 private:
  std::int64_t least_ = 0;
  std::int64_t most_ = 0;
};

/// Numbers that are appended to a value, a space behind each: no acknowledged one is missing, no other is
/// there more than once.
class AppendedNumbers {
 public:
  std::string Next() { return std::to_string(tried_.size() + 1) + " "; }
  void Acknowledged() { tried_.push_back(true); }
  void Unanswered() { tried_.push_back(false); }
  std::size_t size() const { return tried_.size(); }

  /// Returns true if the value may be so.
  bool Is(std::string_view value) const {
    std::size_t last = 0;
    while (!value.empty()) {
      const std::size_t space = value.find(' ');
      if (space == std::string_view::npos) return false;
      const std::size_t number = std::strtoull(std::string(value.substr(0, space)).c_str(), nullptr, 10);
      if (number <= last || number > tried_.size() || AnyAcknowledged(last + 1, number)) return false;
      last = number;
      value.remove_prefix(space + 1);
    }
    return !AnyAcknowledged(last + 1, tried_.size() + 1);
  }

 private:
  /// Returns true if one of the numbers from `first` on, before `end`, was acknowledged.
  bool AnyAcknowledged(std::size_t first, std::size_t end) const {
    for (std::size_t number = first; number < end; ++number) {
      if (tried_[number - 1]) return true;
    }
    return false;
  }

  std::vector<bool> tried_;  // by number, from 1 on: whether it was acknowledged
};

}  // namespace remora
