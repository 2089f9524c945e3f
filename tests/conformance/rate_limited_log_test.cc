// Log lines about clients that come without end.
#include "server/monitoring/rate_limited_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/sim_served.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using Kind = BoundedLog::Kind;
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

class BoundedLogTest : public testing::Test {
 protected:
  ManualClock clock_;
  Lines lines_;
  BoundedLog log_{[this](std::string_view line) { lines_.emplace_back(line); }, clock_};
};

TEST_F(BoundedLogTest, WhatComesSlowlyIsWritten) {
  for (int i = 0; i < 1000; ++i) {
    log_.Write(Kind::kClients, "one");
    clock_.Advance(Duration(BoundedLog::kWindow) / (BoundedLog::kLines - 1));
    log_.TellDue();
  }
  log_.TellAll();
  EXPECT_EQ(lines_, Lines(1000, "one"));
}

TEST_F(BoundedLogTest, WhatIsLeftOutIsTold) {
  for (std::size_t i = 0; i < BoundedLog::kLines; ++i) log_.Write(Kind::kClients, "one");
  EXPECT_FALSE(log_.next_telling().has_value());
  log_.Write(Kind::kClients, "one");
  log_.Write(Kind::kClients, "one");
  ASSERT_TRUE(log_.next_telling().has_value());
  EXPECT_EQ(*log_.next_telling(), clock_.Now() + BoundedLog::kWindow);
  clock_.Advance(BoundedLog::kWindow - Duration(1));
  log_.TellDue();
  EXPECT_EQ(lines_, Lines(BoundedLog::kLines, "one"));
  clock_.Advance(Duration(1));
  log_.TellDue();
  ASSERT_EQ(lines_.size(), BoundedLog::kLines + 1);
  EXPECT_THAT(lines_.back(), StartsWith("2 more lines of clients that came or went were not written"));
  EXPECT_FALSE(log_.next_telling().has_value());
  log_.Write(Kind::kClients, "another");
  EXPECT_EQ(lines_.back(), "another");
  log_.TellDue();
  log_.TellAll();
  EXPECT_EQ(lines_.size(), BoundedLog::kLines + 2) << "told once";
}

TEST_F(BoundedLogTest, OneKindHidesNoOther) {
  for (int i = 0; i < 1000; ++i) log_.Write(Kind::kStrangers, "refused");
  log_.Write(Kind::kClients, "connected");
  log_.Write(Kind::kBackups, "made");
  EXPECT_EQ(CountOf(lines_, "connected"), 1u);
  EXPECT_EQ(CountOf(lines_, "made"), 1u);
  EXPECT_EQ(lines_.size(), BoundedLog::kLines + 2);
  // Nor is one told of later as another goes on.
  clock_.Advance(Duration(BoundedLog::kWindow) / 2);
  for (int i = 0; i < 1000; ++i) log_.Write(Kind::kBackups, "made");
  clock_.Advance(Duration(BoundedLog::kWindow) / 2);
  log_.TellDue();
  EXPECT_EQ(LeftOut(lines_, "clients that were refused"), 1000 - BoundedLog::kLines);
  clock_.Advance(Duration(BoundedLog::kWindow) / 2);
  log_.TellDue();
  EXPECT_EQ(LeftOut(lines_, "backups"), 1001 - BoundedLog::kLines);
}

// At any pace each is written or counted, and there are no more than may be.
TEST_F(BoundedLogTest, EachIsWrittenOrCounted) {
  std::mt19937_64 random(1);
  std::uint64_t said = 0;
  const TimePoint begin = clock_.Now();
  for (int round = 0; round < 300; ++round) {
    for (std::uint64_t burst = random() % 100; burst > 0; --burst, ++said) log_.Write(Kind::kClients, "one");
    clock_.Advance(std::chrono::milliseconds(random() % 4000));
    if (random() % 2 == 0) log_.TellDue();
  }
  const auto windows = static_cast<std::size_t>((clock_.Now() - begin) / BoundedLog::kWindow) + 1;
  EXPECT_LE(lines_.size(), windows * (BoundedLog::kLines + 1));
  log_.TellAll();
  EXPECT_EQ(CountOf(lines_, "one") + LeftOut(lines_, "clients"), said);
  EXPECT_GT(LeftOut(lines_, "clients"), 0u);
}

TEST(BoundedLogOfNobodyTest, HasNothingToTell) {
  const ManualClock clock;
  BoundedLog log({}, clock);
  for (int i = 0; i < 100; ++i) log.Write(Kind::kClients, "one");
  EXPECT_FALSE(log.next_telling().has_value());
  log.TellAll();
}

// --- A server's -----------------------------------------------------------------------------------------

class ServersLogTest : public SimServed, public testing::Test {
 protected:
  ServersLogTest() : SimServed(/*seed=*/1) {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()},
           .log = [this](std::string_view line) { lines_.emplace_back(line); }});
  }
  void ComeAndGo(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(Connect({})->Ping().ok());
      server_->Step();
    }
  }
  void BeRefused(int times) {
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
  BeRefused(300);
  EXPECT_LE(lines_.size() - before, 2 * BoundedLog::kLines);
  EXPECT_EQ(CountOf(lines_, ": connected") + CountOf(lines_, ": disconnected"), BoundedLog::kLines);
  EXPECT_EQ(CountOf(lines_, ": refused: that was no"), BoundedLog::kLines);
  // Nobody else comes: it tells all the same.
  network_.Advance(BoundedLog::kWindow);
  server_->Step();
  EXPECT_EQ(LeftOut(lines_, "clients that came or went"), 400 - BoundedLog::kLines);
  EXPECT_EQ(LeftOut(lines_, "clients that were refused"), 300 - BoundedLog::kLines);
  ComeAndGo(1);
  EXPECT_THAT(lines_.back(), HasSubstr(": disconnected"));
}

TEST_F(ServersLogTest, WritesAllThatClientsDoNotCause) {
  BeRefused(300);
  lines_.clear();
  for (int i = 0; i < 100; ++i) {
    server_->ReloadTokens();
    server_->Step();
  }
  EXPECT_EQ(CountOf(lines_, "asked to read tokens anew"), 100u);
}

}  // namespace
}  // namespace remora
