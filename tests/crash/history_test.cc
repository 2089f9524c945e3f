// The judge of histories: traces of a server that breaks a promise, a rule at a time.
#include "history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remora {
namespace {

using testing::Each;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Outcome = HistoryWrite::Outcome;

/// Calls that come one after the other, unless a test moves their times.
class HistoryTest : public testing::Test {
 protected:
  HistoryWrite& Write(std::vector<HistoryWrite::Part> parts, std::uint64_t version,
                      Durability level = Durability::kLogged) {
    HistoryWrite& write = history_.writes.emplace_back();
    write.id = history_.writes.size();
    write.parts = std::move(parts);
    write.level = level;
    write.outcome = version == 0 ? Outcome::kUnknown : Outcome::kDone;
    write.version = version;
    write.begun = ++time_;
    write.ended = version == 0 ? kNeverEnded : ++time_;
    return write;
  }
  HistoryWrite& Put(const std::string& key, std::uint64_t version, Durability level = Durability::kLogged) {
    return Write({{key, false}}, version, level);
  }
  HistoryWrite& Delete(const std::string& key, std::uint64_t version) {
    return Write({{key, true}}, version);
  }
  HistoryWrite& Increment(std::int64_t result) {
    HistoryWrite& write = Put("counter", result == 0 ? 0 : ++counter_version_);
    write.is_increment = true;
    write.result = result;
    return write;
  }
  HistoryRead& Read(const std::string& key, std::uint64_t id, std::uint64_t version) {
    HistoryRead& read = history_.reads.emplace_back();
    read.key = key;
    read.id = id;
    read.version = version;
    read.begun = ++time_;
    read.ended = ++time_;
    return read;
  }
  void ReadCounter(std::int64_t number) {
    HistoryRead& read = Read("counter", 0, 0);
    read.is_counter = true;
    read.number = number;
  }
  void Crash(Durability survives = Durability::kLogged) {
    const HistoryTime begun = ++time_;
    history_.crashes.push_back({begun, ++time_, survives});
  }
  void ExpectGood() const { EXPECT_THAT(Judge(history_), IsEmpty()); }
  void ExpectBroken(const std::string& rule) const {
    const std::vector<std::string> faults = Judge(history_);
    EXPECT_THAT(faults, Not(IsEmpty()));
    EXPECT_THAT(faults, Each(StartsWith(rule + ":")));
  }

