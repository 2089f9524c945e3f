// Verdicts of kvctl doctor on the data directory and its disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "doctor_checks.h"
#include "tools/kvctl/doctor/check.h"
#include "tools/kvctl/doctor/disk.h"

namespace remora::doctor {
namespace {

using testing::HasSubstr;

DiskFacts GoodDisk() {
  return {.data_dir = "",
          .directory = "/data",
          .failure = "",
          .type = "ext4",
          .maps_log = true,
          .free = 512 * kMebi,
          .rotational = false};
}

Check JudgedDisk(const std::optional<DiskFacts>& facts, const char* name, const Plan& plan = kLocal) {
  Checks checks;
  JudgeDisk(facts, plan, &checks);
  return Find(checks, name);
}

TEST(Doctor, Disk) {
  for (const char* const name : {"data_dir", "disk_free", "file_system", "disk"}) {
    EXPECT_EQ(JudgedDisk(GoodDisk(), name).verdict, Verdict::kOk) << name;
  }
  DiskFacts facts = GoodDisk();
  facts.free = 512 * kMebi - 1;
  EXPECT_EQ(JudgedDisk(facts, "disk_free").verdict, Verdict::kWarning);
  EXPECT_EQ(JudgedDisk(facts, "disk_free").limit, 512 * kMebi);
  facts.free = 256 * kMebi - 1;
  EXPECT_EQ(JudgedDisk(facts, "disk_free").verdict, Verdict::kProblem);
  EXPECT_EQ(JudgedDisk(facts, "disk_free").limit, 256 * kMebi);
  facts.free = 1024 * kMebi - 1;
  const Plan logged = {.memory = 256 * kMebi, .commit_log = 512 * kMebi};
  EXPECT_EQ(JudgedDisk(facts, "disk_free", logged).verdict, Verdict::kWarning);
  EXPECT_EQ(JudgedDisk(facts, "disk_free", logged).limit, 1024 * kMebi);
  EXPECT_EQ(JudgedDisk(facts, "disk_free").verdict, Verdict::kOk);
  facts.type = "btrfs";
  facts.maps_log = false;
  EXPECT_EQ(JudgedDisk(facts, "file_system").verdict, Verdict::kWarning);
  facts.type = "tmpfs";
  facts.maps_log = true;
  EXPECT_EQ(JudgedDisk(facts, "file_system").verdict, Verdict::kWarning);
  facts.rotational = true;
  EXPECT_EQ(JudgedDisk(facts, "disk").verdict, Verdict::kWarning);
  facts.rotational.reset();
  EXPECT_EQ(JudgedDisk(facts, "disk").verdict, Verdict::kOk);
  facts.may_write = false;
  EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kWarning);
  facts.is_read_only = true;
  EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kProblem);
  facts.is_directory = false;
  EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kProblem);
  facts.failure = "Permission denied";
  EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedDisk(std::nullopt, "data_dir").found, HasSubstr("does not answer"));
}

// kvserver makes the data directory, and none above it.
TEST(Doctor, ADataDirectoryThatIsToBeMade) {
  DiskFacts facts = GoodDisk();
  for (const char* const data_dir : {"/data", "/data/one", "/data/one/"}) {
    facts.data_dir = data_dir;
    EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kOk) << data_dir;
  }
  facts.data_dir = "/data/one/two";
  const Check check = JudgedDisk(facts, "data_dir");
  EXPECT_EQ(check.verdict, Verdict::kProblem);
  EXPECT_THAT(check.found, HasSubstr("of /data/one/two, only /data exists"));
  EXPECT_THAT(check.remedy, HasSubstr("install -d"));
  facts.may_write = false;  // it may be there, in a directory that this user may not enter
  EXPECT_EQ(JudgedDisk(facts, "data_dir").verdict, Verdict::kWarning);
}

TEST(Doctor, TheTypeOfAFileSystemIsThatOfItsDevice) {
  const std::string mounts =
      "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "22 21 0:20 / /dev/shm rw master:3 propagate_from:1 - tmpfs none rw\n"
      "no line\n"
      "23 21 254:1 / /srv rw - xfs /dev/vdb rw\n";
  EXPECT_EQ(FileSystemType(mounts, "254:0"), "ext4");
  EXPECT_EQ(FileSystemType(mounts, "0:20"), "tmpfs");
  EXPECT_EQ(FileSystemType(mounts, "254:1"), "xfs");
  EXPECT_EQ(FileSystemType(mounts, "254:2"), "");
  EXPECT_EQ(FileSystemType("", "254:2"), "");
}

}  // namespace
}  // namespace remora::doctor
