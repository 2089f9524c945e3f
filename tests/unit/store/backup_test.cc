#include "store/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/durable/data_dir.h"
#include "store/durable/new_directory.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kNow = 1'795'305'600;

/// Maps a key to its value, version and expiry.
using Contents = std::map<std::string, std::tuple<std::string, std::uint64_t, std::uint64_t>>;

Contents ContentsOf(ServerStore& store) {
  Contents contents;
  auto scan = store.Scan();
  EXPECT_TRUE(scan.ok()) << scan.status();
  while ((*scan)->Next()) {
    contents[std::string((*scan)->key())] = {std::string((*scan)->value()), (*scan)->version(),
                                             (*scan)->expiry_ms()};
  }
  EXPECT_TRUE((*scan)->status().ok()) << (*scan)->status();
  return contents;
}

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// The parameter is StoreOptions::commit_log_bytes.
class BackupTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override { Reopen(); }
  void TearDown() override {
    if (!disk_.empty()) umount2(disk_.c_str(), MNT_DETACH);
  }

  static StoreOptions OptionsIn(const std::string& path) {
    StoreOptions options = LoggedIn(path);
    options.commit_log_bytes = GetParam();
    return options;
  }
  void Reopen() {
    store_.reset();
    auto store = ServerStore::Open(OptionsIn(temp_ / "store"));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Put(int from, int to, std::size_t size = 100) {
    for (int i = from; i < to; ++i) {
      ASSERT_TRUE(
          store_->Put("key" + std::to_string(i), std::string(size, static_cast<char>('a' + i % 26))).ok());
    }
  }

  BackupInfo BackUp(std::uint32_t keep = 0) {
    const absl::StatusOr<BackupInfo> info = store_->Backup(backups_, keep);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(BackupInfo{});
  }

  std::unique_ptr<ServerStore> Restored(std::uint32_t id = 0) {
    const std::string path = temp_ / ("restored" + std::to_string(++restored_));
    const absl::StatusOr<BackupInfo> info = RestoreBackup(backups_, id, path, kNow);
    EXPECT_TRUE(info.ok()) << info.status();
    auto store = ServerStore::Open(OptionsIn(path));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  /// Mounts a file system that is as empty as a new one: it has "lost+found". Returns false if it cannot.
  bool MountAt(const std::string& path, const char* options, unsigned long flags = 0) {
    std::filesystem::create_directories(path);
    if (geteuid() != 0 || mount("tmpfs", path.c_str(), "tmpfs", flags, options) != 0) return false;
    disk_ = path;
    return (flags & MS_RDONLY) != 0 || std::filesystem::create_directory(path + "/lost+found");
  }

  std::vector<std::string> SharedFiles() const { return FilesIn(backups_ + "/shared_checksum"); }

  TempDir temp_;
  const std::string backups_ = temp_ / "backups";
  std::unique_ptr<ServerStore> store_;
  int restored_ = 0;
  std::string disk_;  // where a file system is mounted, or empty
};

INSTANTIATE_TEST_SUITE_P(All, BackupTest, testing::Values(0, std::uint64_t{64} << 20),
                         [](const auto& suite) { return suite.param == 0 ? "RocksdbLog" : "CommitLog"; });

TEST_P(BackupTest, EverythingIsThereByteForByte) {
  Put(0, 2000);
  ASSERT_TRUE(store_->Put("ttl", "an hour", {.ttl = std::chrono::hours(1)}).ok());
  ASSERT_TRUE(store_->Put("large", std::string(1 << 20, 'l')).ok());
  ASSERT_TRUE(store_->Put("not logged", "value", {.durability = Durability::kMemory}).ok());
  ASSERT_TRUE(store_->Put("synced", "value", {.durability = Durability::kSynced}).ok());
  ASSERT_TRUE(store_->Delete("key7").ok());
  ASSERT_TRUE(store_->Increment("number", 41).ok());
  const Contents before = ContentsOf(*store_);
  const BackupInfo info = BackUp();
  EXPECT_EQ(info.id, 1u);
  EXPECT_EQ(info.version, store_->Read(Metric::kLastVersion));
  EXPECT_GT(info.bytes, 0u);
  EXPECT_EQ(info.new_bytes, info.bytes);
  ASSERT_TRUE(store_->Put("key1", "later").ok());
  ASSERT_TRUE(store_->Put("later", "value").ok());

  const std::unique_ptr<ServerStore> restored = Restored();
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(ContentsOf(*restored), before);
  std::string value;
  EXPECT_TRUE(restored->Get("large", &value).ok());
  EXPECT_EQ(restored->Get("later", &value).code(), absl::StatusCode::kNotFound);
}

TEST_P(BackupTest, TheNextOneBringsWhatIsNew) {
  Put(0, 5000, 1000);
  const BackupInfo first = BackUp();
  const std::vector<std::string> files = SharedFiles();
  // Between two backups RocksDB may merge its tables into new ones; but not each time.
  BackupInfo second;
  std::uint32_t more = 0;
  do {
    ASSERT_TRUE(store_->Put("more " + std::to_string(++more), "value").ok());
    second = BackUp();
    ASSERT_EQ(second.id, first.id + more);
  } while (second.new_bytes >= first.new_bytes / 10 && more < 3);
  EXPECT_GE(second.bytes, first.bytes / 2);
  EXPECT_LT(second.new_bytes, first.new_bytes / 10);
  for (const std::string& file : files) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  const auto listed = ListBackups(backups_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_THAT(*listed, SizeIs(1 + more));
  EXPECT_EQ(listed->back().version, second.version);
  EXPECT_EQ(listed->back().new_bytes, second.new_bytes);
  // Each backup can be restored, whatever happened to the others.
  EXPECT_EQ(ContentsOf(*Restored(first.id)).size(), 5000u);
  EXPECT_EQ(ContentsOf(*Restored(second.id)).size(), 5000u + more);
}

TEST_P(BackupTest, OlderOnesGo) {
  for (int i = 0; i < 5; ++i) {
    Put(i, i + 1);
    BackUp(/*keep=*/2);
  }
  const auto listed = ListBackups(backups_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_THAT(*listed, SizeIs(2));
  EXPECT_EQ(listed->front().id, 4u);
  EXPECT_EQ(ContentsOf(*Restored(4)).size(), 4u);
  EXPECT_EQ(VerifyBackup(backups_, 3).status().code(), absl::StatusCode::kNotFound);
}

// Each batch writes one number under two keys, and the numbers increase.
TEST_P(BackupTest, WhileOthersWriteItIsOfOneMoment) {
  // Bounds the writes of a round: each round reads all of them.
  constexpr std::uint64_t kBatchesAhead = 2000;
  std::atomic<std::uint64_t> acknowledged = 0, limit = kBatchesAhead;
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::uint64_t i = 1; !stop.stop_requested(); ++i) {
      while (i > limit && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      WriteBatch batch;
      batch.Put("a", std::to_string(i));
      batch.Put(absl::StrCat("n", i), std::string(200, 'v'));
      batch.Put("b", std::to_string(i));
      // Some writes are not logged. With or without them, the backup shows one moment.
      const auto level = i % 3 == 0 ? Durability::kMemory : Durability::kLogged;
      ASSERT_TRUE(store_->Apply(batch, nullptr, level).ok());
      acknowledged = i;
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t before = acknowledged + 100;
    limit = before + kBatchesAhead;
    while (acknowledged < before) std::this_thread::yield();
    const std::uint64_t at_least = acknowledged;
    const BackupInfo info = BackUp();
    const std::unique_ptr<ServerStore> restored = Restored(info.id);
    ASSERT_NE(restored, nullptr);
    std::string a, b, value;
    std::uint64_t version = 0;
    ASSERT_TRUE(restored->Get("a", &a).ok());
    ASSERT_TRUE(restored->Get("b", &b, &version).ok());
    EXPECT_EQ(a, b) << "half a batch";
    const std::uint64_t last = std::stoull(a);
    EXPECT_GE(last, at_least) << "an acknowledged write is missing";
    EXPECT_GE(version, info.version);
    for (std::uint64_t i = 1; i <= last; ++i) {
      ASSERT_TRUE(restored->Get(absl::StrCat("n", i), &value).ok()) << i << " of " << last;
    }
    EXPECT_FALSE(restored->Get(absl::StrCat("n", last + 1), &value).ok());
  }
}

TEST_P(BackupTest, VersionsAreNotGivenTwice) {
  Put(0, 10);
  BackUp();
  Reopen();  // the new store begins behind the versions that the backup has reserved
  std::uint64_t lost = 0;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(store_->Put("key", "lost", {.version = &lost}).ok());
  const std::unique_ptr<ServerStore> restored = Restored();
  std::uint64_t version = 0;
  ASSERT_TRUE(restored->Put("key", "other", {.version = &version}).ok());
  EXPECT_GT(version, lost);
  EXPECT_LT(version, std::uint64_t{1} << 53) << "more than a double tells apart";
  EXPECT_EQ(restored->Put("key", "value", {.condition = Condition::Version(lost)}).code(),
            absl::StatusCode::kFailedPrecondition);
  // A restored store that is backed up and restored again continues with still greater versions.
  const std::string again = temp_ / "again";
  ASSERT_TRUE(restored->Backup(temp_ / "others").ok());
  ASSERT_TRUE(RestoreBackup(temp_ / "others", 0, again, kNow + 1).ok());
  auto store = ServerStore::Open(OptionsIn(again));
  ASSERT_TRUE(store.ok());
  std::uint64_t next = 0;
  ASSERT_TRUE((*store)->Put("key", "value", {.version = &next}).ok());
  EXPECT_GT(next, version);
}

TEST_P(BackupTest, ADamagedOneIsRejectedWhole) {
  Put(0, 3000);
  BackUp();
  const std::vector<std::string> files = SharedFiles();
  ASSERT_THAT(files, testing::Not(IsEmpty()));
  for (const std::string& file : files) {
    const std::string bytes = ReadFile(file);
    for (const std::size_t place : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(damaged[place] ^ 1);
      WriteFile(file, damaged);
      EXPECT_EQ(VerifyBackup(backups_, 1).status().code(), absl::StatusCode::kDataLoss);
      const auto restored = RestoreBackup(backups_, 0, temp_ / "restored", kNow);
      EXPECT_EQ(restored.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(restored.status().message()), HasSubstr("backup 1"));
    }
    WriteFile(file, bytes.substr(1));
    EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "restored", kNow).status().code(),
              absl::StatusCode::kDataLoss);
    WriteFile(file, bytes);
  }
  EXPECT_THAT(FilesIn(temp_.path()), SizeIs(2)) << "only the store and its backups are left";
  EXPECT_TRUE(VerifyBackup(backups_, 0).ok());
}

TEST_P(BackupTest, ADamagedNewestOneIsNotPassedOver) {
  Put(0, 10);
  BackUp();
  Put(10, 20);
  const std::vector<std::string> before = SharedFiles();
  BackUp();
  for (const std::string& file : SharedFiles()) {
    if (std::find(before.begin(), before.end(), file) == before.end()) std::filesystem::remove(file);
  }
  const auto newest = RestoreBackup(backups_, 0, temp_ / "restored", kNow);
  EXPECT_EQ(newest.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(newest.status().message()), HasSubstr("backup 2"));
  EXPECT_EQ(ContentsOf(*Restored(1)).size(), 10u) << "the one before is good";
}

// The note of a backup describes the store that made it, which may be of a newer release.
TEST_P(BackupTest, TheNoteOfABackupIsRead) {
  Put(0, 10);
  BackUp();
  const std::string file = backups_ + "/meta/1", text = ReadFile(file);
  const std::size_t begin = text.find("metadata ") + 9, end = text.find('\n', begin);
  const std::string note = FromHex(text.substr(begin, end - begin));
  ASSERT_THAT(note, testing::StartsWith("remora-data "));
  const auto outcome = [&](const std::string& changed) {
    WriteFile(file, text.substr(0, begin) + absl::BytesToHexString(changed) + text.substr(end));
    const absl::Status verified = VerifyBackup(backups_, 0).status();
    EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "restored", kNow).status(), verified);
    EXPECT_EQ(std::filesystem::exists(temp_ / "restored"), verified.ok());
    return verified;
  };
  for (const char* none :
       {"", "other-data 1 1", "remora-data", "remora-data x 1", "remora-data 1", "remora-data 1 x"}) {
    EXPECT_EQ(outcome(none).code(), absl::StatusCode::kDataLoss) << none;
  }
  const absl::Status newer = outcome("remora-data 99 1");
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("format 99; this program knows format"));
  EXPECT_TRUE(outcome(note).ok());
}

