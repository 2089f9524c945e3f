// The library under the files of a program, and the power cut: this test runs under it (see CMakeLists.txt).
#include "cut.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "disk.h"

namespace remora {
namespace {

namespace fs = std::filesystem;

/// The folders that CMakeLists.txt names.
class CutTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(getenv("REMORA_DISK"), nullptr) << "not under the library";
    root_ = getenv("REMORA_DISK");
    journal_ = getenv("REMORA_DISK_JOURNAL");
    Clear();
  }
  void TearDown() override { SetFault(Fault::kSyncErrno, 0); }

  void Clear() {
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
    std::ofstream(journal_, std::ios::trunc);
  }
  static void SetFault(Fault fault, int value) {
    const int file = open(getenv("REMORA_DISK_FAULTS"), O_WRONLY | O_CLOEXEC);
    const char byte = static_cast<char>(value);
    ASSERT_EQ(pwrite(file, &byte, 1, static_cast<off_t>(fault)), 1);
    close(file);
  }
  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  /// Adds to a file; synced or not.
  int Append(const std::string& name, const std::string& bytes, bool sync) {
    const int file = open(Path(name).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    const int result = sync ? fsync(file) : 0;
    close(file);
    return result;
  }
  void SyncFolder() const {
    const int folder = open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT_EQ(fsync(folder), 0);
    close(folder);
  }
  std::string Bytes(const std::string& name) const {
    std::ifstream file(Path(name));
    if (!file) return "(none)";
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Cut() {
    const absl::StatusOr<CutReport> report = CutPower(journal_, random_);
    ASSERT_TRUE(report.ok()) << report.status();
  }
  /// All that may be left of a file, as often as that takes.
  template <typename Prepare>
  std::set<std::string> Outcomes(const Prepare& prepare, const std::string& name) {
    std::set<std::string> outcomes;
    for (int i = 0; i < 200; ++i) {
      Clear();
      prepare();
      Cut();
      outcomes.insert(Bytes(name));
    }
    return outcomes;
  }

  std::string root_;
  std::string journal_;
  std::mt19937_64 random_{1};
};

TEST_F(CutTest, SyncedBytesSurviveACut) {
  Append("file", "synced", true);
  SyncFolder();
  Cut();
  EXPECT_EQ(Bytes("file"), "synced");
}

TEST_F(CutTest, OfWhatIsNotSyncedAnyPartMayBeLostOrZero) {
  const std::set<std::string> outcomes = Outcomes(
      [&] {
        Append("file", "AB", true);
        SyncFolder();
        Append("file", "CD", false);
      },
      "file");
  const std::string zero(1, '\0');
  EXPECT_EQ(outcomes, (std::set<std::string>{"AB", "ABC", "ABCD", "AB" + zero, "AB" + zero + zero}));
}

TEST_F(CutTest, AFileWhoseFolderIsNotSyncedMayBeGone) {
  EXPECT_EQ(Outcomes([&] { Append("file", "AB", true); }, "file"), (std::set<std::string>{"AB", "(none)"}));
}

TEST_F(CutTest, ARemovedFileMayComeBack) {
  const auto prepare = [&] {
    Append("file", "AB", true);
    SyncFolder();
    ASSERT_EQ(unlink(Path("file").c_str()), 0);
  };
  EXPECT_EQ(Outcomes(prepare, "file"), (std::set<std::string>{"AB", "(none)"}));
}

TEST_F(CutTest, ARenamedFileMayHaveItsOldName) {
  const auto prepare = [&] {
    Append("old", "old", true);
    Append("new", "new", true);
    SyncFolder();
    ASSERT_EQ(rename(Path("new").c_str(), Path("old").c_str()), 0);
  };
  EXPECT_EQ(Outcomes(prepare, "old"), (std::set<std::string>{"old", "new"}));
  EXPECT_EQ(Outcomes(prepare, "new"), (std::set<std::string>{"new", "(none)"}));
}

TEST_F(CutTest, AFileThatGoesToAnotherFolderIsInOneOfThem) {
  const auto prepare = [&] {
    ASSERT_EQ(mkdir(Path("folder").c_str(), 0700), 0);
    Append("file", "AB", true);
    SyncFolder();
    ASSERT_EQ(rename(Path("file").c_str(), Path("folder/file").c_str()), 0);
  };
  std::set<std::string> outcomes;
  for (int i = 0; i < 50; ++i) {
    Clear();
    prepare();
    Cut();
    outcomes.insert(Bytes("file") + ", " + Bytes("folder/file"));
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"AB, (none)", "(none), AB"}));
}

