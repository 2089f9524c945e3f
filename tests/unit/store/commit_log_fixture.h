// A commit log in a temporary directory, with small files, so that a test fills many of them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/durable/commit_log/commit_log.h"
#include "test_files.h"

namespace remora {

class CommitLogFixture : public testing::TestWithParam<LogWriterKind> {
 protected:
  /// Returns options of a new opening, with files of 64 KiB.
  CommitLogOptions Options() {
    return {.dir = temp_.path(),
            .file_size = kMinLogFileSize,
            .max_bytes = std::uint64_t{1} << 20,
            .incarnation = ++incarnation_,
            .writer = GetParam()};
  }

  absl::StatusOr<std::unique_ptr<CommitLog>> TryOpen(CommitLogOptions options) {
    shown_.clear();
    return CommitLog::Open(std::move(options), [&](const LogGroup& group) {
      shown_.push_back(group.header.first_version);
      return absl::OkStatus();
    });
  }
  std::unique_ptr<CommitLog> Open(CommitLogOptions options) {
    absl::StatusOr<std::unique_ptr<CommitLog>> log = TryOpen(std::move(options));
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }
  std::unique_ptr<CommitLog> Open() { return Open(Options()); }

  /// Appends one entry with the next version, as a group of 64 + 24 + 8 + `value_size` bytes.
  absl::StatusOr<Lsn> TryAppend(CommitLog& log, std::size_t value_size = 104) {
    const std::string value(value_size, 'v');
    const LogEntry entry = {.version = version_ + 1, .key = "some key", .value = value};
    absl::StatusOr<Lsn> end = log.Append({&entry, 1});
    if (end.ok()) ++version_;
    return end;
  }
  Lsn Append(CommitLog& log, std::size_t value_size = 104) {
    const absl::StatusOr<Lsn> end = TryAppend(log, value_size);
    EXPECT_TRUE(end.ok()) << end.status();
    return end.ok() ? *end : Lsn{};
  }
  /// Appends until the log has begun so many more files.
  /// Returns the LSN behind the first group in the last one.
  Lsn Fill(CommitLog& log, int files) {
    Lsn end = log.appended();
    while (files > 0) {
      const std::uint64_t before = end.value / kMinLogFileSize;
      end = Append(log, 4000);
      if (end.value / kMinLogFileSize != before) --files;
      if (HasFailure()) break;
    }
    return end;
  }

  /// Returns the first versions of the groups in [from, until).
  std::vector<std::uint64_t> Versions(const std::string& dir, Lsn from = {}, Lsn until = kMaxLsn) {
    std::vector<std::uint64_t> versions;
    const auto reader = CommitLogReader::Open(dir, from);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return versions;
    for (;;) {
      const absl::StatusOr<bool> next = (*reader)->Next(until);
      EXPECT_TRUE(next.ok()) << next.status();
      if (!next.ok() || !*next) return versions;
      versions.push_back((*reader)->group().header.first_version);
    }
  }
  /// Returns the versions from 1 to `last`.
  static std::vector<std::uint64_t> UpTo(std::uint64_t last) {
    std::vector<std::uint64_t> versions;
    for (std::uint64_t version = 1; version <= last; ++version) versions.push_back(version);
    return versions;
  }

  std::string PathOf(std::uint64_t file) const { return temp_ / LogFileName(Lsn{file * kMinLogFileSize}); }

  /// Overwrites the first bytes of a file in place. WriteFile would
  /// create the file again, which takes the file system longer.
  static void Overwrite(const std::string& path, const std::string& bytes) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }

  TempDir temp_;
  std::uint64_t incarnation_ = 0;
  std::uint64_t version_ = 0;
  std::vector<std::uint64_t> shown_;  // first versions of the groups that the last opening showed
};

inline std::string LogWriterName(const testing::TestParamInfo<LogWriterKind>& info) {
  return info.param == LogWriterKind::kMapped ? "Mapped" : "Write";
}

#define REMORA_WITH_BOTH_LOG_WRITERS(suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(Both, suite, testing::Values(LogWriterKind::kMapped, LogWriterKind::kWrite), \
                           LogWriterName)

}  // namespace remora
