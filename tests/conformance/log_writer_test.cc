#include "server/monitoring/log_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace remora {
namespace {

constexpr std::uint64_t kManyLines = 5 * LogWriter::kMaxLines;

/// Lines through a pipe of 4 KiB.
class LogWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe2(pipe_.data(), O_CLOEXEC), 0);
    ASSERT_EQ(fcntl(pipe_[1], F_SETPIPE_SZ, 4096), 4096);
    auto started = LogWriter::Start(pipe_[1], [](std::uint64_t dropped) {
      return absl::StrCat("test: ", dropped, " lines were dropped here");
    });
    ASSERT_TRUE(started.ok()) << started.status();
    writer_ = *std::move(started);
  }

  void WriteLines() {
    for (std::uint64_t i = 0; i < kManyLines; ++i) writer_->Write(absl::StrCat("test: line ", i));
  }

  /// Until the write end is closed.
  std::vector<std::string> ReadLines() const {
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = read(pipe_[0], piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    EXPECT_TRUE(text.empty() || text.ends_with('\n')) << "half a line: " << text;
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

  std::array<int, 2> pipe_ = {-1, -1};
  std::unique_ptr<LogWriter> writer_;
};

TEST_F(LogWriterTest, EachLineIsWrittenOrCountedInOrder) {
  WriteLines();  // nobody reads yet
  std::vector<std::string> lines;
  std::thread reader([&] { lines = ReadLines(); });
  writer_.reset();  // loses none of what is queued
  close(pipe_[1]);
  reader.join();
  close(pipe_[0]);

  std::uint64_t next = 0;
  std::uint64_t dropped = 0;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::uint64_t count = 0;
    if (absl::StrContains(line, "lines were dropped here")) {
      ASSERT_TRUE(absl::SimpleAtoi(words[1], &count)) << line;
      next += count;
      dropped += count;
    } else {
      EXPECT_EQ(line, absl::StrCat("test: line ", next));
      ++next;
    }
  }
  EXPECT_EQ(next, kManyLines);
  EXPECT_GT(dropped, 0u);
  EXPECT_GE(lines.size(), LogWriter::kMaxLines);
}

TEST_F(LogWriterTest, ItsEndDoesNotWaitForAReaderThatDoesNotRead) {
  WriteLines();
  writer_.reset();
  // Its thread is still in a write. That ends where the last reader goes, whose signal ends programs.
  signal(SIGPIPE, SIG_IGN);
  close(pipe_[0]);
}

TEST_F(LogWriterTest, ADescriptorThatDoesNotBlockLosesNothing) {
  ASSERT_EQ(fcntl(pipe_[1], F_SETFL, O_NONBLOCK), 0);
  for (std::uint64_t i = 0; i < LogWriter::kMaxLines; ++i) writer_->Write(absl::StrCat("test: line ", i));
  std::vector<std::string> lines;
  std::thread reader([&] { lines = ReadLines(); });
  writer_.reset();
  close(pipe_[1]);
  reader.join();
  close(pipe_[0]);
  EXPECT_EQ(lines.size(), LogWriter::kMaxLines);
}

}  // namespace
}  // namespace remora
