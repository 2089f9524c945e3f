// The commit log with both kinds of writer. The numbers in comments (C2, C4 ...) are invariants of
// commit_log.h, file_set.h and log_file.h in store/durable/commit_log.
#include "store/durable/commit_log/commit_log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>
#include <thread>

#include "commit_log_fixture.h"

namespace remora {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

ino_t InodeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

using CommitLogTest = CommitLogFixture;
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogTest);

TEST_P(CommitLogTest, ShowsWhatWasAppendedInItsOrder) {
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(log->writer(), GetParam());
  EXPECT_EQ(log->appended(), Lsn{64});
  const std::array<LogEntry, 2> batch = {LogEntry{.version = 1, .key = "a", .value = "one"},
                                         LogEntry{.kind = LogEntryKind::kDelete, .version = 2, .key = "b"}};
  const auto first = log->Append(batch);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, log->appended());
  const LogEntry empty = {.version = 3, .key = "c"};
  const auto second = log->Append({&empty, 1});
  ASSERT_TRUE(second.ok());

  const auto reader = log->Read({});
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ(*(*reader)->Next(log->appended()), true);
  EXPECT_EQ((*reader)->group().end(), *first);
  EXPECT_EQ((*reader)->group().header.count, 2u);
  LogEntries entries = (*reader)->group().entries();
  LogEntry entry;
  ASSERT_TRUE(entries.Next(&entry));
  EXPECT_EQ(entry.value, "one");
  ASSERT_TRUE(entries.Next(&entry));
  EXPECT_EQ(entry.kind, LogEntryKind::kDelete);
  ASSERT_EQ(*(*reader)->Next(log->appended()), true);
  EXPECT_EQ((*reader)->group().end(), *second);
  EXPECT_EQ(*(*reader)->Next(log->appended()), false);

  // The reader continues where it stopped when there are more groups. Another reader begins at the given LSN.
  const LogEntry more = {.version = 4, .key = "d"};
  ASSERT_TRUE(log->Append({&more, 1}).ok());
  ASSERT_EQ(*(*reader)->Next(log->appended()), true);
  EXPECT_EQ((*reader)->group().header.first_version, 4u);
  EXPECT_THAT(Versions(temp_.path(), *first, log->appended()), ElementsAre(3, 4));
}

