#include "tests/linearizability/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/linearizability/random_history.h"

namespace remora::linear {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr Time kMs = 1'000'000;

/// A history, as it is told: by whom, from when to when, what.
class Told {
 public:
  Told& Get(std::uint32_t client, Time begun, Time ended, std::string value, std::uint64_t version) {
    Operation& get = Add(client, begun, ended, Kind::kGet);
    get.value = std::move(value);
    get.version = version;
    return *this;
  }
  Told& Missing(std::uint32_t client, Time begun, Time ended) {
    Add(client, begun, ended, Kind::kGet).outcome = Outcome::kNotFound;
    return *this;
  }
  Told& Put(std::uint32_t client, Time begun, Time ended, std::string value, std::uint64_t version,
            Condition condition = {}) {
    Operation& put = Add(client, begun, ended, Kind::kPut);
    put.value = std::move(value);
    put.version = version;
    put.condition = condition;
    return *this;
  }
  Told& Lost() {  // the last one's answer
    history_.operations.back().outcome = Outcome::kUnknown;
    history_.operations.back().ended = kNever;
    history_.operations.back().version = 0;
    return *this;
  }
  Told& Rejected(Outcome outcome) {
    history_.operations.back().outcome = outcome;
    history_.operations.back().version = 0;
    return *this;
  }
  Told& For(milliseconds ttl) {
    history_.operations.back().ttl = ttl;
    return *this;
  }
  Told& Of(std::string key) {
    history_.operations.back().key = std::move(key);
    return *this;
  }
  Told& InBatch(std::uint64_t batch, std::uint64_t place) {
    history_.operations.back().batch = batch;
    history_.operations.back().batch_place = place;
    return *this;
  }
  Told& Delete(std::uint32_t client, Time begun, Time ended, std::uint64_t version) {
    Add(client, begun, ended, Kind::kDelete).version = version;
    return *this;
  }
  Told& Touch(std::uint32_t client, Time begun, Time ended, std::uint64_t version) {
    Operation& touch = Add(client, begun, ended, Kind::kTouch);
    touch.ttl = kNeverExpires;
    touch.version = version;
    return *this;
  }
  Told& Increment(std::uint32_t client, Time begun, Time ended, std::int64_t result, std::uint64_t version) {
    Operation& increment = Add(client, begun, ended, Kind::kIncrement);
    increment.delta = 1;
    increment.result = result;
    increment.version = version;
    return *this;
  }
  Told& Append(std::uint32_t client, Time begun, Time ended, std::string bytes, std::int64_t size,
               std::uint64_t version) {
    Operation& append = Add(client, begun, ended, Kind::kAppend);
    append.value = std::move(bytes);
    append.result = size;
    append.version = version;
    return *this;
  }
  Told& Scan(Time begun, Time ended, std::vector<ScanResult::Entry> entries) {
    return LongScan(begun, ended, ended, std::move(entries));
  }
  Told& LongScan(Time begun, Time opened, Time ended, std::vector<ScanResult::Entry> entries) {
    history_.scans.push_back({9, std::move(entries), begun, opened, ended});
    return *this;
  }
  Told& OneSided(Time begun, Time ended, std::vector<ScanResult::Entry> entries, bool is_whole = true) {
    LongScan(begun, begun, ended, std::move(entries));
    history_.scans.back().is_one_sided = true;
    history_.scans.back().is_whole = is_whole;
    return *this;
  }
  Told& InReverse() {
    history_.scans.back().is_reverse = true;
    return *this;
  }

  std::string Faults() const { return Text(Check(history_)); }
  std::string FaultsInOrder() const { return Text(Check(history_, {.writes_in_order = true})); }

 private:
  Operation& Add(std::uint32_t client, Time begun, Time ended, Kind kind) {
    Operation& operation = history_.operations.emplace_back();
    operation.client = client;
    operation.kind = kind;
    operation.outcome = Outcome::kOk;
    operation.key = "k";
    operation.begun = begun;
    operation.ended = ended;
    return operation;
  }

