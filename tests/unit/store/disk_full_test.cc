// A disk that is really full.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "small_disk.h"
#include "store/backup.h"
#include "store/format/types/change.h"
#include "store/server_store.h"
#include "store/watch.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/patience.h"
#include "tests/support/random_bytes.h"

namespace remora {
namespace {

using testing::HasSubstr;

/// Mounts a file system of 160 MiB, for which the test must run as
/// root. RocksDB recovers from a full disk when it has 64 MiB again.
class DiskFullTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = disk_.Mount(temp_.path(), "size=160m");
    if (!why.empty()) GTEST_SKIP() << why;
  }
  /// Fills the disk, except for `left` bytes.
  void Fill(std::size_t left) { disk_.TakeSpace(left); }

  TempDir temp_;
  SmallDisk disk_;
};

TEST_F(DiskFullTest, AFullDiskIsSaidAndReadsGoOn) {
  Fill(std::size_t{1} << 20);  // before the first write, which would allocate space in advance
  StoreOptions options = LoggedIn(temp_ / "store");
  ManualClock clock;
  options.clock = &clock;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Put("key", "value").ok());
  ASSERT_TRUE((*store)->Put("brief", "value", {.ttl = std::chrono::seconds(1)}).ok());

  absl::Status status;
  int puts = 0;
  for (; status.ok() && puts < 10'000; ++puts) {
    status = (*store)->Put("key" + std::to_string(puts), std::string(4000, 'v'));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));
  std::string value;
  EXPECT_TRUE((*store)->Get("key", &value).ok());
  EXPECT_EQ((*store)->Get("key" + std::to_string(puts - 1), &value).code(), absl::StatusCode::kNotFound);

  clock.Advance(std::chrono::seconds(2));
  ASSERT_TRUE((*store)->RunMaintenance());
  ASSERT_EQ((*store)->Read(Metric::kExpired), 1u);
  auto watch = (*store)->Watch();
  ASSERT_TRUE(watch.ok()) << watch.status();

  const std::uint64_t last_version = (*store)->Read(Metric::kLastVersion);

  // When the disk has space again, writes succeed by themselves, and no acknowledged write is missing.
  std::filesystem::remove(temp_ / "ballast");
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (status = (*store)->Put("after", "value"),
         !status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT((*store)->Read(Metric::kLastVersion), last_version + 1)
      << "the versions of the writes that failed may be on disk";
  // A watch also shows the key that expired meanwhile.
  clock.Advance(std::chrono::seconds(1));
  bool brief_goes = false;
  while (!brief_goes && std::chrono::steady_clock::now() < give_up) {
    const absl::StatusOr<bool> came = (*watch)->Next(std::chrono::milliseconds(0));
    ASSERT_TRUE(came.ok()) << came.status();
    brief_goes = *came && (*watch)->kind() == ChangeKind::kDelete && (*watch)->key() == "brief";
    if (!*came) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // a thread begins the feed
  }
  EXPECT_TRUE(brief_goes);
  watch->reset();
  store->reset();
  store = ServerStore::Open(LoggedIn(temp_ / "store"));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Get("after", &value).ok());
  EXPECT_TRUE((*store)->Get("key", &value).ok());
  for (int i = 0; i + 1 < puts; ++i) ASSERT_TRUE((*store)->Get("key" + std::to_string(i), &value).ok()) << i;
}

// A server that is not ready gets no writes. So the store has to find out by itself.
class IdleStoreOnAFullDiskTest : public DiskFullTest, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(All, IdleStoreOnAFullDiskTest, testing::Values(0, std::uint64_t{16} << 20),
                         [](const auto& one) { return one.param == 0 ? "RocksDbLog" : "CommitLog"; });

