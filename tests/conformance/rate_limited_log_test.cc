// Log lines about clients that come without end.
#include "server/monitoring/rate_limited_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/sim_served.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using testing::HasSubstr, testing::StartsWith;
using Lines = std::vector<std::string>;

std::size_t CountOf(const Lines& lines, std::string_view text) {
  std::size_t count = 0;
  for (const std::string& line : lines) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

/// Returns the sum of all lines that say so, of this kind.
std::uint64_t LeftOut(const Lines& lines, std::string_view kind) {
  std::uint64_t sum = 0;
  for (const std::string& line : lines) {
    if (line.find(" more lines of " + std::string(kind)) != std::string::npos) sum += std::stoull(line);
  }
  return sum;
}

class RateLimitedLogTest : public testing::Test {
 protected:
  ManualClock clock_;
  Lines lines_;
  RateLimitedLog log_{[this](LogEvent, std::string_view line) { lines_.emplace_back(line); }, clock_};
};

TEST_F(RateLimitedLogTest, SlowLinesAreWritten) {
  for (int i = 0; i < 1000; ++i) {
    log_.Write(LogEvent::kClientConnected, "one");
    clock_.Advance(Duration(RateLimitedLog::kWindow) / (RateLimitedLog::kLines - 1));
    log_.FlushSummaries();
  }
  log_.FlushAllSummaries();
  EXPECT_EQ(lines_, Lines(1000, "one"));
}

TEST_F(RateLimitedLogTest, ASummaryCountsOmittedLines) {
  for (std::size_t i = 0; i < RateLimitedLog::kLines; ++i) log_.Write(LogEvent::kClientConnected, "one");
  EXPECT_FALSE(log_.next_summary().has_value());
  log_.Write(LogEvent::kClientConnected, "one");
  log_.Write(LogEvent::kClientConnected, "one");
  ASSERT_TRUE(log_.next_summary().has_value());
  EXPECT_EQ(*log_.next_summary(), clock_.Now() + RateLimitedLog::kWindow);
  clock_.Advance(RateLimitedLog::kWindow - Duration(1));
  log_.FlushSummaries();
  EXPECT_EQ(lines_, Lines(RateLimitedLog::kLines, "one"));
  clock_.Advance(Duration(1));
  log_.FlushSummaries();
  ASSERT_EQ(lines_.size(), RateLimitedLog::kLines + 1);
  EXPECT_THAT(lines_.back(), StartsWith("2 more lines of clients that came or went were not written"));
  EXPECT_FALSE(log_.next_summary().has_value());
  log_.Write(LogEvent::kClientConnected, "another");
  EXPECT_EQ(lines_.back(), "another");
  log_.FlushSummaries();
  log_.FlushAllSummaries();
  EXPECT_EQ(lines_.size(), RateLimitedLog::kLines + 2) << "told once";
}

TEST_F(RateLimitedLogTest, OneKindHidesNoOther) {
  for (int i = 0; i < 1000; ++i) log_.Write(LogEvent::kClientRejected, "rejected");
  log_.Write(LogEvent::kClientConnected, "connected");
  log_.Write(LogEvent::kBackupMade, "made");
  EXPECT_EQ(CountOf(lines_, "connected"), 1u);
  EXPECT_EQ(CountOf(lines_, "made"), 1u);
  EXPECT_EQ(lines_.size(), RateLimitedLog::kLines + 2);
  // Nor is one told of later as another goes on.
  clock_.Advance(Duration(RateLimitedLog::kWindow) / 2);
  for (int i = 0; i < 1000; ++i) log_.Write(LogEvent::kBackupMade, "made");
  clock_.Advance(Duration(RateLimitedLog::kWindow) / 2);
  log_.FlushSummaries();
  EXPECT_EQ(LeftOut(lines_, "clients that were rejected"), 1000 - RateLimitedLog::kLines);
  clock_.Advance(Duration(RateLimitedLog::kWindow) / 2);
  log_.FlushSummaries();
  EXPECT_EQ(LeftOut(lines_, "backups"), 1001 - RateLimitedLog::kLines);
}

TEST_F(RateLimitedLogTest, InformationHidesNoWarning) {
  std::vector<LogEvent> events;
  RateLimitedLog log([&events](LogEvent event, std::string_view) { events.push_back(event); }, clock_);
  for (int i = 0; i < 1000; ++i) log.Write(LogEvent::kClientRejected, "rejected");
  for (int i = 0; i < 1000; ++i) log.Write(LogEvent::kDescriptorsShort, "none is left");
  for (int i = 0; i < 1000; ++i) log.Write(LogEvent::kBackupBegun, "begun");
  log.Write(LogEvent::kBackupFailed, "failed");
  EXPECT_EQ(std::ranges::count(events, LogEvent::kDescriptorsShort), RateLimitedLog::kLines);
  EXPECT_EQ(events.back(), LogEvent::kBackupFailed);
  log.FlushAllSummaries();
  EXPECT_EQ(std::ranges::count(events, LogEvent::kWarningsLeftOut), 1);
  EXPECT_EQ(std::ranges::count(events, LogEvent::kLinesLeftOut), 2);
  for (const LogEventEntry& entry : kLogEvents) {
    const bool is_warning =
        entry.group == LogEventGroup::kShortages || entry.group == LogEventGroup::kFailedBackups;
    if (entry.group != LogEventGroup::kUnbounded) {
      EXPECT_EQ(entry.level == LogLevel::kWarning, is_warning) << entry.name;
    }
  }
}

// At any pace each is written or counted, and there are no more than may be.
TEST_F(RateLimitedLogTest, EachIsWrittenOrCounted) {
  std::mt19937_64 random(1);
  std::uint64_t said = 0;
  const TimePoint begin = clock_.Now();
  for (int round = 0; round < 300; ++round) {
    for (std::uint64_t burst = random() % 100; burst > 0; --burst, ++said)
      log_.Write(LogEvent::kClientConnected, "one");
    clock_.Advance(std::chrono::milliseconds(random() % 4000));
    if (random() % 2 == 0) log_.FlushSummaries();
  }
  const auto windows = static_cast<std::size_t>((clock_.Now() - begin) / RateLimitedLog::kWindow) + 1;
  EXPECT_LE(lines_.size(), windows * (RateLimitedLog::kLines + 1));
  log_.FlushAllSummaries();
  EXPECT_EQ(CountOf(lines_, "one") + LeftOut(lines_, "clients"), said);
  EXPECT_GT(LeftOut(lines_, "clients"), 0u);
}

TEST(RateLimitedLogOfNobodyTest, HasNothingToTell) {
  const ManualClock clock;
  RateLimitedLog log({}, clock);
  for (int i = 0; i < 100; ++i) log.Write(LogEvent::kClientConnected, "one");
  EXPECT_FALSE(log.next_summary().has_value());
  log.FlushAllSummaries();
}

// --- A server's -----------------------------------------------------------------------------------------

class ServersLogTest : public SimServed, public testing::Test {
 protected:
  ServersLogTest() : SimServed(/*seed=*/1) {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()},
           .log = [this](LogEvent, std::string_view line) { lines_.emplace_back(line); }});
  }
  void ComeAndGo(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(Connect({})->Ping().ok());
      server_->Step();
    }
  }
  void BeRejected(int times) {
    const HelloRequest nonsense{.magic = 1};
    for (int i = 0; i < times; ++i) {
      const auto connection = network_.Dial();
      EXPECT_FALSE(
          connection->Connect(AsBytes(nonsense), network_.clock().Now() + std::chrono::seconds(1)).ok());
    }
  }

  Lines lines_;
};

