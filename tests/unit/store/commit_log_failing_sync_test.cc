// The commit log on a disk where single calls fail. tests/crash/disk.cc is loaded before all other libraries,
// and the environment names the folder where its faults happen. C1, C2 and C9 are invariants of
// store/durable/commit_log/commit_log.h.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "commit_log_fixture.h"
#include "store/base/shortage.h"
#include "tests/crash/disk.h"
#include "tests/support/patience.h"

namespace remora {
namespace {

using testing::HasSubstr;

class CommitLogFailingCallsTest : public CommitLogFixture {
 protected:
  void SetUp() override {
    const char* const dir = getenv("REMORA_DISK");
    const char* const faults = getenv("REMORA_DISK_FAULTS");
    ASSERT_TRUE(dir != nullptr && faults != nullptr) << "run it as ctest does";
    const int fd = open(faults, O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    void* const bytes = mmap(nullptr, kFaultBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ASSERT_NE(bytes, MAP_FAILED);
    faults_ = static_cast<std::uint8_t*>(bytes);
    dir_ = std::string(dir) + "/log";
    ASSERT_TRUE(std::filesystem::create_directory(dir_));
  }
  void TearDown() override {
    if (faults_ == nullptr) return;
    for (const Fault fault :
         {Fault::kSyncErrno, Fault::kWriteErrno, Fault::kReadErrno, Fault::kChangeErrno}) {
      Set(fault, 0);
    }
    munmap(faults_, kFaultBytes);
    std::filesystem::remove_all(dir_);
  }
  void Set(Fault fault, int error) const {
    __atomic_store_n(&faults_[static_cast<std::size_t>(fault)], static_cast<std::uint8_t>(error),
                     __ATOMIC_RELEASE);
  }
  CommitLogOptions There() {
    CommitLogOptions options = Options();
    options.dir = dir_;
    return options;
  }
  absl::Status AppendUntilRejected(CommitLog& log) {
    absl::Status status;
    while (status.ok() && version_ < 10'000) status = TryAppend(log, 4000).status();
    return status;
  }
  absl::Status AppendUntilTaken(CommitLog& log) {
    absl::Status status;
    const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (status = TryAppend(log, 4000).status(),
           !status.ok() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return status;
  }

  std::uint8_t* faults_ = nullptr;
  std::string dir_;
};
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogFailingCallsTest);

// C2: after a failed fsync, the log fails every later call, and only a new opening recovers.
TEST_P(CommitLogFailingCallsTest, ASyncThatFailsIsFinal) {
  {
    const auto log = Open(There());
    ASSERT_TRUE(log);
    const Lsn synced = Append(*log);
    ASSERT_TRUE(log->Sync().ok());
    Append(*log);
    Set(Fault::kSyncErrno, EIO);
    const absl::Status status = log->Sync().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("open the store again"));
    Set(Fault::kSyncErrno, 0);
    EXPECT_EQ(log->Sync().status(), status);
    EXPECT_EQ(TryAppend(*log).status(), status);
    EXPECT_EQ(log->durable(), synced);
  }
  const auto log = Open(There());
  ASSERT_TRUE(log);
  EXPECT_EQ(shown_, UpTo(version_));
  Append(*log);
  EXPECT_TRUE(log->Sync().ok());
}

// C9: a file system that copies on write may run out of space, and of memory, at any write.
TEST_P(CommitLogFailingCallsTest, AWantOfSpaceOrMemoryForAWritePasses) {
  CommitLogOptions options = There();
  options.max_bytes = std::uint64_t{64} << 20;
  const auto log = Open(options);
  ASSERT_TRUE(log);
  for (const int error : {ENOSPC, EDQUOT, ENOMEM, ENFILE, EMFILE, EFBIG}) {
    Append(*log);
    const std::uint64_t before = version_;
    Set(Fault::kWriteErrno, error);
    const absl::Status status = AppendUntilRejected(*log);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("writes go on by themselves"));
    EXPECT_EQ(IsShortage(status), IsShortage(error)) << error;
    EXPECT_EQ(IsDiskFailure(status), !IsShortage(error)) << error;
    if (GetParam() == LogWriterKind::kWrite) {
      EXPECT_EQ(version_, before) << "at once";
    }
    Set(Fault::kWriteErrno, 0);
    const absl::Status after = AppendUntilTaken(*log);
    EXPECT_TRUE(after.ok()) << after;
  }
  EXPECT_EQ(Versions(dir_, {}, log->appended()), UpTo(version_));
}

// C1: the log does not append after a write that failed.
TEST_P(CommitLogFailingCallsTest, AWriteThatFailsIsFinal) {
  const auto log = Open(There());
  ASSERT_TRUE(log);
  Append(*log);
  Set(Fault::kWriteErrno, EIO);
  if (GetParam() == LogWriterKind::kMapped) {
    Append(*log);  // this writer makes no write call
    Set(Fault::kWriteErrno, 0);
  } else {
    const absl::Status status = TryAppend(*log).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    Set(Fault::kWriteErrno, 0);
    EXPECT_EQ(TryAppend(*log).status(), status);
  }
  EXPECT_EQ(Versions(dir_, {}, log->appended()), UpTo(version_));
}

TEST_P(CommitLogFailingCallsTest, AFileThatCannotBeMadeIsMadeLater) {
  const auto log = Open(There());
  ASSERT_TRUE(log);
  while (log->bytes() < 2 * kMinLogFileSize) std::this_thread::yield();  // the first spare file exists
  Set(Fault::kChangeErrno, EACCES);
  EXPECT_EQ(AppendUntilRejected(*log).code(), absl::StatusCode::kUnavailable);
  const Lsn end = log->appended();
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->durable(), end);
  Set(Fault::kChangeErrno, 0);
  const absl::Status after = AppendUntilTaken(*log);
  EXPECT_TRUE(after.ok()) << after;
  EXPECT_EQ(Versions(dir_, {}, log->appended()), UpTo(version_));
}

// A failed read does not prove that any data is lost.
TEST_P(CommitLogFailingCallsTest, AReadThatFailsIsNoDamage) {
  Append(*Open(There()));
  Set(Fault::kReadErrno, EIO);
  EXPECT_EQ(TryOpen(There()).status().code(), absl::StatusCode::kUnavailable);
  Set(Fault::kReadErrno, 0);
  EXPECT_TRUE(TryOpen(There()).ok());
  EXPECT_EQ(shown_, UpTo(1));
}

}  // namespace
}  // namespace remora