  History history_;
};

TEST(LinearTest, OverlappingWritesMayBeSeenOrNot) {
  EXPECT_EQ(Told()
                .Put(1, 0, 10, "a", 1)
                .Put(1, 20, 40, "b", 2)
                .Get(2, 21, 30, "a", 1)
                .Get(3, 22, 31, "b", 2)
                .Faults(),
            "");
  EXPECT_EQ(Told().Put(1, 0, 10, "a", 1).Missing(2, 1, 9).Get(3, 2, 8, "a", 1).Faults(), "");
}

TEST(LinearTest, AStaleRead) {
  const std::string faults =
      Told().Put(1, 0, 10, "a", 1).Put(1, 20, 30, "b", 2).Get(2, 31, 40, "a", 1).Faults();
  EXPECT_THAT(faults, HasSubstr("get k: 'a' of version 1"));
  EXPECT_THAT(faults, HasSubstr("whatever was there before"));
  EXPECT_THAT(faults, testing::Not(HasSubstr("put k 'a'"))) << "the shortest part";
}

TEST(LinearTest, AReadInversion) {
  EXPECT_THAT(Told()
                  .Put(1, 0, 10, "a", 1)
                  .Put(1, 20, 90, "b", 2)
                  .Get(2, 21, 30, "b", 2)
                  .Get(3, 31, 40, "a", 1)
                  .Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, AValueThatNobodyWrote) {
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 1).Get(2, 11, 20, "b", 2).Faults(),
              HasSubstr("could be: a value that nobody read of version 1"));
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 1).Get(2, 11, 20, "a", 7).Faults(), HasSubstr("no order"));
}

TEST(LinearTest, AWriteThatIsLost) {
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 1).Missing(2, 11, 20).Faults(), HasSubstr("no order"));
}

