// The parts of replication that do no I/O over a network: R1 to R9, R11, R14, R15 (server/replication).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/replication/follower_link.h"
#include "server/replication/group_receiver.h"
#include "server/replication/handover.h"
#include "server/replication/history.h"
#include "server/replication/replication_service.h"
#include "server/replication/shipped_groups.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// --- Histories ------------------------------------------------------------------------------------------

const History kHistory{
    .is_primary = false, .began_empty = true, .reigns = {{1, 11, 0}, {2, 22, 100}, {4, 44, 150}}};

History UpTo(std::size_t reigns) {
  History history = kHistory;
  history.reigns.resize(reigns);
  return history;
}

std::string WhyNot(const History& own, FollowerPosition at, const History& primary, std::uint64_t last) {
  return std::string(CheckPrimary(own, at, primary, last).message());
}

TEST(HistoryTest, AFollowerOfTheSameHistoryFollows) {
  EXPECT_EQ(WhyNot(kHistory, {.last = 170, .is_empty = false}, kHistory, 170), "");
  EXPECT_EQ(WhyNot(kHistory, {.last = 10, .is_empty = false}, kHistory, 170), "");
  EXPECT_EQ(WhyNot(UpTo(1), {.last = 100, .is_empty = false}, kHistory, 170), "");
  EXPECT_EQ(WhyNot(UpTo(2), {.last = 150, .is_empty = false}, kHistory, 170), "");
}

TEST(HistoryTest, AnEarlierPrimaryIsRejected) {  // R1
  EXPECT_THAT(WhyNot(kHistory, {.last = 10, .is_empty = false}, UpTo(2), 170),
              HasSubstr("stop that primary"));
}

TEST(HistoryTest, AnotherPrimaryOfTheSameEpochIsRejected) {  // R1
  History other = kHistory;
  other.reigns.back().id = 45;
  EXPECT_THAT(WhyNot(kHistory, {.last = 10, .is_empty = false}, other, 170), HasSubstr("histories differ"));
}

TEST(HistoryTest, APrimaryThatLacksTheReignIsRejected) {  // R2
  History other = kHistory;
  other.reigns[1].id = 23;
  EXPECT_THAT(WhyNot(UpTo(2), {.last = 10, .is_empty = false}, other, 170), HasSubstr("histories differ"));
}

TEST(HistoryTest, AFollowerWithGroupsBeyondItsReignIsRejected) {  // R2
  EXPECT_THAT(WhyNot(UpTo(1), {.last = 101, .is_empty = false}, kHistory, 170), HasSubstr("only 100"));
  EXPECT_THAT(WhyNot(kHistory, {.last = 171, .is_empty = false}, kHistory, 170), HasSubstr("only 170"));
}

TEST(HistoryTest, AFollowerWithoutAHistoryIsEmptyAndSoWasThePrimary) {  // R3
  const History none;
  EXPECT_EQ(WhyNot(none, {.last = 0, .is_empty = true}, kHistory, 170), "");
  EXPECT_THAT(WhyNot(none, {.last = 0, .is_empty = false}, kHistory, 170), HasSubstr("did not come from"));
  EXPECT_THAT(WhyNot(none, {.last = 3, .is_empty = true}, kHistory, 170), HasSubstr("did not come from"));
  History with_data = kHistory;
  with_data.began_empty = false;
  EXPECT_THAT(WhyNot(none, {.last = 0, .is_empty = true}, with_data, 170), HasSubstr("had data before"));
}

TEST(HistoryTest, ARejectedFollowerBeginsEmptyOnlyWhereThatHelps) {  // R3
  History other = kHistory;
  other.reigns.back().id = 45;
  for (const bool began_empty : {true, false}) {
    other.began_empty = began_empty;
    const std::string advice =
        began_empty ? "begin with an empty --data_dir" : "a copy of the primary's --data_dir";
    EXPECT_THAT(WhyNot(kHistory, {.last = 10, .is_empty = false}, other, 170), HasSubstr(advice));
    EXPECT_THAT(WhyNot(UpTo(1), {.last = 101, .is_empty = false}, other, 170), HasSubstr(advice));
  }
}

