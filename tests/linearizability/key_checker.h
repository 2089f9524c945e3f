// The search for an order of one key's operations (checker.h says how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/linearizability/checker.h"
#include "tests/linearizability/operation.h"
#include "tests/linearizability/register.h"

namespace remora::linear {

class KeyChecker {
 public:
  /// `begins_absent`: as in an empty store; else the key may be anything at first.
  KeyChecker(std::vector<Operation> operations, const CheckOptions& options, bool begins_absent = true);

  enum class Result : std::uint8_t { kLinearizable = 1, kNot, kUndecided };
  Result Run();

  // Of kNot: the operation that has no place, and what the key may have been when it ended.
  std::size_t failed() const { return failed_; }
  std::string possible() const { return possible_; }

 private:
  /// The key's state, and what is done of the operations in flight.
  struct Configuration {
    State state;
    std::size_t acknowledged = 0;     // of writes_, so many are done
    std::vector<std::uint32_t> done;  // of what is in flight and finds something, sorted
    std::vector<std::uint32_t> used;  // of the writes of unknown outcome, sorted

    friend bool operator==(const Configuration&, const Configuration&) = default;
    /// Returns true if all that may follow the other may follow this one.
    bool IsAsGoodAs(const Configuration& other) const;
  };

  struct Event {
    Time time;
    bool is_end;
    std::uint32_t operation;
  };

  /// Returns true for a write without an answer, of which nobody has found either that it was done.
  bool IsUnknown(std::uint32_t operation) const {
    return IsEffect(operations_[operation]) && (place_[operation] >= writes_.size());
  }
  void Begin(std::uint32_t operation);
  bool End(std::uint32_t operation);
  /// The time passes up to `now`: records expire.
  void Pass(Time now);
  bool IsDone(const Configuration& configuration, std::uint32_t operation) const;
  /// Returns true if the earlier writes of its client are done, where it was told so. For a write of unknown
  /// outcome, none of its client's later writes may be done either.
  bool HasItsTurn(const Configuration& configuration, std::uint32_t operation) const;
  /// Returns true if it is a write whose turn comes behind the other's.
  bool IsBehind(std::uint32_t write, std::uint32_t other) const;
  void FindTurns();
  void Sign();
  /// All configurations that lead on from there: those in which `goal` is done, and what leads to them no
  /// further; without one, all.
  void Expand(const Configuration& from, std::optional<std::uint32_t> goal, Time now,
              std::vector<Configuration>* reached);
  /// Adds what may be done next.
  void Next(const Configuration& from, Time now, std::vector<Configuration>* next);
  /// Does all that finds something, and finds it there.
  void Satisfy(Configuration* configuration);
  static void Add(Configuration configuration, std::vector<Configuration>* to);
  void Forget(std::uint32_t operation);
  std::uint64_t NextVersion(const Configuration& configuration) const;

  const CheckOptions options_;
  std::vector<Operation> operations_;
  Register register_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> writes_;  // those with versions, in their order
  std::vector<std::size_t> place_;     // of each operation in writes_, if it is there
  // CheckOptions::writes_in_order: of each write, the last one of its client before it whose outcome is
  // known. For one of unknown outcome, the first behind it that has a version. kNoPlace: none.
  std::vector<std::size_t> before_;
  std::vector<std::size_t> behind_;
  std::vector<bool> over_;                     // has ended, and is done
  std::vector<std::size_t> signatures_;        // of the writes of unknown outcome: the same of those alike
  std::vector<std::uint32_t> finding_;         // in flight
  std::vector<std::uint32_t> unknown_;         // begun, and not used in all configurations
  std::vector<Configuration> configurations_;  // none is as good as another
  std::vector<bool> tried_;                    // signatures
  std::size_t looked_at_ = 0;
  bool undecided_ = false;
  std::size_t failed_ = 0;
  std::string possible_;
};

}  // namespace remora::linear
