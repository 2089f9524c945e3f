// The commit log on a disk that is full or fails, and in a process that is killed. C1, C9 and C9c are
// invariants of store/durable/commit_log/commit_log.h and file_set.h.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "commit_log_fixture.h"
#include "file_size_limit.h"
#include "small_disk.h"
#include "store/store.h"
#include "test_files.h"
#include "tests/support/patience.h"

namespace remora {
namespace {

using testing::HasSubstr;

/// Repeats `append` until it succeeds, or a minute has passed.
template <typename Try>
absl::Status TryUntilTaken(Try append) {
  absl::Status status;
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (status = append().status(), !status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

/// Returns whether the file is gone within a minute. An attempt to make a file leaves it there for a
/// moment.
bool IsGoneSoon(const std::string& path) {
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Mounts a file system of 1 MiB, for which the test must run as root.
class CommitLogFullDiskTest : public CommitLogFixture {
 protected:
  void SetUp() override {
    const std::string why = disk_.Mount(temp_.path(), "size=1m");
    if (!why.empty()) GTEST_SKIP() << why;
  }
  /// Fills the disk, except for `left` bytes.
  void TakeSpace(std::size_t left) { disk_.TakeSpace(left); }

  SmallDisk disk_;
};
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogFullDiskTest);

// C9: the log rejects a group before it writes any of it, and recovers when there is space.
TEST_P(CommitLogFullDiskTest, RejectsBeforeItWritesAndGoesOnByItself) {
  CommitLogOptions options = Options();
  options.max_bytes = std::uint64_t{64} << 20;
  auto log = Open(options);
  ASSERT_TRUE(log);
  TakeSpace(3 * kMinLogFileSize);
  absl::Status status;
  while (status.ok() && version_ < 10'000) status = TryAppend(*log, 4000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left on the disk"));
  const Lsn end = log->appended();
  const std::string before = ReadFile(PathOf(end.value / kMinLogFileSize));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(TryAppend(*log, 4000).ok());
  EXPECT_EQ(log->appended(), end);
  EXPECT_EQ(ReadFile(PathOf(end.value / kMinLogFileSize)), before) << "nothing of it was written";
  EXPECT_EQ(Versions(temp_.path(), {}, end), UpTo(version_));
  EXPECT_TRUE(log->Sync().ok()) << "what was taken can be synced";
  // The log also opens on a full disk, if one of its files exists.
  log.reset();
  log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(version_));
  EXPECT_FALSE(TryAppend(*log, 4000).ok());

  std::filesystem::remove(temp_ / "ballast");
  status = TryUntilTaken([&] { return TryAppend(*log, 4000); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

TEST_P(CommitLogFullDiskTest, OpeningOnAFullDiskSaysSo) {
  TakeSpace(4096);
  const absl::Status status = TryOpen(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));
  EXPECT_EQ(FilesIn(temp_.path()), std::vector<std::string>{temp_ / "ballast"}) << "nothing is left behind";
  std::filesystem::remove(temp_ / "ballast");
  EXPECT_TRUE(TryOpen(Options()).ok());
}

using CommitLogFailingDiskTest = CommitLogFixture;
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogFailingDiskTest);

// C9c: writes into the current file succeed. The next file cannot be made for a while.
TEST_P(CommitLogFailingDiskTest, WaitsForTheNextFile) {
  const auto log = Open();
  ASSERT_TRUE(log);
  while (log->bytes() < 2 * kMinLogFileSize) std::this_thread::yield();  // the first spare file exists
  const std::uint64_t third = 2 * kMinLogFileSize;
  if (GetParam() == LogWriterKind::kMapped) {
    const FileSizeLimit limit(kMinLogFileSize / 2);
    absl::Status status;
    // Groups of 4096 bytes leave some bytes of each file unused.
    while (status.ok() && version_ < 10'000) status = TryAppend(*log, 4000).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_LE(log->appended(), Lsn{third});
    EXPECT_FALSE(TryAppend(*log, 4000).ok());
    const std::string left_over = ReadFile(PathOf(1)).substr(log->appended().value - kMinLogFileSize);
    EXPECT_EQ(left_over, std::string(left_over.size(), '\0')) << "a part of it was written";
    EXPECT_TRUE(IsGoneSoon(PathOf(2))) << "a file that could not be made is left";
  }
  const absl::Status status = TryUntilTaken([&] { return TryAppend(*log, 4000); });
  EXPECT_TRUE(status.ok()) << status;
  Fill(*log, 2);
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

// C1: the disk took a write in part.
TEST_P(CommitLogFailingDiskTest, AWriteThatFailedIsNotAppended) {
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    for (int i = 0; i < 5; ++i) Append(*log, 4000);
    const FileSizeLimit limit(5 * 4096 + 2000);
    if (GetParam() == LogWriterKind::kMapped) {  // this writer needs no system call
      Append(*log, 4000);
    } else {
      const Lsn end = log->appended();
      const absl::Status status = TryAppend(*log, 4000).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_EQ(log->appended(), end);
      EXPECT_NE(ReadFile(PathOf(0))[end.value + 8], 0) << "a part is there";
      EXPECT_TRUE(log->Sync().ok()) << "a limit on the size of files passes";
    }
  }
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(version_));
  Append(*log, 4000);
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

/// A second process that appends, and reports each version once it is appended.
class CommitLogCrashTest : public CommitLogFixture {
 protected:
  void AppendUntilKilled(int output) {
    CommitLogOptions options = Options();
    options.max_bytes = std::uint64_t{1} << 30;  // the pipe's capacity bounds the groups before the kill
    const auto log = TryOpen(options);
    if (!log.ok()) _exit(1);
    version_ = shown_.empty() ? 0 : shown_.back();
    for (;;) {
      const absl::StatusOr<Lsn> end = TryAppend(**log, version_ % 7 * 300);
      if (!end.ok()) _exit(2);
      if (write(output, &version_, sizeof(version_)) != sizeof(version_)) _exit(3);
      if (version_ % 50 == 0 && !(*log)->Sync().ok()) _exit(4);
    }
  }
};
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogCrashTest);

TEST_P(CommitLogCrashTest, AppendedGroupsSurviveAKill) {
  std::uint64_t known = 0;
  for (int round = 0; round < 8; ++round) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ++incarnation_;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);  // so that the child does not outlive the test process
      AppendUntilKilled(ends[1]);
    }
    close(ends[1]);
    std::uint64_t said = 0;
    for (int i = 0; i < 60 + 17 * round; ++i) {
      ASSERT_EQ(read(ends[0], &said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
    }
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    // The versions that the process reported before it died are still in the pipe.
    while (read(ends[0], &said, sizeof(said)) == static_cast<ssize_t>(sizeof(said))) {
    }
    close(ends[0]);
    EXPECT_GT(said, known);
    known = said;
    const auto versions = Versions(temp_.path());
    ASSERT_GE(versions.size(), known) << "an acknowledged group is lost";
    ASSERT_EQ(versions, UpTo(versions.size()));
    CommitLogOptions options = Options();
    options.is_of_this_boot = true;
    ASSERT_TRUE(TryOpen(options).ok());
  }
}

// RocksDB, which logs nothing then, allocates no 256 MiB for its log.
TEST(CommitLogSpaceTest, AnEmptyStoreTakesLittleMoreThanItsLog) {
  constexpr std::uint64_t kLog = std::uint64_t{4} << 20;
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "data");
  options.commit_log_bytes = kLog;
  const auto store = Store::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Put("key", "value").ok());
  std::uint64_t allocated = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temp / "data")) {
    struct stat status = {};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0) << entry.path();
    if (S_ISREG(status.st_mode))
      allocated += std::uint64_t{512} * static_cast<std::uint64_t>(status.st_blocks);
  }
  EXPECT_GT(allocated, kLog / 2);
  EXPECT_LT(allocated, kLog + (std::uint64_t{16} << 20));
}

}  // namespace
}  // namespace remora