TEST(HistoryTest, ACopyIsTakenOfAPrimaryOfTheSameShardAlone) {  // R15
  const FollowerPosition at{.last = 170, .is_empty = false};
  const auto may = [&](const History& own, const History& primary) {
    return CheckCopy(own, at, primary).ok();
  };
  History diverged = UpTo(2);
  diverged.Begin(99, 120);
  EXPECT_TRUE(
      may(diverged, {.is_primary = true, .began_empty = true, .reigns = {{2, 22, 100}, {4, 44, 150}}}));
  EXPECT_FALSE(may(diverged, UpTo(2))) << "an earlier epoch";
  const History anew{.is_primary = true, .began_empty = true, .reigns = {{1, 91, 0}, {5, 95, 10}}};
  EXPECT_FALSE(may(kHistory, anew)) << "a shard that was begun anew";
  EXPECT_TRUE(CheckCopy({}, {.last = 0, .is_empty = true}, anew).ok())
      << "an empty member has nothing to lose";
}

TEST(HistoryTest, ComesBackFromItsFile) {
  const TempDir dir;
  EXPECT_EQ(*ReadHistory(dir.path()), std::nullopt);
  History history = kHistory;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(WriteHistory(dir.path(), history).ok());
    ASSERT_EQ(*ReadHistory(dir.path()), history);
    history.Begin(7, history.reigns.back().after + 3);
    history.is_primary = !history.is_primary;
  }
  EXPECT_EQ(history.reigns.size(), kMaxReigns);
  EXPECT_EQ(history.epoch(), 304);
}

TEST(HistoryTest, ADamagedFileIsAnError) {
  const TempDir dir;
  const std::string good = FormatHistory(kHistory);
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() - 1), "x" + good, good + "reign 5 5\n",
        good + "reign 3 5 160\n", good + "reign 5 5 140\n", good + "reign 5 0000000000000000 160\n"}) {
    std::ofstream(dir.path() + "/" + std::string(kHistoryFile)) << bad;
    EXPECT_TRUE(absl::IsDataLoss(ReadHistory(dir.path()).status())) << bad;
  }
}

TEST(HistoryTest, ADirectoryKeepsItsRole) {  // R14
  const TempDir dir;
  const ReplicationOptions none, follows{.follows = true};
  ReplicationOptions leads;
  leads.followers.resize(1);
  EXPECT_TRUE(CheckHistory(dir.path(), none).ok());
  EXPECT_TRUE(CheckHistory(dir.path(), follows).ok());
  History history = kHistory;
  ASSERT_TRUE(WriteHistory(dir.path(), history).ok());
  EXPECT_TRUE(CheckHistory(dir.path(), follows).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckHistory(dir.path(), none).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckHistory(dir.path(), leads).status()));
  history.is_primary = true;
  ASSERT_TRUE(WriteHistory(dir.path(), history).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckHistory(dir.path(), follows).status()));
  EXPECT_TRUE(CheckHistory(dir.path(), none).ok());
  EXPECT_EQ(*CheckHistory(dir.path(), leads), history);
}

// --- Groups that leave ----------------------------------------------------------------------------------

Reply ReplyTo(const FollowerLink::Part& part, std::uint64_t acknowledged) {
  Reply reply;
  reply.request_id = part.request.request_id;
  reply.version = acknowledged;
  return reply;
}

