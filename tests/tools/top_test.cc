// The texts of kvctl top.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/json/json.h"
#include "tools/kvctl/top/lines.h"
#include "tools/kvctl/top/sample.h"
#include "tools/kvctl/top/screen.h"
#include "tools/kvctl/top/terminal.h"

namespace remora::top {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kKibi = 1024;

Sample Before() {
  Sample sample;
  sample.seconds = 10;
  sample.metrics = {{"puts", 100}, {"deletes", 7}, {"keys", 5}};
  return sample;
}

Sample After() {
  Sample sample;
  sample.seconds = 12;
  sample.unix_ms = 1795000000000;
  sample.metrics = {{"puts", 3100},
                    {"deletes", 0},
                    {"keys", 2000},
                    {"connections", 3},
                    {"memory_bytes", 64 * kKibi},
                    {"index_bytes", 16 * kKibi},
                    {"log_bytes_used", 24 * kKibi},
                    {"log_bytes_dead", 8 * kKibi},
                    {"memory_bytes_free", 16 * kKibi},
                    {"reads_reported", 100},
                    {"fetches", 25},
                    {"commit_time_p50_ns", 900},
                    {"commit_time_p99_ns", 12'300},
                    {"commit_time_max_ns", 4'000'000},
                    {"sync_time_p99_ns", 0}};
  return sample;
}

std::vector<std::string> Shown(ScreenSize size, const std::string& trouble = "") {
  const Sample before = Before(), after = After();
  const Interval interval(before, after);
  return PageLines({.server = "local:///s", .trouble = trouble}, interval, interval, size);
}

TEST(Top, RatesAreOfASecond) {
  const Sample before = Before(), after = After();
  const Interval interval(before, after);
  EXPECT_EQ(interval.Rate("puts"), 1500);
  EXPECT_EQ(interval.Rate("deletes"), 0) << "a server that was started again counts from 0";
  EXPECT_EQ(interval.Rate("none"), 0);
  EXPECT_EQ(interval.Value("none"), 0u);
  EXPECT_EQ(Interval(after, after).Rate("puts"), 0) << "no time went by";
}

TEST(Top, NumbersAreShort) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.5), "0.5");
  EXPECT_EQ(ShortNumber(3), "3");
  EXPECT_EQ(ShortNumber(999), "999");
  EXPECT_EQ(ShortNumber(999.96), "1.0k");
  EXPECT_EQ(ShortNumber(1234), "1.2k");
  EXPECT_EQ(ShortNumber(34.5e6), "34.5M");
  EXPECT_EQ(ShortNumber(1e18), "1000000.0T");
  EXPECT_EQ(ShortBytes(512), "512B");
  EXPECT_EQ(ShortBytes(1536), "1.5K");
  EXPECT_EQ(ShortTime(900), "900ns");
  EXPECT_EQ(ShortTime(1200), "1.2us");
  EXPECT_EQ(ShortTime(34'500'000), "34.5ms");
  EXPECT_EQ(ShortTime(1'500'000'000), "1.5s");
}

TEST(Top, ALineHasAValueUnderEachTitle) {
  const Sample before = Before(), after = After();
  const std::string header = Header(), line = Line(Interval(before, after));
  EXPECT_EQ(header.size(), line.size());
  EXPECT_LE(header.size(), 80u);
  EXPECT_EQ(line.substr(0, 8), "   1.5k ");
  EXPECT_EQ(header.substr(0, 8), "   puts ");
  EXPECT_THAT(line, HasSubstr("      3    2.0k   16.0K"));
}

TEST(Top, JsonHasRatesOfCountersAndAllMetrics) {
  const Sample before = Before(), after = After();
  const std::string line = JsonLine(Interval(before, after));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const json::Value all(json_loads(line.c_str(), 0, nullptr));
  ASSERT_NE(all, nullptr);
  const json_t* const rates = json_object_get(all.get(), "rates");
  EXPECT_EQ(json_real_value(json_object_get(rates, "puts")), 1500);
  EXPECT_EQ(json_object_get(rates, "keys"), nullptr) << "a gauge";
  EXPECT_EQ(json_integer_value(json_object_get(json_object_get(all.get(), "metrics"), "keys")), 2000);
  EXPECT_EQ(json_real_value(json_object_get(all.get(), "seconds")), 2);
  EXPECT_EQ(json_integer_value(json_object_get(all.get(), "unix_ms")), 1795000000000);
}

TEST(Top, APage) {
  const std::vector<std::string> lines = Shown({});
  EXPECT_THAT(lines, Contains("  puts               1.5k      1.5k      3.1k"));
  EXPECT_THAT(lines, Contains(HasSubstr("ready")));
  EXPECT_THAT(lines,
              Contains("memory 64.0K: index 16.0K (i), live 16.0K (#), dead 8.0K (-), free 16.0K (.)"));
  EXPECT_THAT(lines, Contains(testing::MatchesRegex("\\[i{19,20}#{19,20}-{9,10}:{9,10}\\.{19,20}\\]")));
  EXPECT_THAT(lines, Contains(HasSubstr("hits 75.0 % of reads reported")));
  EXPECT_THAT(lines, Contains("commit_time          p50    900ns  p99   12.3us  max    4.0ms"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("sync_time")))) << "nothing was counted there";
}