TEST_F(ServersLogTest, IsBoundedInWhatClientsCause) {
  const std::size_t before = lines_.size();
  ComeAndGo(200);
  BeRejected(300);
  EXPECT_LE(lines_.size() - before, 2 * RateLimitedLog::kLines);
  EXPECT_EQ(CountOf(lines_, ": connected") + CountOf(lines_, ": disconnected"), RateLimitedLog::kLines);
  EXPECT_EQ(CountOf(lines_, ": rejected: that was no"), RateLimitedLog::kLines);
  // Nobody else comes: it tells all the same.
  network_.Advance(RateLimitedLog::kWindow);
  server_->Step();
  EXPECT_EQ(LeftOut(lines_, "clients that came or went"), 400 - RateLimitedLog::kLines);
  EXPECT_EQ(LeftOut(lines_, "clients that were rejected"), 300 - RateLimitedLog::kLines);
  ComeAndGo(1);
  EXPECT_THAT(lines_.back(), HasSubstr(": disconnected"));
}

TEST_F(ServersLogTest, WritesAllThatClientsDoNotCause) {
  BeRejected(300);
  lines_.clear();
  for (int i = 0; i < 100; ++i) {
    server_->ReloadTokens();
    server_->Step();
  }
  EXPECT_EQ(CountOf(lines_, "neither auth tokens nor certificates to read anew"), 100u);
}

}  // namespace
}  // namespace remora