TEST_P(IdleStoreOnAFullDiskTest, NoticesThatThereIsSpaceAgain) {
  StoreOptions options = LoggedIn(temp_ / "store");
  ManualClock clock;
  options.clock = &clock;
  options.commit_log_bytes = GetParam();
  Fill(std::size_t{GetParam() == 0 ? 1u : 4u} << 20);  // the files of the commit log have 1 MiB each
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  absl::Status status;
  // Fewer than memory has space for: this clock does not go on, and no memory becomes free.
  for (int puts = 0; status.ok() && puts < 2000; ++puts) {
    // RocksDB does not compress it.
    status = (*store)->Put("key" + std::to_string(puts), RandomBytes(4000, static_cast<std::uint64_t>(puts)));
  }
  ASSERT_THAT(std::string(status.message()), HasSubstr("no space left"));
  (*store)->RunMaintenance();
  const std::uint64_t failures = (*store)->Read(Metric::kDiskFailures);
  const auto try_once = [&] {
    const auto next = (*store)->next_maintenance();
    EXPECT_TRUE(next.has_value());
    clock.Advance(std::chrono::seconds(1));
    (*store)->RunMaintenance();
  };
  for (int i = 0; i < 3; ++i) try_once();
  EXPECT_FALSE((*store)->disk_status().ok()) << "there is no space yet";
  EXPECT_EQ((*store)->Read(Metric::kDiskFailures), failures) << "a try is no write that failed";

  std::filesystem::remove(temp_ / "ballast");
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (!(*store)->disk_status().ok() && std::chrono::steady_clock::now() < give_up) {
    try_once();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // threads of RocksDB and of the log go on
  }
  EXPECT_TRUE((*store)->disk_status().ok()) << (*store)->disk_status();
  EXPECT_EQ((*store)->Read(Metric::kDiskRejects), 0u);
  EXPECT_TRUE((*store)->Put("after", "value").ok()) << "the first write succeeds";
}

// RocksDB must not be asked to sync a log that has failed a write (F4 of store/durable/files.h).
TEST_F(DiskFullTest, WritesBeforeTheDiskWasFullAreSynced) {
  Fill(std::size_t{1} << 20);
  StoreOptions options = LoggedIn(temp_ / "store");
  options.durability = Durability::kSynced;
  options.syncing = Syncing::kInSteps;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Put("first", "value").ok());  // synced at once, because it raises the version limit
  std::array<Write, 1> pending;
  pending[0].key = "before";
  pending[0].value = "value";
  (*store)->Submit(pending);
  ASSERT_NE(pending[0].ticket, 0u) << pending[0].status;

  const std::string value(4000, 'v');
  absl::Status status;
  for (int puts = 0; status.ok() && puts < 10'000; ++puts) {
    status = (*store)->Put("key" + std::to_string(puts), value, {.durability = Durability::kLogged});
  }
  ASSERT_THAT(std::string(status.message()), HasSubstr("no space left"));
  std::string read;
  EXPECT_EQ((*store)->Get("before", &read).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE((*store)->Sync());
  EXPECT_TRUE((*store)->Get("before", &read).ok());
  EXPECT_THAT(std::string((*store)->disk_status().message()), Not(HasSubstr("opened again")));
}

// RocksDB begins a log once its memtable is full. The store never gives it a first record for that log which
// the disk may reject (F2 of store/durable/files.h).
class DiskFullAsALogBeginsTest : public DiskFullTest, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(All, DiskFullAsALogBeginsTest,
                         // The second is more than RocksDB gives to the file system at once.
                         testing::Values(std::size_t{4000}, std::size_t{1500} << 10));

TEST_P(DiskFullAsALogBeginsTest, WritesGoOnAfterwards) {
  StoreOptions options = LoggedIn(temp_ / "store");
  options.write_buffer_bytes = std::size_t{16} << 20;
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  // The first one is small: space for its record is too little for the others.
  const auto value_of = [](int put) {
    return std::to_string(put) + std::string(put == 0 ? 1 : GetParam(), 'v');
  };
  int puts = 0;
  const auto put = [&] {
    const absl::Status status = (*store)->Put("key" + std::to_string(puts), value_of(puts));
    if (status.ok()) ++puts;
    return status;
  };
  ASSERT_TRUE(put().ok() && put().ok()) << "RocksDB allocates the space of the first log";
  Fill(0);
  absl::Status status;
  while (status.ok() && puts < 30'000) status = put();
  ASSERT_THAT(std::string(status.message()), HasSubstr("no space left"));
  ASSERT_THAT(std::string(status.message()), Not(HasSubstr("opened again")));
  EXPECT_GT(FilesIn(options.data_dir, ".log").size(), 1u) << "another log has begun";
  EXPECT_FALSE(put().ok());
  std::string read;
  EXPECT_TRUE(absl::IsNotFound((*store)->Get("key" + std::to_string(puts), &read)));
  EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts)) << "as scans see it";

  std::filesystem::remove(temp_ / "ballast");
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (status = put(), !status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(status.ok()) << status;
  store->reset();
  store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts));
  for (int i = 0; i < puts; ++i) {
    ASSERT_TRUE((*store)->Get("key" + std::to_string(i), &read).ok()) << i;
    ASSERT_TRUE(read == value_of(i)) << i;
  }
}

