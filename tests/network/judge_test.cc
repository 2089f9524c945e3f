// The judge of the network tests: answers that it takes for wrong, and others.
#include "tests/network/judge.h"

#include <gtest/gtest.h>

namespace remora {
namespace {

TEST(NumberedKeyTest, AnAcknowledgedWriteIsThereAndNoOther) {
  NumberedKey key;
  EXPECT_TRUE(key.SawNothing());
  EXPECT_FALSE(NumberedKey().Saw(1));
  key.Next();
  key.Acknowledged();
  EXPECT_TRUE(key.Saw(1));
  EXPECT_FALSE(NumberedKey(key).SawNothing());
  key.Next();
  key.Acknowledged();
  EXPECT_FALSE(NumberedKey(key).Saw(1));
  EXPECT_FALSE(NumberedKey(key).Saw(3));
  EXPECT_TRUE(key.Saw(2));
}

TEST(NumberedKeyTest, AnUnansweredWriteIsDoneOrNeverWillBe) {
  NumberedKey key;
  key.Next();
  key.Acknowledged();
  key.Next();
  key.Unanswered();
  NumberedKey undone = key;
  EXPECT_TRUE(undone.Saw(1));
  EXPECT_FALSE(undone.Saw(2));
  EXPECT_TRUE(key.Saw(2));
  EXPECT_FALSE(key.Saw(1));
}

TEST(NumberedKeyTest, AWriteBehindAnUnansweredOneIsTheLast) {
  NumberedKey key;
  key.Next();
  key.Unanswered();
  EXPECT_TRUE(NumberedKey(key).SawNothing());
  key.Next();
  key.Acknowledged();
  EXPECT_FALSE(NumberedKey(key).Saw(1));
  EXPECT_TRUE(key.Saw(2));
}

TEST(SumTest, EachAdditionCountsOnceAndAnUnansweredOneAtMostOnce) {
  Sum sum;
  EXPECT_TRUE(sum.Added(1));
  EXPECT_FALSE(Sum(sum).Added(1));
  EXPECT_FALSE(Sum(sum).Added(3));
  sum.Unanswered();
  EXPECT_TRUE(Sum(sum).Added(2));
  EXPECT_TRUE(Sum(sum).Added(3));
  EXPECT_FALSE(Sum(sum).Added(4));
  EXPECT_FALSE(Sum(sum).Saw(0));
  EXPECT_FALSE(Sum(sum).Saw(3));
  EXPECT_TRUE(sum.Saw(1));
  EXPECT_FALSE(sum.Saw(2));
}

TEST(AppendedNumbersTest, NoAcknowledgedOneIsMissingAndNoneIsThereTwice) {
  AppendedNumbers list;
  EXPECT_TRUE(list.Is(""));
  EXPECT_EQ(list.Next(), "1 ");
  list.Acknowledged();
  EXPECT_EQ(list.Next(), "2 ");
  list.Unanswered();
  list.Acknowledged();
  for (const char* const good : {"1 2 3 ", "1 3 "}) EXPECT_TRUE(list.Is(good)) << good;
  for (const char* const bad : {"", "1 ", "1 2 ", "3 ", "2 3 ", "1 1 3 ", "1 2 2 3 ", "1 3 2 ", "1 2 3 4 ",
                                "1 2 3", "1 x 3 ", "1 2 3 3 "}) {
    EXPECT_FALSE(list.Is(bad)) << bad;
  }
}

}  // namespace
}  // namespace remora