TEST_P(BackupTest, RestoreTouchesNothingThatIsThere) {
  Put(0, 10);
  BackUp();
  EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "store", kNow).status().code(),
            absl::StatusCode::kFailedPrecondition);
  WriteFile(temp_ / "file", "bytes");
  EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "file", kNow).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(temp_ / "file"), "bytes");
  EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "missing/store", kNow).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(RestoreBackup(backups_, 9, temp_ / "restored", kNow).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(RestoreBackup(temp_ / "missing", 0, temp_ / "restored", kNow).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(temp_ / "restored"));
  std::filesystem::create_directory(temp_ / "empty");
  EXPECT_TRUE(RestoreBackup(backups_, 0, temp_ / "empty/", kNow).ok()) << "an empty directory will do";
  struct stat status;
  ASSERT_EQ(stat((temp_ / "empty").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_EQ(ContentsOf(*store_).size(), 10u);
}

TEST_P(BackupTest, AMountPointIsRestoredTo) {
  Put(0, 10);
  BackUp();
  const std::string volume = temp_ / "volume";
  if (!MountAt(volume, "size=64m")) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  const Contents before = ContentsOf(*store_);
  const absl::StatusOr<BackupInfo> restored = RestoreBackup(backups_, 0, volume, kNow);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(FilesIn(volume), testing::Each(testing::Not(HasSubstr("restore"))));
  EXPECT_THAT(FilesIn(volume), testing::Contains(HasSubstr("lost+found")));
  store_.reset();
  auto store = ServerStore::Open(OptionsIn(volume));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(ContentsOf(**store), before);
  store->reset();
  EXPECT_EQ(RestoreBackup(backups_, 0, volume, kNow).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(BackupTest, AMountPointHasSpaceForAStoreAndForBackups) {
  const std::string volume = temp_ / "volume";
  if (!MountAt(volume, "size=64m")) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  {
    const auto store = ServerStore::Open(OptionsIn(volume));
    EXPECT_TRUE(store.ok()) << store.status();
  }
  ASSERT_EQ(umount2(volume.c_str(), MNT_DETACH), 0);
  ASSERT_TRUE(MountAt(volume, "size=64m"));
  Put(0, 10);
  EXPECT_TRUE(store_->Backup(volume).ok());
}

TEST_P(BackupTest, AMountPointThatCannotTakeItIsLeftEmpty) {
  Put(0, 1000, 10'000);
  BackUp();
  const std::string volume = temp_ / "volume";
  if (!MountAt(volume, "size=32k")) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  EXPECT_EQ(RestoreBackup(backups_, 0, volume, kNow).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(FilesIn(volume), testing::ElementsAre(HasSubstr("lost+found")));
  ASSERT_EQ(umount2(volume.c_str(), MNT_DETACH), 0);
  ASSERT_TRUE(MountAt(volume, "size=64m", MS_RDONLY));
  const absl::Status read_only = RestoreBackup(backups_, 0, volume, kNow).status();
  EXPECT_EQ(read_only.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(read_only.message()), HasSubstr("cannot make")) << "before anything was copied";
}

TEST_P(BackupTest, ALinkIsFollowedToAnEmptyDirectory) {
  Put(0, 10);
  BackUp();
  std::filesystem::create_directory(temp_ / "empty");
  std::filesystem::create_symlink("empty", temp_ / "link");
  std::filesystem::create_symlink("nothing", temp_ / "dangling");
  EXPECT_EQ(RestoreBackup(backups_, 0, temp_ / "dangling", kNow).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RestoreBackup(backups_, 0, temp_ / "link", kNow).ok());
  EXPECT_TRUE(ServerStore::Open(OptionsIn(temp_ / "empty")).ok());
}

TEST_P(BackupTest, OtherDirectoriesAreNotTouched) {
  std::filesystem::create_directory(temp_ / "precious");
  WriteFile(temp_ / "precious/file", "bytes");
  EXPECT_EQ(store_->Backup(temp_ / "precious").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesIn(temp_ / "precious"), std::vector<std::string>{temp_ / "precious/file"});
  EXPECT_EQ(store_->Backup(temp_ / "store").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Backup(temp_ / "missing/backups").status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directory(temp_ / "newer");
  WriteFile(temp_ / "newer/REMORA-BACKUPS", "remora-backups 2\n");
  const absl::Status newer = store_->Backup(temp_ / "newer").status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("format 2; this program knows format 1"));
  EXPECT_EQ(ListBackups(temp_ / "precious").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(BackupTest, OneAtATimeInADirectory) {
  Put(0, 10);
  BackUp();
  {
    const auto other = DataDir::Open(backups_, kBackupDir);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(store_->Backup(backups_).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(ListBackups(backups_).status().code(), absl::StatusCode::kAlreadyExists);
  }
  const auto reader = DataDir::OpenToRead(backups_, kBackupDir);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(VerifyBackup(backups_, 0).ok()) << "readers do not hinder each other";
  EXPECT_EQ(store_->Backup(backups_).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_P(BackupTest, OneThatIsStoppedIsNone) {
  Put(0, 100);
  BackUp();
  Put(100, 20'000, 1000);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(store_->Backup(backups_, 1, source.get_token()).status().code(), absl::StatusCode::kCancelled);
  const auto listed = ListBackups(backups_);
  ASSERT_TRUE(listed.ok());
  EXPECT_THAT(*listed, SizeIs(1)) << "nor did it make the one before go";
  EXPECT_EQ(ContentsOf(*Restored()).size(), 100u);
  BackUp();
  EXPECT_EQ(ContentsOf(*Restored()).size(), 20'000u);
}

TEST_P(BackupTest, AStoreInMemoryHasNone) {
  auto store = ServerStore::Open({.memory_size = std::size_t{16} << 20});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->Backup(backups_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(backups_));
}

TEST_P(BackupTest, AFullDiskCostsTheEarlierOnesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount a small disk";
  const std::string disk = temp_ / "disk";
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk: " << std::strerror(errno);
  }
  disk_ = disk;
  Put(0, 1000, 1000);
  EXPECT_TRUE(store_->Backup(disk).ok());
  // Values that do not compress.
  std::uint64_t random = 1;
  for (int i = 0; i < 12'000; ++i) {
    std::string value(1000, '\0');
    for (char& byte : value)
      byte = static_cast<char>((random = random * 6364136223846793005 + 1442695040888963407) >> 56);
    ASSERT_TRUE(store_->Put(absl::StrCat("more", i), value).ok());
  }
  const absl::Status full = store_->Backup(disk, 1).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("pace"));
  EXPECT_TRUE(VerifyBackup(disk, 0).ok());
  EXPECT_TRUE(RestoreBackup(disk, 0, temp_ / "restored", kNow).ok());
  std::ofstream ballast(disk + "/ballast", std::ios::binary);
  while (ballast.write(std::string(4096, 'b').data(), 4096).flush()) {
  }
  ballast.close();
  EXPECT_EQ(RestoreBackup(disk, 0, disk + "/restored", kNow).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(FilesIn(disk), testing::Each(testing::Not(HasSubstr("restore"))));
  EXPECT_TRUE(store_->Put("after", "value").ok()) << "the store itself has a disk of its own";
}

TEST(NewDirectoryTest, AFasterOneKeepsThePlace) {
  const TempDir temp;
  const std::filesystem::path path = temp / "target";
  const absl::Status filled = FillNewDirectory(path, "last", [&](const std::string& made) {
    std::ofstream(made + "/last") << "slower";
    std::filesystem::create_directory(path);
    std::ofstream(path / "last") << "faster";
    return absl::OkStatus();
  });
  EXPECT_EQ(filled.code(), absl::StatusCode::kFailedPrecondition) << filled;
  EXPECT_THAT(FilesIn(temp.path()), SizeIs(1)) << "only that of the faster one is left";
}

}  // namespace
}  // namespace remora