TEST_P(CommitLogTest, GoesOnOverFilesAndOpenings) {
  const int rounds = 4;
  std::vector<Lsn> ends;
  for (int round = 0; round < rounds; ++round) {
    const auto log = Open();
    ASSERT_TRUE(log);
    EXPECT_EQ(shown_, UpTo(version_));
    EXPECT_EQ(log->first(), Lsn{});
    ends.push_back(Fill(*log, 2));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(Versions(temp_.path()), UpTo(version_));
  // A reader can begin at each of these LSNs, too.
  for (const Lsn end : ends) EXPECT_THAT(Versions(temp_.path(), end), Not(SizeIs(version_)));
  EXPECT_THAT(Versions(temp_.path(), ends.back()), IsEmpty());
  EXPECT_EQ(CommitLogReader::Open(temp_.path(), ends.back() + 8).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST_P(CommitLogTest, AGroupMayFillAFileToItsLastByte) {
  const auto log = Open();
  ASSERT_TRUE(log);
  const std::uint64_t overhead = sizeof(LogGroupHeader) + sizeof(LogEntryHeader) + 8;
  EXPECT_EQ(Append(*log, log->max_group_bytes() - overhead), Lsn{kMinLogFileSize});
  const absl::Status status = TryAppend(*log, log->max_group_bytes() - overhead + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("open the log with larger files"));
  Append(*log);
  EXPECT_THAT(Versions(temp_.path(), Lsn{kMinLogFileSize}, log->appended()), ElementsAre(2));
  EXPECT_THAT(Versions(temp_.path(), {}, log->appended()), ElementsAre(1, 2));
}

TEST_P(CommitLogTest, OpensAgainWhereAFileIsFullToItsLastByte) {
  const std::uint64_t overhead = sizeof(LogGroupHeader) + sizeof(LogEntryHeader) + 8;
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    Append(*log, log->max_group_bytes() - overhead);
  }
  CommitLogOptions options = Options();
  options.replay_from = Lsn{kMinLogFileSize};
  {
    const auto log = Open(options);
    ASSERT_TRUE(log);
    EXPECT_THAT(shown_, IsEmpty());
    Append(*log);
  }
  EXPECT_THAT(Versions(temp_.path()), ElementsAre(1, 2));
}

TEST_P(CommitLogTest, RejectsWhatIsNoGroup) {
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(log->Append({}).status().code(), absl::StatusCode::kInvalidArgument);
  const LogEntry entry = {.version = 1, .key = ""};
  EXPECT_EQ(log->Append({&entry, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log->appended(), Lsn{64});
}

TEST_P(CommitLogTest, RejectsOptionsOutOfBounds) {
  const auto code_of = [&](void (*change)(CommitLogOptions*)) {
    CommitLogOptions options = Options();
    change(&options);
    return TryOpen(options).status().code();
  };
  using absl::StatusCode;
  EXPECT_EQ(code_of([](auto* o) { o->file_size = kMinLogFileSize - 4096; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](auto* o) { o->file_size = kMinLogFileSize + 8; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](auto* o) { o->file_size = kMaxLogFileSize + 4096; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](auto* o) { o->max_bytes = 3 * o->file_size - 1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](auto* o) { o->incarnation = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](auto* o) { o->dir += "/missing"; }), StatusCode::kNotFound);
}

TEST_P(CommitLogTest, AnotherFileSizeHoldsFromTheNextFileOn) {
  Fill(*Open(), 2);
  CommitLogOptions options = Options();
  options.file_size = 2 * kMinLogFileSize;
  const std::uint64_t before = version_;
  {
    const auto log = Open(options);
    ASSERT_TRUE(log);
    EXPECT_EQ(shown_, UpTo(before));
    Append(*log, log->max_group_bytes() - 1000);
    Append(*log, log->max_group_bytes() - 1000);
  }
  Fill(*Open(), 2);
  EXPECT_EQ(Versions(temp_.path()), UpTo(version_));
}

// C9a: the file system has allocated all blocks of a file before its first use.
TEST_P(CommitLogTest, BlocksAreThereBeforeTheyAreNeeded) {
  const auto log = Open();
  ASSERT_TRUE(log);
  Fill(*log, 1);
  const auto files = ListLogFiles(temp_.path());
  ASSERT_TRUE(files.ok());
  int used = 0;
  for (const LogFileInfo& file : *files) {
    if (file.first >= log->appended()) continue;  // a spare, which may be in the making
    ++used;
    struct stat status;
    ASSERT_EQ(stat((temp_ / LogFileName(file.first)).c_str(), &status), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kMinLogFileSize);
    EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, kMinLogFileSize);
  }
  EXPECT_GE(used, 1);
}

// C4: Recycle gives back the files before an LSN, and keeps the file that is written.
TEST_P(CommitLogTest, RecyclesWhatStandsBeforeAnLsn) {
  const auto log = Open();
  ASSERT_TRUE(log);
  Fill(*log, 3);
  log->Recycle(Lsn{2 * kMinLogFileSize - 1});
  EXPECT_EQ(log->first(), Lsn{kMinLogFileSize});
  const auto left = Versions(temp_.path(), log->first());
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.back(), version_) << "what is left is whole";
  EXPECT_EQ(left.size(), version_ - left.front() + 1);
  EXPECT_EQ(log->Read(Lsn{64}).status().code(), absl::StatusCode::kOutOfRange);
  log->Recycle(kMaxLsn);
  EXPECT_EQ(log->first(), Lsn{3 * kMinLogFileSize}) << "the one that is written stays";
}

TEST_P(CommitLogTest, KeepsWhatIsRetained) {
  CommitLogOptions options = Options();
  std::atomic<std::uint64_t> needed = kMinLogFileSize + 64;
  options.retain = [&] { return Lsn{needed}; };
  const auto log = Open(options);
  ASSERT_TRUE(log);
  Fill(*log, 3);
  log->Recycle(log->appended());
  EXPECT_EQ(log->first(), Lsn{kMinLogFileSize});
  needed = kMaxLsn.value;
  log->Recycle(log->appended());
  EXPECT_EQ(log->first(), Lsn{3 * kMinLogFileSize});
}

// C4b: no reader shows the old groups of a recycled file, wherever
// the log ends in it. Open does not take them for damage.
TEST_P(CommitLogTest, OldGroupsOfRecycledFilesNeverVerify) {
  CommitLogOptions options = Options();
  options.max_bytes = 3 * kMinLogFileSize;  // so that the log recycles all files
  auto log = Open(options);
  ASSERT_TRUE(log);
  for (int round = 0; round < 40; ++round) {
    const Lsn from = log->appended();
    const std::uint64_t before = version_;
    for (int i = 0; i < 20; ++i) Append(*log, 900);  // of one size: old groups begin where new ones would
    ASSERT_FALSE(HasFailure());
    EXPECT_THAT(Versions(temp_.path(), from), SizeIs(version_ - before));
    log->Recycle(from);
    if (round % 5 != 4) continue;
    log.reset();
    options = Options();
    options.max_bytes = 3 * kMinLogFileSize;
    options.replay_from = from;
    options.is_of_this_boot = true;
    log = Open(options);
    ASSERT_TRUE(log);
    EXPECT_THAT(shown_, SizeIs(version_ - before));
  }
}

// C9d: the files have at most max_bytes together. The log accepts groups again after Recycle.
TEST_P(CommitLogTest, IsBoundedAndGoesOnWhenThereIsSpace) {
  CommitLogOptions options = Options();
  options.max_bytes = 4 * kMinLogFileSize;
  const auto log = Open(options);
  ASSERT_TRUE(log);
  absl::Status status;
  while (status.ok() && version_ < 10'000) status = TryAppend(*log, 4000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("allow more"));
  EXPECT_EQ(log->bytes(), options.max_bytes);
  EXPECT_THAT(FilesIn(temp_.path(), ".log"), SizeIs(4));
  const Lsn end = log->appended();
  EXPECT_FALSE(TryAppend(*log, 4000).ok());
  EXPECT_EQ(log->appended(), end);
  std::set<ino_t> before;
  for (const std::string& path : FilesIn(temp_.path(), ".log")) before.insert(InodeOf(path));
  log->Recycle(end);
  Fill(*log, 2);
  EXPECT_LE(log->bytes(), options.max_bytes);
  const Lsn file{log->appended().value / kMinLogFileSize * kMinLogFileSize};
  EXPECT_THAT(before, Contains(InodeOf(temp_ / LogFileName(file)))) << "recycled, and not made anew";
}

// C2: an fsync covers only groups that were appended before it began.
TEST_P(CommitLogTest, GroupsAppendedDuringASyncAreNotDurable) {
  CommitLogOptions options = Options();
  CommitLog* appending = nullptr;
  options.sync = [&](int fd) {
    if (appending != nullptr) Append(*appending);
    return fdatasync(fd);
  };
  const auto log = Open(options);
  ASSERT_TRUE(log);
  const Lsn first = Append(*log);
  EXPECT_LT(log->durable(), first);
  appending = log.get();
  EXPECT_EQ(*log->Sync(), first);
  EXPECT_EQ(log->durable(), first);
  EXPECT_GT(log->appended(), first);
  appending = nullptr;
  EXPECT_EQ(*log->Sync(), log->appended());
}

TEST_P(CommitLogTest, ASyncReachesEveryFileWithBytesOfIts) {
  CommitLogOptions options = Options();
  std::vector<int> synced;
  options.sync = [&](int fd) {
    synced.push_back(fd);
    return fdatasync(fd);
  };
  const auto log = Open(options);
  ASSERT_TRUE(log);
  Fill(*log, 2);
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_THAT(synced, SizeIs(3));
  EXPECT_EQ(std::unique(synced.begin(), synced.end()), synced.end());
  synced.clear();
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_THAT(synced, IsEmpty()) << "nothing came";
  Append(*log);
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_THAT(synced, SizeIs(1));
}

TEST_P(CommitLogTest, ASyncThatFailedIsFinal) {
  CommitLogOptions options = Options();
  bool fails = true;
  options.sync = [&](int fd) {
    if (!fails) return fdatasync(fd);
    errno = EIO;
    return -1;
  };
  {
    const auto log = Open(options);
    ASSERT_TRUE(log);
    Append(*log);
    const absl::Status status = log->Sync().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("open the store again"));
    fails = false;
    EXPECT_EQ(log->Sync().status(), status);
    EXPECT_EQ(TryAppend(*log).status(), status);
    EXPECT_EQ(log->durable(), Lsn{});
  }
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(1));
  Append(*log);
  EXPECT_TRUE(log->Sync().ok());
}

TEST_P(CommitLogTest, GroupsSayHowFarTheLogWasSynced) {
  const auto log = Open();
  ASSERT_TRUE(log);
  Append(*log);
  const Lsn synced = *log->Sync();
  const Lsn second = Append(*log);
  const auto reader = log->Read(synced);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(*(*reader)->Next(second));
  EXPECT_EQ(Lsn{(*reader)->group().header.synced_to}, synced);
}

// One thread appends, one reads, and one syncs and recycles.
TEST_P(CommitLogTest, IsReadSyncedAndRecycledWhileItIsWritten) {
  CommitLogOptions options = Options();
  std::atomic<std::uint64_t> read_to = 0;
  options.retain = [&] { return Lsn{read_to}; };
  const auto log = Open(options);
  ASSERT_TRUE(log);
  constexpr std::uint64_t kGroups = 3000;
  std::atomic<bool> done = false;
  std::thread reading([&] {
    const auto reader = log->Read({});
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (std::uint64_t expected = 1; expected <= kGroups;) {
      const absl::StatusOr<bool> next = (*reader)->Next(log->appended());
      ASSERT_TRUE(next.ok()) << next.status();
      if (!*next) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ((*reader)->group().header.first_version, expected);
      ++expected;
      read_to = (*reader)->end().value;
    }
  });
  std::thread syncing([&] {
    while (!done) {
      const auto synced = log->Sync();
      ASSERT_TRUE(synced.ok()) << synced.status();
      log->Recycle(*synced);
    }
  });
  while (version_ < kGroups && !HasFailure()) {
    const auto end = TryAppend(*log, 1000);
    if (end.ok()) continue;
    ASSERT_EQ(end.status().code(), absl::StatusCode::kResourceExhausted) << end.status();
    std::this_thread::yield();
  }
  reading.join();
  done = true;
  syncing.join();
  EXPECT_GT(log->first(), Lsn{});
}

}  // namespace
}  // namespace remora
