#include "store/durable/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "test_files.h"
#include "test_process.h"

namespace remora {
namespace {

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

TEST(DataDirTest, AMissingDirectoryIsMadeAndFreshUntilComplete) {
  TempDir temp;
  const std::string path = temp / "store";
  {
    auto dir = DataDir::Open(path);
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_TRUE((*dir)->fresh());
    struct stat status;
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
  }
  {
    auto dir = DataDir::Open(path);
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_TRUE((*dir)->fresh()) << "made, but not completed";
    ASSERT_TRUE((*dir)->MarkComplete().ok());
    EXPECT_FALSE((*dir)->fresh());
  }
  auto dir = DataDir::Open(path);
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_FALSE((*dir)->fresh());
  EXPECT_EQ(ReadFile(path + "/REMORA"), "remora-store 1\n");
}

TEST(DataDirTest, AnEmptyDirectoryWillDo) {
  TempDir temp;
  EXPECT_TRUE(DataDir::Open(temp.path()).ok());
}

TEST(DataDirTest, AMissingParentIsNotFound) {
  TempDir temp;
  const auto dir = DataDir::Open(temp / "missing/store");
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("missing/store"));
}

TEST(DataDirTest, OtherThingsAreNotTouched) {
  TempDir temp;
  WriteFile(temp / "precious", "bytes");
  EXPECT_EQ(DataDir::Open(temp.path()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesIn(temp.path()), std::vector<std::string>{temp / "precious"});
  EXPECT_EQ(ReadFile(temp / "precious"), "bytes");

  EXPECT_EQ(DataDir::Open(temp / "precious").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(DataDirTest, AnotherFormatIsRejected) {
  TempDir temp;
  WriteFile(temp / "REMORA", "remora-store 3\n");
  const auto dir = DataDir::Open(temp.path());
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("format 3"));
  EXPECT_EQ(ReadFile(temp / "REMORA"), "remora-store 3\n");
}

TEST(DataDirTest, AMarkerThatIsNotOursIsRejected) {
  for (const char* text : {"something\n", "remora-store\n", "remora-store x\n", "remora-store 1"}) {
    TempDir temp;
    WriteFile(temp / "REMORA", text);
    EXPECT_EQ(DataDir::Open(temp.path()).status().code(), absl::StatusCode::kFailedPrecondition) << text;
  }
}

TEST(DataDirTest, OpeningToReadCreatesNothing) {
  TempDir temp;
  const auto why_not = [&](const std::string& path, absl::StatusCode code) {
    const auto dir = DataDir::OpenToRead(path);
    EXPECT_EQ(dir.status().code(), code) << path;
    return std::string(dir.status().message());
  };
  why_not(temp / "missing", absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(temp / "missing"));
  EXPECT_THAT(why_not(temp.path(), absl::StatusCode::kFailedPrecondition), HasSubstr("has no file REMORA"));
  EXPECT_THAT(FilesIn(temp.path()), testing::IsEmpty());
  {
    auto begun = DataDir::Open(temp.path());
    ASSERT_TRUE(begun.ok());
    EXPECT_THAT(why_not(temp.path(), absl::StatusCode::kAlreadyExists), HasSubstr("in use"));
  }
  EXPECT_THAT(why_not(temp.path(), absl::StatusCode::kFailedPrecondition), HasSubstr("holds nothing yet"));
  ASSERT_TRUE((*DataDir::Open(temp.path()))->MarkComplete().ok());
  const auto one = DataDir::OpenToRead(temp.path()), other = DataDir::OpenToRead(temp.path());
  EXPECT_TRUE(one.ok() && other.ok()) << "who reads keeps no other reader out";
  EXPECT_EQ(DataDir::Open(temp.path()).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(DataDirTest, OnlyOneAtATimeInThisProcess) {
  TempDir temp;
  auto first = DataDir::Open(temp.path());
  ASSERT_TRUE(first.ok());
  const auto second = DataDir::Open(temp.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
  first->reset();
  EXPECT_TRUE(DataDir::Open(temp.path()).ok());
}

TEST(DataDirTest, OnlyOneAtATimeAcrossProcesses) {
  TempDir temp;
  TestProcess holder({"hold", temp.path()});
  std::uint64_t ready;
  ASSERT_TRUE(holder.Read(&ready));
  EXPECT_EQ(DataDir::Open(temp.path()).status().code(), absl::StatusCode::kAlreadyExists);
  holder.Kill();
  holder.Wait();
  EXPECT_TRUE(DataDir::Open(temp.path()).ok()) << "a lock outlived its process";
}

TEST(DataDirTest, AnotherUsersDirectoryIsDenied) {
  TempDir temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  if (geteuid() == 0) {
    { ASSERT_TRUE(DataDir::Open(temp / "store").ok()); }
    const int denied = static_cast<int>(absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(TestProcess({"open", temp / "store"}, kNobody).Wait(), denied) << "inside";
    EXPECT_EQ(TestProcess({"open", temp / "new"}, kNobody).Wait(), denied) << "making it";
  } else {
    ASSERT_EQ(mkdir((temp / "store").c_str(), 0), 0);
    EXPECT_EQ(DataDir::Open(temp / "store").status().code(), absl::StatusCode::kPermissionDenied);
  }
}

}  // namespace
}  // namespace remora