TEST(LinearTest, ALostUpdate) {
  EXPECT_EQ(Told()
                .Put(1, 0, 10, "a", 1)
                .Put(1, 11, 30, "b", 2, Condition::Version(1))
                .Put(2, 12, 31, "c", 3)
                .Faults(),
            "");
  EXPECT_THAT(Told()
                  .Put(1, 0, 10, "a", 1)
                  .Put(1, 11, 30, "b", 2, Condition::Version(1))
                  .Put(2, 12, 31, "c", 3, Condition::Version(1))
                  .Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(
      Told().Put(1, 0, 10, "a", 1, Condition::Absent()).Put(2, 0, 10, "b", 2, Condition::Absent()).Faults(),
      HasSubstr("no order"));
}

TEST(LinearTest, ARejectionThatHadNoReason) {
  EXPECT_EQ(Told()
                .Put(1, 0, 10, "a", 1)
                .Put(2, 11, 20, "b", 0, Condition::Absent())
                .Rejected(Outcome::kAlreadyExists)
                .Faults(),
            "");
  EXPECT_THAT(Told()
                  .Put(1, 0, 10, "a", 1)
                  .Delete(1, 11, 12, 2)
                  .Put(2, 13, 20, "b", 0, Condition::Absent())
                  .Rejected(Outcome::kAlreadyExists)
                  .Faults(),
              HasSubstr("exists already"));
  EXPECT_THAT(Told()
                  .Put(1, 0, 10, "a", 1)
                  .Put(2, 13, 20, "b", 0, Condition::Version(1))
                  .Rejected(Outcome::kFailedPrecondition)
                  .Faults(),
              HasSubstr("another version"));
}

TEST(LinearTest, AnIncrementDoneTwice) {
  EXPECT_EQ(Told().Increment(1, 0, 10, 1, 1).Increment(2, 0, 10, 2, 2).Get(3, 11, 12, "2", 2).Faults(), "");
  EXPECT_THAT(Told().Increment(1, 0, 10, 1, 1).Increment(2, 11, 20, 3, 3).Faults(), HasSubstr("no order"));
  EXPECT_THAT(Told().Increment(1, 0, 10, 1, 1).Increment(2, 11, 20, 1, 2).Faults(), HasSubstr("no order"));
  // One whose answer was lost is done once at the most.
  const Told once = Told().Increment(1, 0, 0, 0, 0).Lost().Increment(2, 11, 20, 2, 3);
  EXPECT_EQ(once.Faults(), "");
  EXPECT_THAT(Told(once).Increment(2, 21, 30, 4, 5).Faults(), HasSubstr("no order"));
}

TEST(LinearTest, AnAppendDoneTwice) {
  EXPECT_EQ(Told().Append(1, 0, 10, "ab", 2, 1).Append(2, 0, 20, "c", 3, 2).Get(3, 21, 22, "abc", 2).Faults(),
            "");
  EXPECT_THAT(Told().Append(1, 0, 10, "ab", 2, 1).Append(2, 11, 20, "c", 5, 3).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(Told().Append(1, 0, 10, "ab", 2, 1).Get(3, 11, 12, "abab", 2).Faults(), HasSubstr("no order"));
}

TEST(LinearTest, ADeleteThatIsResurrected) {
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 1).Delete(1, 11, 20, 2).Get(2, 21, 30, "a", 1).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 1).Delete(1, 11, 20, 2).Delete(2, 21, 30, 3).Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, ServingAnExpiredKeyIsAFault) {
  const Told told = Told().Put(1, 0, 1 * kMs, "a", 1).For(milliseconds(100));
  EXPECT_EQ(Told(told).Get(2, 90 * kMs, 91 * kMs, "a", 1).Faults(), "");
  EXPECT_EQ(Told(told).Missing(2, 90 * kMs, 99 * kMs).Faults(), "");
  EXPECT_EQ(Told(told).Missing(2, 110 * kMs, 111 * kMs).Faults(), "");
  EXPECT_THAT(Told(told).Missing(2, 80 * kMs, 90 * kMs).Faults(), HasSubstr("not found"));
  EXPECT_THAT(Told(told).Get(2, 110 * kMs, 111 * kMs, "a", 1).Faults(), HasSubstr("'a' of version 1"));
  // Not once it was seen to be gone.
  EXPECT_THAT(Told(told).Missing(2, 98 * kMs, 99 * kMs).Get(2, 99 * kMs + 1, 101 * kMs, "a", 1).Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, ATouchMayBringBackWhatExpiredMeanwhileAndNoLater) {
  const Told told = Told().Put(1, 0, 1 * kMs, "a", 1).For(milliseconds(100));
  EXPECT_EQ(Told(told)
                .Touch(2, 90 * kMs, 120 * kMs, 2)
                .Missing(3, 105 * kMs, 106 * kMs)
                .Get(3, 121 * kMs, 122 * kMs, "a", 2)
                .Faults(),
            "");
  EXPECT_THAT(Told(told).Touch(2, 110 * kMs, 120 * kMs, 2).Faults(), HasSubstr("no order"));
  EXPECT_THAT(Told(told).Touch(2, 90 * kMs, 104 * kMs, 2).Missing(3, 105 * kMs, 106 * kMs).Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, ALostWriteMayBeDoneLateOrNever) {
  const Told told = Told().Put(1, 0, 10, "a", 1).Put(2, 11, 20, "b", 0).Lost();
  EXPECT_EQ(Told(told).Get(1, 30, 40, "a", 1).Get(1, 50, 60, "b", 2).Faults(), "");
  EXPECT_EQ(Told(told).Get(1, 30, 40, "b", 2).Put(1, 41, 50, "c", 3).Faults(), "");
  EXPECT_THAT(Told(told).Get(1, 30, 40, "b", 2).Get(1, 50, 60, "a", 1).Faults(), HasSubstr("no order"));
  EXPECT_THAT(Told(told).Get(1, 5, 8, "b", 2).Faults(), HasSubstr("no order")) << "it had not begun";
  // Nobody read it, but it explains what was found.
  EXPECT_EQ(Told(told).Delete(1, 30, 40, 5).Delete(1, 50, 60, 7).Rejected(Outcome::kNotFound).Faults(), "");
}

TEST(LinearTest, VersionsGoUp) {
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 5).Put(2, 11, 20, "b", 5).Of("other").Faults(),
              HasSubstr("two writes of one"));
  EXPECT_THAT(Told().Put(1, 0, 10, "a", 5).Put(2, 11, 20, "b", 4).Of("other").Faults(),
              HasSubstr("later version"));
}

