// Commit logs as a killed process, a power cut or a failing disk leaves them, and how Open recovers them
// (C5). The numbers in comments are invariants of recovery.h and format.h in store/durable/commit_log, and of
// store/durable/wal/wal_recovery.h (W3, W4).
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "commit_log_fixture.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CommitLogTornTest : public CommitLogFixture {
 protected:
  /// Writes a log of so many groups into one file. Sets ends_ to
  /// the beginning of the first group, followed by the end of each.
  void Write(int groups, bool synced = false) {
    const auto log = Open();
    ASSERT_TRUE(log);
    ends_ = {log->appended()};
    for (int i = 0; i < groups; ++i) ends_.push_back(Append(*log));
    if (synced) {
      ASSERT_TRUE(log->Sync().ok());
      ends_.push_back(Append(*log));  // a group that records the sync
    }
  }
  void Damage(std::uint64_t file, std::uint64_t offset, std::size_t size = 1) {
    std::string bytes = ReadFile(PathOf(file));
    for (std::size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<char>(~bytes[offset + i]);
    WriteFile(PathOf(file), bytes);
  }
  absl::StatusCode CodeOfOpening(bool is_of_this_boot) {
    CommitLogOptions options = Options();
    options.is_of_this_boot = is_of_this_boot;
    return TryOpen(options).status().code();
  }

  std::vector<Lsn> ends_;
};
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogTornTest);

// C5a: a reader shows the whole groups before the lost bytes, wherever these begin.
TEST_P(CommitLogTornTest, EndsBeforeTheGroupThatIsTornAtAnyByte) {
  Write(3);
  const std::string whole = ReadFile(PathOf(0));
  for (std::uint64_t cut = 0; cut < ends_.back().value; ++cut) {
    std::string torn = whole;
    std::memset(torn.data() + cut, 0, torn.size() - cut);
    Overwrite(PathOf(0), torn.substr(0, ends_.back().value));
    std::uint64_t expected = 0;
    for (std::size_t i = 1; i < ends_.size() && ends_[i].value <= cut; ++i) ++expected;
    // A group that ends with zeros is still whole if the cut removes only those.
    if (expected + 1 < ends_.size() &&
        torn.substr(0, ends_[expected + 1].value) == whole.substr(0, ends_[expected + 1].value)) {
      ++expected;
    }
    const bool has_header = torn.substr(0, 64) == whole.substr(0, 64);
    ASSERT_EQ(Versions(temp_.path()), UpTo(has_header ? expected : 0)) << "cut at " << cut;
  }
}

TEST_P(CommitLogTornTest, GoesOnBehindATornGroup) {
  Write(3);
  Damage(0, ends_[3].value - 20);
  version_ = 2;
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    EXPECT_EQ(shown_, UpTo(2));
    EXPECT_EQ(log->appended(), ends_[2]);
    Append(*log);
    Append(*log);
  }
  EXPECT_EQ(Versions(temp_.path()), UpTo(4));
}

TEST_P(CommitLogTornTest, NoByteOfAGroupMayDiffer) {
  Write(2);
  const std::string whole = ReadFile(PathOf(0));
  for (std::uint64_t at = ends_[0].value; at < ends_[1].value; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    Overwrite(PathOf(0), changed.substr(0, ends_.back().value));
    ASSERT_THAT(Versions(temp_.path()), IsEmpty()) << at;
  }
}

// L3: a new file does not follow a file whose end was lost.
TEST_P(CommitLogTornTest, ALostEndOfAFileEndsTheLog) {
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    Fill(*log, 1);
  }
  const std::uint64_t all = version_;
  const std::uint64_t in_first = (kMinLogFileSize - 64) / (64 + 24 + 8 + 4000);
  ASSERT_GT(all, in_first);
  Damage(0, 64 + (in_first - 1) * (64 + 24 + 8 + 4000) + 1000);
  EXPECT_EQ(Versions(temp_.path()), UpTo(in_first - 1));
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(in_first - 1));
  version_ = in_first - 1;
  Fill(*log, 1);
  EXPECT_EQ(Versions(temp_.path()), UpTo(version_));
}

// L2: a disk shows old data again that an earlier writer left behind the end of the log.
TEST_P(CommitLogTornTest, GroupsOfAnEarlierWriterNeverFollow) {
  Write(3);
  const std::string old = ReadFile(PathOf(0));
  Damage(0, ends_[1].value - 20);
  version_ = 0;
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    EXPECT_THAT(shown_, IsEmpty());
    EXPECT_EQ(Append(*log), ends_[1]) << "as large as the one before";
  }
  std::string bytes = ReadFile(PathOf(0));
  bytes.replace(ends_[1].value, std::string::npos, old.substr(ends_[1].value));
  WriteFile(PathOf(0), bytes);
  EXPECT_THAT(Versions(temp_.path()), ElementsAre(1));
}