  History history_;
  HistoryTime time_ = 0;
  std::uint64_t counter_version_ = 1000;
};

TEST_F(HistoryTest, OneOfAllThatIsRight) {
  Put("a", 1);
  Read("a", 1, 1);
  Delete("a", 2);
  Read("a", 0, 0);
  Write({{"a", false}, {"b", false}}, 3);
  Crash();
  Read("a", 3, 3);
  Read("b", 3, 4);
  Put("b", 5).replaced = 4;
  Increment(1);
  Increment(2);
  ReadCounter(2);
  Read("nobody's", 0, 0);
  ExpectGood();
}

TEST_F(HistoryTest, AValueOfNobody) {
  Read("a", 9, 1);
  ExpectBroken("H1");
}

TEST_F(HistoryTest, AValueOfAnotherKey) {
  Put("a", 1);
  Read("b", 1, 1);
  ExpectBroken("H1");
}

TEST_F(HistoryTest, ARejectedWriteIsSeen) {
  Put("a", 0).outcome = Outcome::kRejected;
  Read("a", 1, 1);
  ExpectBroken("H1");
}

// A client sends a write again that got no answer.
class RejectedAfterACrashTest : public HistoryTest {
 protected:
  /// Write 1 is seen, a crash comes, and write 1 is rejected in the end.
  void Run(bool is_delete, Durability level, Durability survives) {
    Put("a", 1, Durability::kMemory);
    HistoryWrite& write = Write({{"a", is_delete}}, 0, level);
    write.outcome = Outcome::kRejected;
    Read("a", is_delete ? 0 : 2, is_delete ? 0 : 2);
    Crash(survives);
    history_.writes.back().ended = ++time_;
  }
};

TEST_F(RejectedAfterACrashTest, ItMayBeSeenBefore) {
  Run(false, Durability::kLogged, Durability::kSynced);
  ExpectGood();
}

TEST_F(RejectedAfterACrashTest, ItMayBeSeenBeforeToBeDeleted) {
  Run(true, Durability::kLogged, Durability::kSynced);
  ExpectGood();
}

TEST_F(RejectedAfterACrashTest, ButNotLater) {
  Run(false, Durability::kLogged, Durability::kSynced);
  Read("a", 2, 2);
  ExpectBroken("H1");
}

TEST_F(RejectedAfterACrashTest, AndNotIfTheCrashLeftItThere) {
  Run(false, Durability::kLogged, Durability::kLogged);
  ExpectBroken("H1");
}

TEST_F(RejectedAfterACrashTest, NorIfTheCrashLeftItDeleted) {
  Run(true, Durability::kLogged, Durability::kLogged);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AnUnknownWriteMayBeDoneOrNot) {
  Put("a", 1);
  Put("a", 0);
  Read("a", 1, 1);
  Crash();
  Read("a", 2, 2);
  ExpectGood();
}

TEST_F(HistoryTest, AnUnknownWriteThatWasSeenStays) {
  Put("a", 1);
  Put("a", 0);
  Read("a", 2, 2);
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AnAcknowledgedWriteIsLost) {
  Put("a", 1);
  Crash();
  Read("a", 0, 0);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AnAcknowledgedOverwriteIsLost) {
  Put("a", 1);
  Put("a", 2);
  Crash();
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, ACrashMayTakeWhatIsBelowIt) {
  Put("a", 1, Durability::kSynced);
  Put("a", 2);
  Read("a", 2, 2);
  Crash(Durability::kSynced);
  Read("a", 1, 1);
  ExpectGood();
}

TEST_F(HistoryTest, ACrashTakesASyncedWrite) {
  Put("a", 1, Durability::kSynced);
  Put("a", 2, Durability::kSynced);
  Crash(Durability::kSynced);
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AValueThatWasSeenAndNotAcknowledgedIsTakenBack) {
  Put("a", 1, Durability::kSynced);
  Put("a", 0, Durability::kSynced);
  Read("a", 2, 2);
  Crash(Durability::kSynced);
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, ADeletedValueComesBack) {
  Put("a", 1);
  Delete("a", 2);
  Crash();
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AValueComesBackThatWasSeenToBeMissing) {
  Put("a", 1);
  Delete("a", 0);
  Read("a", 0, 0);
  Crash();
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, HalfABatchSurvives) {
  Put("a", 1);
  Put("b", 2);
  Write({{"a", false}, {"b", false}}, 3);
  Crash();
  Read("a", 3, 3);
  Read("b", 2, 2);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, ABatchIsSeenFromItsEnd) {
  Put("a", 1);
  Write({{"a", false}, {"b", false}}, 0);
  Read("b", 2, 3);
  Read("a", 1, 1);
  ExpectBroken("H4");
}

TEST_F(HistoryTest, AVersionComesTwice) {
  Put("a", 1);
  Crash(Durability::kSynced);
  Put("b", 1);
  ExpectBroken("H3");
}

TEST_F(HistoryTest, VersionsGoBack) {
  Put("a", 7);
  Crash(Durability::kSynced);
  Put("a", 6);
  ExpectBroken("H3");
}

TEST_F(HistoryTest, AWriteIsDoneTwice) {
  Put("a", 1);
  Read("a", 1, 1);
  Crash();
  Read("a", 1, 2);
  ExpectBroken("H2");
}

TEST_F(HistoryTest, AWriteIsDoneAgainThatWasLost) {
  Put("a", 2).begun = 1;
  time_ = 10;
  history_.writes.back().ended = 100;
  Read("a", 1, 1);
  Crash(Durability::kSynced);
  Read("a", 1, 2);
  ExpectGood();
}

TEST_F(HistoryTest, AConditionThatDidNotHold) {
  Put("a", 1);
  Put("a", 2);
  Put("a", 3).replaced = 1;
  ExpectBroken("H6");
}

TEST_F(HistoryTest, AnIncrementIsDoneTwice) {
  Increment(1);
  Increment(3);
  ExpectBroken("H7");
}

TEST_F(HistoryTest, AnIncrementIsLost) {
  Increment(1);
  Increment(2);
  Crash();
  Increment(2);
  ExpectBroken("H7");
}

TEST_F(HistoryTest, AnIncrementIsNotInTheSum) {
  Increment(1);
  Increment(2);
  Crash();
  ReadCounter(1);
  ExpectBroken("H7");
}

TEST_F(HistoryTest, OfAnUnknownIncrementTheSumTells) {
  Increment(1);
  Increment(0);
  ReadCounter(1);
  ReadCounter(2);
  ExpectGood();
  ReadCounter(1);
  ExpectBroken("H7");
}

}  // namespace
}  // namespace remora