TEST(ShippedGroupsTest, KeepsGroupsUntilTheyAreReleased) {  // R11
  int calls = 0;
  ShippedGroups groups(5, [&] { ++calls; });
  EXPECT_EQ(groups.last(), 4);
  groups.Take(5, "five");
  groups.Take(6, "six");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(groups.bytes(), 7);
  EXPECT_EQ(*groups.Find(5), "five");
  EXPECT_EQ(groups.Find(7), nullptr);
  groups.Release(5);
  EXPECT_EQ(groups.Find(5), nullptr);
  EXPECT_EQ(*groups.Find(6), "six");
  EXPECT_EQ(groups.bytes(), 3);
  groups.Release(9);
  EXPECT_EQ(groups.first(), 7);
  EXPECT_EQ(groups.last(), 6);
}

TEST(FollowerLinkTest, SendsPartsInOrder) {  // R4
  FollowerLink link(5, 100, 7, 7);
  std::vector<std::size_t> offsets;
  for (const std::size_t size : {100u, 250u}) {
    do {
      const auto part = link.Next(size);
      ASSERT_TRUE(part);
      EXPECT_EQ(part->number, size == 100 ? 8 : 9);
      EXPECT_EQ(part->request.condition, part->number);
      EXPECT_EQ(part->request.ttl_ms, size);
      EXPECT_EQ(part->request.payload_checksum, part->offset);
      EXPECT_EQ(part->request.value_size, part->size);
      offsets.push_back(part->offset);
    } while (link.next() == (size == 100 ? 8u : 9u));
  }
  EXPECT_THAT(offsets, ElementsAre(0, 0, 100, 200));
  EXPECT_EQ(link.next(), 10);
}

TEST(FollowerLinkTest, ASlotHasOneUnansweredMessage) {  // R5
  FollowerLink link(3, 100, 0, 0);
  const auto one = link.Next(10);
  const auto two = link.Next(10);
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->slot, two->slot);
  EXPECT_EQ(one->request.payload_offset, one->slot * 100);
  EXPECT_FALSE(link.can_send());
  EXPECT_FALSE(link.Next(10));
  ASSERT_TRUE(link.TakeReply(ReplyTo(*two, 0), "").ok());
  const auto three = link.Next(10);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->slot, two->slot);
  EXPECT_TRUE(link.awaits_reply());
}

TEST(FollowerLinkTest, CountsWhatTheFollowerSays) {  // R6
  FollowerLink link(5, 100, 7, 5);
  EXPECT_EQ(link.acknowledged(), 5);
  const auto whole = link.Next(10);
  const auto half = link.Next(150);
  ASSERT_TRUE(whole && half);
  EXPECT_TRUE(absl::IsInvalidArgument(link.TakeReply(ReplyTo(*half, 9), ""))) << "9 is not sent whole";
  EXPECT_TRUE(link.TakeReply(ReplyTo(*half, 8), "").ok());
  EXPECT_EQ(link.acknowledged(), 8);
  EXPECT_TRUE(absl::IsInvalidArgument(link.TakeReply(ReplyTo(*half, 8), ""))) << "it was answered";
  EXPECT_TRUE(link.TakeReply(ReplyTo(*whole, 6), "").ok());
  EXPECT_EQ(link.acknowledged(), 8) << "a reply that came late";
}

TEST(FollowerLinkTest, ARoundHasASlotOfItsOwn) {
  FollowerLink link(3, 100, 0, 0);
  ASSERT_TRUE(link.Next(500) && link.Next(500));
  EXPECT_FALSE(link.can_send());
  const auto ask = link.Ask(4);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->operation, Operation::kSupport);
  EXPECT_EQ(ask->condition, 4);
  EXPECT_EQ(ask->payload_offset, 200);
  EXPECT_FALSE(link.Ask(5).has_value()) << "the one before is unanswered";
  Reply reply;
  reply.request_id = ask->request_id;
  EXPECT_EQ(link.answered(), 0);
  EXPECT_TRUE(link.TakeReply(reply, "").ok());
  EXPECT_EQ(link.answered(), 4);
  EXPECT_FALSE(link.can_send()) << "its slot takes no part";
  EXPECT_FALSE(link.Ask(4).has_value());
  EXPECT_TRUE(link.Ask(5).has_value());
}

