// The checker on histories that a store could have told, each with one thing wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/linearizability/checker.h"
#include "tests/linearizability/random_history.h"

namespace remora::linear {
namespace {

struct Mutation {
  std::string name;
  /// Returns true if it made something of the history at `place` that cannot be.
  bool (*mutate)(std::vector<Operation>& operations, std::size_t place);
};
void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

bool IsRead(const Operation& operation) {
  return operation.kind == Kind::kGet && operation.outcome == Outcome::kOk &&
         operation.key.starts_with("key");
}

const Mutation kMutations[] = {
    {"StaleRead",
     [](std::vector<Operation>& operations, std::size_t place) {
       Operation& get = operations[place];
       if (!IsRead(get)) return false;
       const Operation* old = nullptr;
       for (const Operation& write : operations) {
         if (write.key != get.key || write.kind != Kind::kPut || write.outcome != Outcome::kOk) continue;
         if (write.version >= get.version) continue;
         // Another one came, and had ended.
         for (const Operation& later : operations) {
           const bool comes_between =
               later.key == get.key && IsEffect(later) && later.version > write.version;
           if (comes_between && later.ended < get.begun) old = &write;
         }
       }
       if (old == nullptr) return false;
       get.value = old->value;
       get.version = old->version;
       return true;
     }},
    {"ValueOfNobody",
     [](std::vector<Operation>& operations, std::size_t place) {
       if (!IsRead(operations[place])) return false;
       operations[place].value = "nobody's";
       return true;
     }},
    {"AnothersVersion",
     [](std::vector<Operation>& operations, std::size_t place) {
       if (!IsRead(operations[place])) return false;
       operations[place].version += 1'000'000;  // a touch may have given the next one
       return true;
     }},
    {"LostWrite",
     [](std::vector<Operation>& operations, std::size_t place) {
       Operation& write = operations[place];
       if (write.kind != Kind::kPut || write.outcome != Outcome::kOk) return false;
       for (Operation& get : operations) {
         if (!IsRead(get) || get.version != write.version || get.begun < write.ended) continue;
         const bool may_be_gone = std::ranges::any_of(operations, [&](const Operation& other) {
           return other.key == write.key && IsEffect(other) && other.version > write.version &&
                  other.begun < get.ended;
         });
         if (may_be_gone) continue;
         get.outcome = Outcome::kNotFound;
         return true;
       }
       return false;
     }},
    {"IncrementDoneTwice",
     [](std::vector<Operation>& operations, std::size_t place) {
       Operation& increment = operations[place];
       if (increment.kind != Kind::kIncrement || increment.outcome != Outcome::kOk) return false;
       increment.result += increment.delta;
       return true;
     }},
    {"ForgottenAppend",
     [](std::vector<Operation>& operations, std::size_t place) {
       Operation& append = operations[place];
       if (append.kind != Kind::kAppend || append.outcome != Outcome::kOk) return false;
       append.result -= 1;
       return true;
     }},
    {"DeletedTwice",
     [](std::vector<Operation>& operations, std::size_t place) {
       const Operation gone = operations[place];
       if (gone.kind != Kind::kDelete || gone.outcome != Outcome::kNotFound) return false;
       for (const Operation& other : operations) {
         const bool may_be_there = other.key == gone.key && &other != &operations[place] && IsEffect(other) &&
                                   other.begun < gone.ended && other.ended > gone.begun;
         if (may_be_there) return false;
       }
       std::uint64_t version = 0;
       for (const Operation& other : operations) version = std::max(version, other.version);
       operations[place].outcome = Outcome::kOk;
       operations[place].version = version + 1;
       return true;
     }},
    {"ConditionThatHeldNot",
     [](std::vector<Operation>& operations, std::size_t place) {
       Operation& put = operations[place];
       if (put.outcome != Outcome::kOk || put.condition.is_none() || put.condition == Condition::Absent())
         return false;
       put.condition = Condition::Absent();
       return true;
     }},
};

class Mutated : public testing::TestWithParam<Mutation> {};
INSTANTIATE_TEST_SUITE_P(Linear, Mutated, testing::ValuesIn(kMutations),
                         [](const auto& test) { return test.param.name; });

TEST_P(Mutated, IsFound) {
  int mutations = 0;
  for (std::uint64_t seed = 1; mutations < 200; ++seed) {
    ASSERT_LT(seed, 3000u) << "only " << mutations << " mutations could be made";
    RandomHistoryOptions options;
    options.seed = seed;
    History history = MakeHistory(options);
    bool made = false;
    for (std::size_t i = 0; i < history.operations.size() && !made; ++i) {
      const std::size_t place = (i + seed * 31) % history.operations.size();
      made = GetParam().mutate(history.operations, place);
    }
    if (!made) continue;
    ++mutations;
    const Verdict verdict = Check(history);
    ASSERT_FALSE(verdict.faults.empty()) << "seed " << seed;
    ASSERT_TRUE(verdict.undecided.empty());
  }
}

}  // namespace
}  // namespace remora::linear