std::vector<std::string> ShownOf(std::initializer_list<std::pair<const char*, std::uint64_t>> metrics,
                                 ScreenSize size) {
  Sample before, after;
  after.seconds = 2;
  for (const auto& [name, value] : metrics) after.metrics[name] = value;
  const Interval interval(before, after);
  return PageLines({.server = "tcp://a:1", .trouble = ""}, interval, interval, size);
}

TEST(Top, TheStateIsTheReasonOfReadyz) {
  const auto state = [](const char* metric, std::uint64_t value) {
    return ShownOf({{metric, value}, {"keys_loaded", 5}}, {24, 200})[1];
  };
  EXPECT_EQ(state("loading", 0), "ready  watched for 0:00:02");
  EXPECT_EQ(state("loading", 1), "NOT READY: the store is loading its keys; 5 so far  watched for 0:00:02");
  EXPECT_THAT(state("replication_role", 1), HasSubstr("NOT READY: the server follows a primary"));
  EXPECT_THAT(state("replication_role", 2), HasSubstr("NOT READY: the server waits for its followers"));
  EXPECT_EQ(state("replication_role", 3), "ready  watched for 0:00:02");
  EXPECT_THAT(state("followers_away", 2), HasSubstr("NOT READY: a follower is away"));
  EXPECT_THAT(state("disk_refuses", 1), HasSubstr("NOT READY: the disk takes no writes"));
  EXPECT_THAT(state("memory_refuses", 1), HasSubstr("NOT READY: the system gives the server no memory"));
}

TEST(Top, ThePartInReplication) {
  const auto line = [](std::initializer_list<std::pair<const char*, std::uint64_t>> metrics) {
    return ShownOf(metrics, {24, 200})[2];
  };
  EXPECT_THAT(line({{"replication_role", 0}}), HasSubstr("clients 0"));
  EXPECT_EQ(line({{"replication_role", 1}, {"replication_epoch", 2}, {"groups_applied", 17}}),
            "replication: follower, epoch 2, groups applied 17");
  EXPECT_EQ(line({{"replication_role", 3}, {"replication_epoch", 2}}),
            "replication: primary, epoch 2, no followers");
  EXPECT_EQ(line({{"replication_role", 3},
                  {"replication_epoch", 2},
                  {"followers", 1},
                  {"followers_away", 1},
                  {"groups_shipped", 20},
                  {"groups_acknowledged", 17}}),
            "replication: primary, epoch 2, followers 1 of 2, groups pending 3");
}

TEST(Top, LongTextsTakeLinesOfASmallTerminal) {
  const auto lines =
      ShownOf({{"replication_role", 2}, {"replication_epoch", 2}, {"followers_away", 1}}, {10, 40});
  EXPECT_THAT(lines,
              testing::ElementsAre("kvctl top  tcp://a:1", "NOT READY: the server waits for its",
                                   "  followers before it serves clients;", "  the log has their names",
                                   "  watched for 0:00:02", "replication: waiting primary, epoch 2,",
                                   "  followers 0 of 1, groups pending 0", testing::StartsWith("clients 0"),
                                   "transports: none in use", testing::StartsWith("operations/s")));
}

std::string TransportsOf(std::initializer_list<std::pair<const char*, std::uint64_t>> metrics) {
  Sample before, after;
  after.seconds = 2;
  for (const auto& [name, value] : metrics) after.metrics[name] = value;
  const Interval interval(before, after);
  for (const std::string& line : PageLines({}, interval, interval, {})) {
    if (line.starts_with("transports: ")) return line;
  }
  return "there is no such line";
}

TEST(Top, TheTransportsThatAreInUse) {
  EXPECT_EQ(TransportsOf({}), "transports: none in use");
  EXPECT_EQ(TransportsOf({{"connections_local", 2}, {"connections_verbs", 3}, {"connections_tcp", 0}}),
            "transports: local 2, verbs 3");
  EXPECT_EQ(TransportsOf({{"connections_tls", 1}}), "transports: tls 1; READs over TCP 0/s, 0B/s");
  EXPECT_EQ(TransportsOf({{"connections_local", 1},
                          {"connections_tcp", 4},
                          {"tcp_reads", 3000},
                          {"tcp_read_bytes", 8 * kKibi}}),
            "transports: local 1, tcp 4; READs over TCP 1.5k/s, 4.0K/s");
  EXPECT_EQ(TransportsOf({{"tcp_reads", 3000}}), "transports: none in use; READs over TCP 1.5k/s, 0B/s")
      << "the client has left within the interval";
}

