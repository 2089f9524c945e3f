#include "bench/kvbench/report/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace remora::bench {
namespace {

using ::testing::HasSubstr;

TEST(LinearAxis, ReachesWhatItShows) {
  for (const double high : {0.0, 0.003, 1.0, 6.0, 6.1, 999.0, 1e6, 3.7e9}) {
    const Axis axis = LinearAxis("x", high);
    EXPECT_EQ(axis.low, 0);
    EXPECT_GE(axis.high, high);
    EXPECT_GT(axis.high, 0);
    EXPECT_LE(axis.marks.size(), 8u) << high;
    EXPECT_EQ(axis.marks.front().second, "0");
    EXPECT_LE(axis.high, high * 2 + 1e-6) << high;
  }
  EXPECT_EQ(LinearAxis("x", 5e6).marks.at(1).second, "1,000,000");
}

TEST(LogTimeAxis, SaysPowersOfTenInTheirUnits) {
  const Axis axis = LogTimeAxis("x", 250, 3e9);
  EXPECT_EQ(axis.low, 2);
  EXPECT_EQ(axis.high, 10);
  std::vector<std::string> texts;
  for (const auto& [place, text] : axis.marks) texts.push_back(text);
  EXPECT_THAT(texts, testing::ElementsAre("100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms",
                                          "1 s", "10 s"));
  EXPECT_GT(LogTimeAxis("x", 1000, 1000).high, LogTimeAxis("x", 1000, 1000).low);
}

TEST(LineChart, PointsLieWhereTheAxesSay) {
  const Axis x{"x", 0, 10, {}};
  const Axis y{"y", 0, 100, {}};
  const std::string svg = LineChart(x, y, {{"<l>", 0, {{0, 0}, {10, 100}, {99, 999}}}});
  // Corner to corner; points beyond the axes stay at their ends.
  EXPECT_THAT(svg, HasSubstr("points=\"110.0,255.0 690.0,15.0 690.0,15.0 \""));
  EXPECT_THAT(svg, HasSubstr("&lt;l&gt;"));
}

TEST(BarChart, BarsAreAsLongAsTheirValues) {
  const std::string svg = BarChart({{"a", 50, "fifty", 0}, {"b", 100, "hundred", 1}, {"c", 0, "none", 2}});
  EXPECT_THAT(svg, HasSubstr("width=\"175.0\" height=\"16\""));
  EXPECT_THAT(svg, HasSubstr("width=\"350.0\" height=\"16\""));
  EXPECT_THAT(svg, HasSubstr("width=\"0.0\" height=\"16\""));
  EXPECT_THAT(BarChart({{"a", 0, "none", 0}}), HasSubstr("width=\"0.0\""));
}

}  // namespace
}  // namespace remora::bench
