#include "bench/kvbench/report/units.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace remora::bench {
namespace {

TEST(NumberIn, HasThreeDigitsOrIsWhole) {
  const Unit& mb = kByteRateUnits[0];
  EXPECT_EQ(NumberIn(mb, 0), "0.00");
  EXPECT_EQ(NumberIn(mb, 640), "0.00064");
  EXPECT_EQ(NumberIn(mb, 64e3), "0.064");
  EXPECT_EQ(NumberIn(mb, 1.234e6), "1.23");
  EXPECT_EQ(NumberIn(mb, 12.34e6), "12.3");
  EXPECT_EQ(NumberIn(mb, 123.4e6), "123");
  EXPECT_EQ(NumberIn(mb, 12'345.6e6), "12,346");
  EXPECT_EQ(NumberIn(kByteRateUnits[1], 2.5e9), "2.50");
}

std::string UnitOf(std::initializer_list<double> values) {
  ColumnUnit unit(kByteRateUnits);
  for (const double value : values) unit.Add(value);
  return unit.name();
}

TEST(ColumnUnit, IsTheLargestThatTheSmallestValueFills) {
  EXPECT_EQ(UnitOf({}), "MB/s");
  EXPECT_EQ(UnitOf({0}), "MB/s");
  EXPECT_EQ(UnitOf({5}), "MB/s");
  EXPECT_EQ(UnitOf({999e6}), "MB/s");
  EXPECT_EQ(UnitOf({1e9}), "GB/s");
  EXPECT_EQ(UnitOf({5e12, 1e9}), "GB/s");
  EXPECT_EQ(UnitOf({5e12, 1e8}), "MB/s");
  EXPECT_EQ(UnitOf({5e12, 0}), "GB/s");  // an empty cell chooses nothing
}

TEST(ColumnUnit, WritesAllValuesInIt) {
  ColumnUnit unit(kTimeUnits);
  unit.Add(5e6);
  unit.Add(1500);
  EXPECT_STREQ(unit.name(), "us");
  EXPECT_EQ(unit.Text(1500), "1.50");
  EXPECT_EQ(unit.Text(5e6), "5,000");
}

}  // namespace
}  // namespace remora::bench