TEST(Top, APageFitsIntoTheTerminal) {
  for (const ScreenSize size : {ScreenSize{24, 80}, ScreenSize{3, 10}, ScreenSize{1, 1}, ScreenSize{0, 0}}) {
    const std::vector<std::string> lines = Shown(size);
    EXPECT_LE(lines.size(), static_cast<std::size_t>(std::max(size.rows, 1)));
    for (const std::string& line : lines)
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(size.columns, 1)));
  }
}

TEST(Top, APageSaysWhenTheNumbersAreOld) {
  EXPECT_EQ(Shown({}, "connect: rejected")[1], "NO ANSWER: connect: rejected");
}

/// Two shards that answer, with the same numbers, and one that does not.
std::vector<ShardInterval> Three(const Sample& before, const Sample& after) {
  return {{.name = "a", .interval = Interval(before, after), .trouble = ""},
          {.name = "of_letters", .interval = Interval(before, after), .trouble = ""},
          {.name = "c", .interval = std::nullopt, .trouble = "connect: no server listens there"}};
}

TEST(Top, ATableHasEachShardAndTheSums) {
  const Sample before = Before(), after = After();
  EXPECT_THAT(
      TableOf(Three(before, after)),
      testing::ElementsAre("shard         puts deletes   reads evicted clients    keys    free  unsync",
                           "a             1.5k       0      50       0       3    2.0k   16.0K       0",
                           "of_letters    1.5k       0      50       0       3    2.0k   16.0K       0",
                           "c                -       -       -       -       -       -       -       -",
                           "all           3.0k       0     100       0       6    4.0k   32.0K       0"));
  EXPECT_THAT(TableOf({}), testing::SizeIs(2)) << "titles, and sums of nothing";
}

TEST(Top, JsonOfShardsHasAnObjectForEach) {
  const Sample before = Before(), after = After();
  const std::string line = JsonLine(17, Three(before, after));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const json::Value all(json_loads(line.c_str(), 0, nullptr));
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(json_integer_value(json_object_get(all.get(), "unix_ms")), 17);
  const json_t* const shards = json_object_get(all.get(), "shards");
  ASSERT_EQ(json_object_size(shards), 3u);
  const json_t* const one = json_object_get(shards, "of_letters");
  EXPECT_EQ(json_real_value(json_object_get(json_object_get(one, "rates"), "puts")), 1500);
  EXPECT_EQ(json_integer_value(json_object_get(json_object_get(one, "metrics"), "keys")), 2000);
  EXPECT_EQ(json_real_value(json_object_get(one, "seconds")), 2);
  EXPECT_STREQ(json_string_value(json_object_get(json_object_get(shards, "c"), "error")),
               "connect: no server listens there");
}

TEST(Top, APageOfShardsNamesThoseThatAreNotReady) {
  const Sample before = Before(), after = After();
  Sample loading = after;
  loading.metrics["loading"] = 1;
  std::vector<ShardInterval> shards = Three(before, after);
  shards[0].interval.emplace(before, loading);
  const ShardsPage page{.topology = "/etc/remora/topology", .seconds = 3725};
  EXPECT_THAT(PageLines(page, shards, {24, 80}),
              testing::ElementsAre(
                  "kvctl top  /etc/remora/topology", "3 shards, 1 ready  watched for 1:02:05",
                  "shard a: NOT READY: the store is loading its keys; 0 so far",
                  "shard c: NO ANSWER: connect: no server listens there", "", testing::StartsWith("shard "),
                  testing::StartsWith("a "), testing::StartsWith("of_letters "), testing::StartsWith("c "),
                  testing::StartsWith("all ")));
  shards.resize(2);
  shards[0].interval.emplace(before, after);
  EXPECT_EQ(PageLines(page, shards, {})[1], "2 shards, all ready  watched for 1:02:05");
  for (const ScreenSize size : {ScreenSize{3, 10}, ScreenSize{1, 1}, ScreenSize{0, 0}}) {
    const std::vector<std::string> lines = PageLines(page, Three(before, after), size);
    EXPECT_LE(lines.size(), static_cast<std::size_t>(std::max(size.rows, 1)));
    for (const std::string& line : lines)
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(size.columns, 1)));
  }
}

TEST(Top, ADrawnPageLeavesNothingOfTheLast) {
  EXPECT_EQ(Terminal::Drawn({"a", "b"}), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
}

}  // namespace
}  // namespace remora::top