TEST(LinearTest, AReaderOfTheLastWriteOfABatchSeesAllOfIt) {
  const Told told =
      Told().Put(1, 0, 100, "a", 1).InBatch(1, 0).Put(1, 0, 100, "b", 2).InBatch(1, 1).Of("other");
  EXPECT_EQ(Told(told).Get(2, 10, 20, "a", 1).Missing(2, 21, 30).Of("other").Faults(), "");
  EXPECT_THAT(Told(told).Get(2, 10, 20, "b", 2).Of("other").Missing(2, 21, 30).Faults(),
              HasSubstr("no order"));
  // All or nothing, also where nobody knows which.
  const Told lost =
      Told().Put(1, 0, 0, "a", 0).InBatch(1, 0).Lost().Put(1, 0, 0, "b", 0).InBatch(1, 1).Of("other").Lost();
  EXPECT_EQ(Told(lost).Missing(2, 10, 20).Missing(2, 10, 20).Of("other").Faults(), "");
  EXPECT_THAT(Told(lost).Get(2, 10, 20, "b", 2).Of("other").Missing(2, 21, 30).Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, ScansAreOfOneMoment) {
  const Told told = Told().Put(1, 0, 10, "a", 1).Put(1, 11, 100, "b", 2).Put(1, 12, 100, "c", 3).Of("other");
  EXPECT_EQ(Told(told).Scan(20, 30, {{"k", "a", 1}}).Faults(), "");
  EXPECT_EQ(Told(told).Scan(20, 30, {{"k", "b", 2}, {"other", "c", 3}}).Faults(), "");
  EXPECT_EQ(Told(told).Scan(20, 30, {{"k", "b", 2}}).Faults(), "");
  EXPECT_THAT(Told(told).Scan(20, 30, {{"k", "a", 1}, {"other", "c", 3}}).Faults(),
              HasSubstr("what was done before"));
  EXPECT_THAT(Told(told).Scan(101, 110, {{"k", "b", 2}}).Faults(), HasSubstr("no order"));
}

// A one-sided scan counts as one Get of each key, at any moment of the scan.
TEST(LinearTest, OneSidedScansShowEachKeyAsOfAMomentOfTheScan) {
  const Told told = Told().Put(1, 0, 10, "a", 1).Put(1, 40, 50, "b", 3).Put(1, 0, 10, "c", 2).Of("other");
  EXPECT_EQ(Told(told).OneSided(20, 30, {{"k", "a", 1, 25}, {"other", "c", 2, 26}}).Faults(), "");
  EXPECT_EQ(Told(told).OneSided(20, 90, {{"k", "a", 1, 80}, {"other", "c", 2, 81}}).Faults(), "");
  EXPECT_EQ(Told(told).OneSided(20, 90, {{"k", "b", 3, 80}, {"other", "c", 2, 81}}).Faults(), "");
  // Later than it was shown, and earlier than the scan.
  EXPECT_THAT(Told(told).OneSided(20, 90, {{"k", "b", 3, 35}, {"other", "c", 2, 81}}).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(Told(told).OneSided(60, 90, {{"k", "a", 1, 80}, {"other", "c", 2, 81}}).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(Told(told).OneSided(20, 30, {{"k", "d", 9, 25}, {"other", "c", 2, 26}}).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(Told(told).OneSided(20, 90, {{"other", "c", 2, 81}}).Faults(), HasSubstr("no order"));
  EXPECT_EQ(Told(told).OneSided(20, 90, {{"other", "c", 2, 81}}, /*is_whole=*/false).Faults(), "");
}

TEST(LinearTest, OneSidedScansShowTheKeysInTheirOrder) {
  const Told told = Told().Put(1, 0, 10, "a", 1).Put(1, 0, 10, "c", 2).Of("other");
  const std::vector<ScanResult::Entry> up = {{"k", "a", 1, 21}, {"other", "c", 2, 22}};
  const std::vector<ScanResult::Entry> down = {up[1], up[0]}, twice = {up[0], up[0], up[1]};
  EXPECT_EQ(Told(told).OneSided(20, 30, up).Faults(), "");
  EXPECT_EQ(Told(told).OneSided(20, 30, down).InReverse().Faults(), "");
  EXPECT_THAT(Told(told).OneSided(20, 30, down).Faults(), HasSubstr("shows 'k' behind 'other'"));
  EXPECT_THAT(Told(told).OneSided(20, 30, up).InReverse().Faults(), HasSubstr("shows 'other' behind 'k'"));
  EXPECT_THAT(Told(told).OneSided(20, 30, twice).Faults(), HasSubstr("shows 'k' behind 'k'"));
}

// A scan leaves out what has expired when it comes to it, also where it was overwritten since its moment.
TEST(LinearTest, AScanMayOmitKeysThatExpireMeanwhile) {
  const auto told = [](milliseconds ttl) {
    return Told().Put(1, 0, 1 * kMs, "a", 1).For(ttl).Put(1, 20 * kMs, 21 * kMs, "b", 2);
  };
  EXPECT_EQ(told(milliseconds(100)).LongScan(10 * kMs, 12 * kMs, 300 * kMs, {}).Faults(), "");
  EXPECT_THAT(told(milliseconds(100)).LongScan(10 * kMs, 12 * kMs, 50 * kMs, {}).Faults(),
              HasSubstr("no order"));
  EXPECT_THAT(told(kNeverExpires).LongScan(10 * kMs, 12 * kMs, 300 * kMs, {}).Faults(), HasSubstr("no"));
  EXPECT_THAT(told(milliseconds(100)).LongScan(22 * kMs, 25 * kMs, 300 * kMs, {}).Faults(),
              HasSubstr("no order"));
}

TEST(LinearTest, AClientsWritesAreDoneInTheirOrder) {
  const Told told = Told().Put(1, 0, 100, "a", 2).Put(1, 1, 90, "b", 1).Of("other");
  EXPECT_EQ(told.Faults(), "");
  EXPECT_THAT(told.FaultsInOrder(), HasSubstr("in another order than it began them"));
  EXPECT_EQ(Told().Put(1, 0, 100, "a", 1).Put(1, 1, 90, "b", 2).Put(2, 0, 90, "c", 3).FaultsInOrder(), "");
}

TEST(LinearTest, AClientsWritesAreRejectedAtTheirTurns) {
  const Told there = Told().Put(1, 0, 1, "a", 1);
  const auto rejected = [](Told told, Time begun) {
    return told.Put(2, begun, 100, "b", 0, Condition::Absent()).Rejected(Outcome::kAlreadyExists);
  };
  EXPECT_EQ(rejected(there, 10).Delete(2, 11, 100, 2).FaultsInOrder(), "");
  const Told late = rejected(Told(there).Delete(2, 10, 100, 2), 11);
  EXPECT_EQ(late.Faults(), "");
  EXPECT_THAT(late.FaultsInOrder(), HasSubstr("no order"));
  // Of another client's, nobody knows.
  EXPECT_EQ(rejected(Told(there).Delete(3, 10, 100, 2), 11).FaultsInOrder(), "");
}

TEST(LinearTest, ALostWriteKeepsItsOrderAmongTheWritesOfItsClient) {
  const Told lost = Told().Put(1, 0, 1, "a", 1).Delete(2, 10, 0, 0).Lost().Put(2, 11, 20, "b", 3);
  EXPECT_EQ(Told(lost).Get(3, 30, 40, "b", 3).FaultsInOrder(), "");
  EXPECT_EQ(Told(lost).Missing(3, 12, 40).FaultsInOrder(), "") << "between the two";
  EXPECT_EQ(Told(lost).Missing(3, 30, 40).Faults(), "");
  EXPECT_THAT(Told(lost).Missing(3, 30, 40).FaultsInOrder(), HasSubstr("no order"));
  // Nor before its turn.
  const Told early = Told().Put(1, 0, 1, "a", 1).Put(2, 10, 100, "b", 3).Delete(2, 11, 0, 0).Lost();
  EXPECT_EQ(Told(early).Missing(3, 12, 20).Get(3, 30, 40, "b", 3).Faults(), "");
  EXPECT_THAT(Told(early).Missing(3, 12, 20).Get(3, 30, 40, "b", 3).FaultsInOrder(), HasSubstr("no order"));
}

// An earlier result explains a rejection as well, but no later one does.
TEST(LinearTest, ALostWriteMayPrecedeALaterRejection) {
  const Told told = Told()
                        .Put(1, 0, 1, "a", 1)
                        .Touch(2, 10, 0, 0)
                        .Lost()
                        .Put(2, 20, 30, "b", 0, Condition::Absent())
                        .Rejected(Outcome::kAlreadyExists);
  EXPECT_EQ(Told(told).Get(3, 40, 50, "a", 2).FaultsInOrder(), "");
  EXPECT_EQ(Told(told).Get(3, 40, 50, "a", 1).FaultsInOrder(), "");
  // Several, with another client's between them.
  const Told several = Told()
                           .Increment(1, 0, 1, 1, 1)
                           .Increment(2, 10, 0, 0, 0)
                           .Lost()
                           .Increment(2, 11, 0, 0, 0)
                           .Lost()
                           .Put(2, 20, 30, "9", 0, Condition::Version(7))
                           .Rejected(Outcome::kFailedPrecondition);
  EXPECT_EQ(Told(several).Increment(2, 31, 40, 4, 5).FaultsInOrder(), "");
  EXPECT_EQ(Told(several).Increment(3, 12, 29, 3, 3).Increment(2, 31, 40, 5, 5).FaultsInOrder(), "");
  EXPECT_EQ(Told(several).Increment(3, 12, 29, 2, 3).Increment(2, 31, 40, 3, 5).FaultsInOrder(), "");
  EXPECT_THAT(Told(several).Increment(2, 31, 40, 5, 5).FaultsInOrder(), HasSubstr("no order"));
}

TEST(LinearTest, HistoriesOfAStoreAreLinearizable) {
  std::size_t checked = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    RandomHistoryOptions options;
    options.seed = seed;
    options.clients = 2 + seed % 6;
    options.keys = 1 + seed % 3;
    options.unknown_percent = seed % 4 == 0 ? 5 : 0;
    options.late = seed % 8 == 0;
    options.ttls = seed % 3 == 0;
    const Verdict verdict = Check(MakeHistory(options), {.writes_in_order = !options.late});
    ASSERT_TRUE(verdict.ok()) << "seed " << seed << ": " << Text(verdict);
    checked += verdict.checked;
  }
  EXPECT_GT(checked, 50'000u);
}

TEST(LinearTest, ItTakesTimeInProportion) {
  RandomHistoryOptions options;
  options.operations = 200'000;
  options.keys = 4;
  options.ttls = true;
  EXPECT_TRUE(Check(MakeHistory(options)).ok());
}

}  // namespace
}  // namespace remora::linear