TEST_F(CutTest, AFileThatIsMadeAnewMayBeTheOldOne) {
  const auto prepare = [&] {
    Append("file", "old", true);
    SyncFolder();
    close(open(Path("file").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    Append("file", "new", true);
  };
  EXPECT_EQ(Outcomes(prepare, "file"), (std::set<std::string>{"old", "new", "(none)"}));
}

TEST_F(CutTest, AFolderMayBeGoneWithAllThatIsInIt) {
  const auto prepare = [&] {
    ASSERT_EQ(mkdir(Path("folder").c_str(), 0700), 0);
    Append("folder/file", "AB", true);
    const int folder = open(Path("folder").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT_EQ(fsync(folder), 0);
    close(folder);
  };
  EXPECT_EQ(Outcomes(prepare, "folder/file"), (std::set<std::string>{"AB", "(none)"}));
}

TEST_F(CutTest, ASecondCutTakesNothingMore) {
  Append("file", "AB", false);
  Cut();
  const std::string left = Bytes("file");
  Cut();
  EXPECT_EQ(Bytes("file"), left);
}

TEST_F(CutTest, APageThatIsWrittenInPlaceMayBeAsItWasSynced) {
  const std::string page(4096, 'a');
  const auto prepare = [&] {
    Append("file", page + page, true);
    SyncFolder();
    const int file = open(Path("file").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(pwrite(file, "B", 1, 0), 1);
    EXPECT_EQ(fdatasync(file), 0);
    EXPECT_EQ(pwrite(file, "C", 1, 0), 1);
    EXPECT_EQ(pwrite(file, "C", 1, 4096), 1);
    close(file);
  };
  const auto pages = [&](char first, char second) {
    std::string both = page + page;
    both[0] = first;
    both[4096] = second;
    return both;
  };
  EXPECT_EQ(Outcomes(prepare, "file"),
            (std::set<std::string>{pages('B', 'a'), pages('C', 'a'), pages('B', 'C'), pages('C', 'C')}));
}

TEST_F(CutTest, SoMayOneThatIsWrittenThroughAMapping) {
  const auto prepare = [&] {
    Append("old", "AB", true);
    SyncFolder();
    const int file = open(Path("old").c_str(), O_RDWR | O_CLOEXEC);
    void* const data = mmap(nullptr, 2, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(data, MAP_FAILED);
    static_cast<char*>(data)[0] = 'C';
    EXPECT_EQ(fdatasync(file), 0);
    ASSERT_EQ(rename(Path("old").c_str(), Path("file").c_str()), 0);
    SyncFolder();
    static_cast<char*>(data)[1] = 'D';
    munmap(data, 2);
    close(file);
  };
  EXPECT_EQ(Outcomes(prepare, "file"), (std::set<std::string>{"CB", "CD"}));
}

TEST_F(CutTest, AFileThatIsShortenedIsRejected) {
  Append("file", "AB", true);
  const int file = open(Path("file").c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(ftruncate(file, 1), 0);
  close(file);
  EXPECT_EQ(CutPower(journal_, random_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CutTest, AFaultComesAndGoes) {
  SetFault(Fault::kSyncErrno, EIO);
  EXPECT_EQ(Append("file", "AB", true), -1);
  EXPECT_EQ(errno, EIO);
  SetFault(Fault::kSyncErrno, 0);
  EXPECT_EQ(Append("file", "CD", true), 0);
  SyncFolder();
  Cut();
  EXPECT_EQ(Bytes("file"), "ABCD");
}

}  // namespace
}  // namespace remora