TEST(FollowerLinkTest, AFollowerThatRejectsAGroupEndsTheLink) {
  FollowerLink link(5, 100, 7, 7);
  Reply reply = ReplyTo(*link.Next(10), 8);
  reply.status = ReplyStatus::kFailedPrecondition;
  EXPECT_EQ(link.TakeReply(reply, "why"), absl::FailedPreconditionError("why"));
  EXPECT_EQ(link.acknowledged(), 7);
}

// --- Groups that come -----------------------------------------------------------------------------------

class GroupReceiverTest : public testing::Test {
 protected:
  absl::Status Take(std::uint64_t number, std::string_view group, std::size_t offset, std::size_t size) {
    return receiver_.Take({.number = number,
                           .group_size = group.size(),
                           .offset = offset,
                           .bytes = std::as_bytes(std::span(group)).subspan(offset, size)});
  }
  absl::Status Take(std::uint64_t number, std::string_view group) {
    return Take(number, group, 0, group.size());
  }

  std::vector<std::string> applied_;
  absl::Status outcome_;
  GroupReceiver receiver_{[this](std::uint64_t number, std::string_view bytes) {
    if (outcome_.ok()) applied_.push_back(std::to_string(number) + std::string(bytes));
    return outcome_;
  }};
  const int one_ = 0, two_ = 0;  // primaries
};

TEST_F(GroupReceiverTest, JoinsPartsAndAppliesGroupsInOrder) {  // R8
  receiver_.Begin(&one_, 4, false);
  EXPECT_TRUE(Take(5, "abcd", 0, 2).ok());
  EXPECT_FALSE(receiver_.has_work());
  EXPECT_TRUE(Take(5, "abcd", 2, 2).ok());
  EXPECT_TRUE(Take(6, "ef").ok());
  EXPECT_EQ(receiver_.acknowledged(), 4);
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_THAT(applied_, ElementsAre("5abcd", "6ef"));
  EXPECT_EQ(receiver_.acknowledged(), 6);
}