// C5b, W3: the loss of a synced group is damage.
TEST_P(CommitLogTornTest, ALossOfWhatWasSyncedIsDamage) {
  Write(3, true);
  Damage(0, ends_[1].value + 70);
  EXPECT_EQ(CodeOfOpening(false), absl::StatusCode::kDataLoss);
  const absl::Status status = TryOpen(Options()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the disk said that it has them"));
  EXPECT_EQ(CodeOfOpening(false), absl::StatusCode::kDataLoss) << "and nothing was changed";
}

TEST_P(CommitLogTornTest, ALossOfWhatWasAppliedIsDamage) {
  Write(3);
  CommitLogOptions options = Options();
  options.replay_from = ends_[2];
  EXPECT_TRUE(TryOpen(options).ok());
  EXPECT_THAT(shown_, ElementsAre(3));
  Damage(0, ends_[0].value + 70);
  options.incarnation = ++incarnation_;
  EXPECT_EQ(TryOpen(options).status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(PathOf(0));
  EXPECT_EQ(TryOpen(options).status().code(), absl::StatusCode::kDataLoss);
  for (const std::string& name : FilesIn(temp_.path())) std::filesystem::remove(temp_ / name);
  EXPECT_EQ(TryOpen(options).status().code(), absl::StatusCode::kDataLoss);
}

// C5c, W4: a killed process leaves no hole in a log.
TEST_P(CommitLogTornTest, AHoleWithoutAPowerCutIsDamage) {
  Write(3);
  Damage(0, ends_[0].value + 70);
  EXPECT_EQ(CodeOfOpening(true), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOfOpening(false), absl::StatusCode::kOk);
  EXPECT_THAT(shown_, IsEmpty());
}

TEST_P(CommitLogTornTest, ATornEndWithoutAPowerCutIsNone) {
  Write(3);
  Damage(0, ends_[2].value + 70);
  EXPECT_EQ(CodeOfOpening(true), absl::StatusCode::kOk);
  EXPECT_EQ(shown_, UpTo(2));
}

// C5d: recovery removes the groups behind the end of the log.
TEST_P(CommitLogTornTest, RecoveryRemovesGroupsBehindAHole) {
  Write(3);
  Damage(0, ends_[0].value + 70);
  version_ = 0;
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    Append(*log, 8);  // smaller than before, so that it overwrites no later group
  }
  EXPECT_EQ(CodeOfOpening(true), absl::StatusCode::kOk);
  EXPECT_THAT(shown_, ElementsAre(1));
}

TEST_P(CommitLogTornTest, AFileThatWasNotMadeCompletelyIsReplaced) {
  Write(3);
  const auto files = ListLogFiles(temp_.path());
  ASSERT_TRUE(files.ok());
  for (const LogFileInfo& file : *files) {
    if (file.first != Lsn{}) std::filesystem::resize_file(temp_ / LogFileName(file.first), 5000);
  }
  const auto log = Open();
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(3));
  Fill(*log, 2);
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

// A copy of the directory may be a sparse file with holes in place of zeros.
TEST_P(CommitLogTornTest, HolesAreFilledBeforeTheyAreUsed) {
  Write(3);
  const std::string bytes = ReadFile(PathOf(0));
  WriteFile(PathOf(0), bytes.substr(0, 4096));
  std::filesystem::resize_file(PathOf(0), kMinLogFileSize);
  const auto log = Open();
  ASSERT_TRUE(log);
  Fill(*log, 1);
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

TEST_P(CommitLogTornTest, OtherFilesAreLeftAlone) {
  Write(1);
  WriteFile(temp_ / "notes", "mine");
  WriteFile(temp_ / "00000000000000zz.log", "mine");
  ASSERT_TRUE(Open());
  EXPECT_EQ(ReadFile(temp_ / "notes"), "mine");
  EXPECT_EQ(ReadFile(temp_ / "00000000000000zz.log"), "mine");
  EXPECT_THAT(shown_, SizeIs(1));
}

TEST_P(CommitLogTornTest, AReaderThatIsAheadOfDamageSaysSo) {
  const auto log = Open();
  ASSERT_TRUE(log);
  for (int i = 0; i < 3; ++i) Append(*log);
  Damage(0, 64 + 200 + 70);
  const auto reader = log->Read({});
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(*(*reader)->Next(log->appended()));
  const absl::Status status = (*reader)->Next(log->appended()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("begin with a scan"));
}

// C5e: a power cut may keep the removal of a file, and lose that of an older one.
TEST_P(CommitLogTornTest, FilesBeforeAGapAreRemoved) {
  Lsn third;
  {
    const auto log = Open();
    ASSERT_TRUE(log);
    third = Fill(*log, 2);
    Fill(*log, 1);
  }
  std::filesystem::remove(PathOf(1));
  EXPECT_EQ(CodeOfOpening(false), absl::StatusCode::kDataLoss) << "a part of what is to be replayed is lost";
  EXPECT_TRUE(std::filesystem::exists(PathOf(0))) << "the operator may want it";
  const auto ignore = [](const LogGroup&) { return absl::OkStatus(); };
  ASSERT_TRUE(RecoverCommitLog({.dir = temp_.path(), .replay_from = third, .read_only = true}, ignore).ok());
  EXPECT_TRUE(std::filesystem::exists(PathOf(0))) << "a reader changes nothing";
  CommitLogOptions options = Options();
  options.replay_from = third;
  const auto log = Open(options);
  ASSERT_TRUE(log);
  EXPECT_FALSE(std::filesystem::exists(PathOf(0)));
  EXPECT_TRUE(std::filesystem::exists(PathOf(2)));
  EXPECT_EQ(shown_.back(), version_);
  Fill(*log, 1);
  EXPECT_EQ(Versions(temp_.path(), third, log->appended()).back(), version_);
}

}  // namespace
}  // namespace remora