// With a commit log, the flushes of RocksDB find no space, too. All goes on by itself as soon as there is a
// little space, much less than the write buffers of RocksDB may take.
TEST_F(DiskFullTest, WritesToACommitLogGoOnAfterwards) {
  StoreOptions options = LoggedIn(temp_ / "store");
  options.commit_log_bytes = std::uint64_t{16} << 20;
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  const TempDir elsewhere;
  int puts = 0;
  // RocksDB cannot compress these.
  const auto value_of = [](int put) { return RandomBytes(4000, static_cast<std::uint64_t>(put)); };
  const auto put = [&] {
    const absl::Status status = (*store)->Put("key" + std::to_string(puts), value_of(puts));
    if (status.ok()) ++puts;
    return status;
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(put().ok());
    Fill(0);
    absl::Status status;
    const int before = puts;
    while (status.ok() && puts < before + 10'000) status = put();
    ASSERT_THAT(std::string(status.message()), HasSubstr("no space left"));
    ASSERT_THAT(std::string(status.message()), Not(HasSubstr("opened again")));
    std::string read;
    EXPECT_TRUE(absl::IsNotFound((*store)->Get("key" + std::to_string(puts), &read)));
    EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts)) << "as scans see it";
    // A backup flushes. If RocksDB has freed space by itself meanwhile, that is filled, too.
    for (int tries = 0; tries < 50; ++tries) {
      status = (*store)->Backup(elsewhere / ("backup" + std::to_string(round))).status();
      if (!status.ok()) break;
      if (std::filesystem::space(temp_.path()).available > 0) Fill(0);
      while (status.ok() && puts < before + 10'000) status = put();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));

    std::filesystem::remove(temp_ / "ballast");
    const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(30));
    // More than the log holds.
    while (puts < before + 5000 && std::chrono::steady_clock::now() < give_up) {
      status = put();
      if (!status.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(status.ok()) << status;
  }
  store->reset();
  store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::string read;
  EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts));
  for (int i = 0; i < puts; ++i) {
    ASSERT_TRUE((*store)->Get("key" + std::to_string(i), &read).ok()) << i;
    ASSERT_TRUE(read == value_of(i)) << i;
  }
}

// RocksDB 7.8 answers the flush of a backup before tables have the records, once the disk was full.
class DiskFullBackupTest : public DiskFullTest, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(All, DiskFullBackupTest, testing::Values(0, std::uint64_t{64} << 20),
                         [](const auto& one) { return one.param == 0 ? "RocksdbLog" : "CommitLog"; });

TEST_P(DiskFullBackupTest, ABackupAfterwardsHasAllThatWasWritten) {
  StoreOptions options = LoggedIn(temp_ / "store", std::size_t{64} << 20);
  options.commit_log_bytes = GetParam();
  options.write_buffer_bytes = std::size_t{16} << 20;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  int puts = 0;
  const auto put = [&] {
    const std::string value = RandomBytes(32'000, static_cast<std::uint64_t>(puts));
    const absl::Status status = (*store)->Put("key" + std::to_string(puts), value);
    if (status.ok()) ++puts;
    return status;
  };
  ASSERT_TRUE(put().ok());
  Fill(std::size_t{1} << 20);
  absl::Status status;
  while (status.ok() && puts < 5000) status = put();
  ASSERT_THAT(std::string(status.message()), HasSubstr("no space left"));

  std::filesystem::remove(temp_ / "ballast");
  const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  while (status = put(), !status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int more = 0; more < 400; ++more) ASSERT_TRUE(put().ok());  // memtables of 12 MiB
  const TempDir elsewhere;
  const absl::Status backup = (*store)->Backup(elsewhere / "backup").status();
  ASSERT_TRUE(backup.ok()) << backup;
  store->reset();
  ASSERT_TRUE(RestoreBackup(elsewhere / "backup", 0, elsewhere / "restored", 0).ok());
  options.data_dir = elsewhere / "restored";
  store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts));
}

TEST_F(DiskFullTest, OpeningOnAFullDiskSaysSo) {
  Fill(0);
  const absl::Status status = ServerStore::Open(LoggedIn(temp_ / "store")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("space"));
  std::filesystem::remove(temp_ / "ballast");
  EXPECT_TRUE(ServerStore::Open(LoggedIn(temp_ / "store")).ok()) << "what it left behind hinders the next";
}

}  // namespace
}  // namespace remora
