// One key of a store, as it is specified, for the checker: which states there may be, and what an operation
// that was told so may be done in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/linearizability/checker.h"
#include "tests/linearizability/operation.h"

namespace remora::linear {

struct State {
  enum class Presence : std::uint8_t { kAbsent, kPresent, kAny };

  Presence presence = Presence::kAbsent;
  bool exact = true;               // else its version is some number above `version`
  std::uint32_t value = 0;         // as Register numbers them; kAnyValue
  std::uint64_t version = 0;       // of the last write, of a delete too
  Time expires_earliest = kNever;  // by itself, no sooner than
  Time expires_latest = kNever;    // and no later

  // For a record that is gone by itself, with its value and version: a write that began no later may have
  // been decided on it. (Condition: a Get in between misses it.)
  Time lapsed_latest = kNever;

  static constexpr std::uint32_t kAnyValue = ~std::uint32_t{0};

  bool MayBePresent() const { return presence != Presence::kAbsent; }
  bool MayBeAbsent() const { return presence != Presence::kPresent; }
  friend bool operator==(const State&, const State&) = default;
};

/// State of one key, for its operations.
class Register {
 public:
  Register(const std::vector<Operation>& operations, const CheckOptions& options);

  /// The state after an effect, whose result, if it is known, must be what it was told. Nothing: it cannot be
  /// done here, or does nothing. `next_version`: of the acknowledged write that comes next.
  std::optional<State> Do(const Operation& operation, const State& state, std::uint64_t next_version);
  /// Returns the state if the result of an operation that is no effect agrees with it; that may then be known
  /// better.
  std::optional<State> Find(const Operation& operation, const State& state, std::uint64_t next_version);
  static State Expired(const State& state);

  /// Returns one text for all operations that nobody can tell from each other, but by when they began.
  std::string Signature(const Operation& operation);
  std::string Text(const State& state) const;

 private:
  std::optional<State> DoOn(const Operation& operation, const State& state, std::uint64_t next_version);
  std::uint32_t NumberOf(const std::string& value);
  const std::string& ValueOf(std::uint32_t number) const { return values_[number]; }
  /// The state, with its version known, in which the condition holds.
  std::optional<State> Holds(const Condition& condition, const State& state,
                             std::uint64_t next_version) const;
  bool SetValue(const Operation& operation, const State& before, State* after);
  void SetExpiry(const Operation& operation, const State& before, State* after) const;

  const CheckOptions options_;
  bool has_appends_ = false;
  bool has_lost_appends_ =
      false;  // then sizes of values that nobody found are not told apart: too many might be
  std::vector<std::string> found_;  // values, sorted
  std::vector<std::string> values_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace remora::linear