TEST_F(GroupReceiverTest, TakesNoPartOutOfOrder) {  // R8
  receiver_.Begin(&one_, 4, false);
  EXPECT_TRUE(absl::IsInvalidArgument(Take(4, "ab")));
  EXPECT_TRUE(absl::IsInvalidArgument(Take(6, "ab")));
  EXPECT_TRUE(absl::IsInvalidArgument(Take(5, "ab", 1, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(Take(5, "ab", 0, 0)));
  EXPECT_TRUE(Take(5, "ab", 0, 1).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Take(5, "ab", 0, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(Take(6, "ab", 1, 1)));
  EXPECT_TRUE(Take(5, "ab", 1, 1).ok());
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_THAT(applied_, ElementsAre("5ab"));
}

TEST_F(GroupReceiverTest, AGroupThatTheStoreTakesLaterStays) {  // R9
  receiver_.Begin(&one_, 0, false);
  ASSERT_TRUE(Take(1, "ab").ok());
  outcome_ = absl::AbortedError("later");
  EXPECT_FALSE(*receiver_.Apply());
  EXPECT_TRUE(receiver_.has_work());
  EXPECT_EQ(receiver_.acknowledged(), 0);
  outcome_ = absl::OkStatus();
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_EQ(receiver_.acknowledged(), 1);
}

TEST_F(GroupReceiverTest, AGroupThatFailsEndsAll) {
  receiver_.Begin(&one_, 0, false);
  ASSERT_TRUE(Take(1, "ab").ok());
  outcome_ = absl::DataLossError("damaged");
  EXPECT_EQ(receiver_.Apply().status(), outcome_);
  EXPECT_FALSE(receiver_.has_primary());
  EXPECT_FALSE(receiver_.has_work());
}

TEST_F(GroupReceiverTest, AcknowledgesWhatTheDiskHas) {  // R9
  receiver_.Begin(&one_, 0, true);
  ASSERT_TRUE(Take(1, "a").ok());
  ASSERT_TRUE(Take(2, "b").ok());
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_EQ(receiver_.acknowledged(), 0);
  receiver_.NoteSynced(1);
  EXPECT_EQ(receiver_.acknowledged(), 1);
  receiver_.NoteSynced(9);
  EXPECT_EQ(receiver_.acknowledged(), 2);
}

TEST_F(GroupReceiverTest, DropsWhatAnEarlierPrimarySent) {  // R7
  receiver_.Begin(&one_, 0, false);
  EXPECT_TRUE(receiver_.IsFrom(&one_));
  ASSERT_TRUE(Take(1, "a").ok());
  ASSERT_TRUE(Take(2, "bc", 0, 1).ok());
  receiver_.Begin(&two_, 0, false);
  EXPECT_FALSE(receiver_.IsFrom(&one_));
  EXPECT_TRUE(receiver_.IsFrom(&two_));
  EXPECT_FALSE(receiver_.IsFrom(nullptr));
  ASSERT_TRUE(Take(1, "x").ok());
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_THAT(applied_, ElementsAre("1x"));
}

TEST_F(GroupReceiverTest, IsFullWhileMuchWaits) {
  receiver_.Begin(&one_, 0, false);
  const std::string large(GroupReceiver::kFullBytes, 'x');
  ASSERT_TRUE(Take(1, large).ok());
  EXPECT_TRUE(receiver_.is_full());
  EXPECT_TRUE(*receiver_.Apply());
  EXPECT_FALSE(receiver_.is_full());
}

// --- A switch of the primary ----------------------------------------------------------------------------

class HandoverTest : public testing::Test {
 protected:
  HandoverTest() { handover_.BeginYield({.session = session_, .request = {}}, begun_, kLease); }
  Handover::Next Step(Duration after, bool is_drained) { return handover_.Step(begun_ + after, is_drained); }

  static constexpr std::chrono::seconds kLease{1};
  const TimePoint begun_ = TimePoint() + std::chrono::hours(1);
  std::uint64_t place_ = 0;
  ClientSession* const session_ = reinterpret_cast<ClientSession*>(&place_);  // only compared
  Handover handover_;
};

TEST_F(HandoverTest, WritesWaitOnceTheLeasesAreOverAndUntilNobodyHasTakenOver) {
  EXPECT_EQ(Step(kLease - milliseconds(1), true), Handover::Next::kNothing);
  EXPECT_FALSE(handover_.holds_writes());
  EXPECT_EQ(*handover_.next_work(), begun_ + kLease);
  EXPECT_EQ(Step(kLease, true), Handover::Next::kNothing)
      << "writes that were taken before are not groups yet";
  EXPECT_TRUE(handover_.holds_writes());
  EXPECT_EQ(Step(kLease + milliseconds(500), false), Handover::Next::kNothing);
  EXPECT_EQ(Step(kLease + milliseconds(600), true), Handover::Next::kAnswers);
  EXPECT_EQ(handover_.TakeYield().session, session_);
  EXPECT_EQ(Step(kLease + milliseconds(500) + kYieldTime, true), Handover::Next::kNothing)
      << "it answers once";
  EXPECT_TRUE(handover_.holds_writes());
  EXPECT_EQ(Step(kLease + milliseconds(600) + kYieldTime, true), Handover::Next::kGoesOn);
  handover_.EndYield();
  EXPECT_FALSE(handover_.holds_writes());
  EXPECT_FALSE(handover_.is_yielding());
}

TEST_F(HandoverTest, AMemberThatLacksGroupsEndsIt) {
  EXPECT_EQ(Step(kLease, false), Handover::Next::kNothing);
  EXPECT_EQ(Step(kLease + milliseconds(1900), false), Handover::Next::kNothing);
  EXPECT_EQ(Step(kLease + std::chrono::seconds(3), false), Handover::Next::kRejects);
}

}  // namespace
}  // namespace remora
