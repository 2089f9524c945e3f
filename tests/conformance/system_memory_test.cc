#include "server/memory/system_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "store/server_store.h"
#include "tests/support/server_thread.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

class SystemMemoryTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  SystemMemory Read() { return ReadSystemMemory(root_.path()); }

  const TempDir root_;
};

constexpr char kMeminfo[] =
    "MemTotal:        1048576 kB\nMemFree:          100 kB\nMemAvailable:     524288 kB\nHugePages_Total:    "
    "   0\n"
    "Hugepagesize:       2048 kB\n";

TEST_F(SystemMemoryTest, MissingFilesAreNoLimit) {
  EXPECT_EQ(Read().most, UINT64_MAX);
  EXPECT_EQ(Read().available, UINT64_MAX);
  EXPECT_EQ(DefaultMemory(Read()), 256 * kMiB);
  EXPECT_TRUE(CheckMemory(kMaxMemorySize, Read()).ok());
}

TEST_F(SystemMemoryTest, TheMachineIsALimitAndSoIsAGroup) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/system.slice/remora.service\n");
  EXPECT_EQ(Read().most, 1024 * kMiB);
  EXPECT_EQ(Read().available, 512 * kMiB);
  EXPECT_TRUE(CheckMemory(1024 * kMiB, Read()).ok());
  EXPECT_EQ(
      CheckMemory(1024 * kMiB + 1, Read()).message(),
      "a memory of 1073741825 bytes is more than this machine has, 1073741824: give it less (--memory)");
  Write("sys/fs/cgroup/system.slice/remora.service/memory.max", "max\n");
  EXPECT_EQ(Read().most, 1024 * kMiB);
  Write("sys/fs/cgroup/system.slice/memory.max", "134217728\n");
  EXPECT_EQ(Read().most, 128 * kMiB);
  EXPECT_EQ(Read().whose, "this process's control group");
  EXPECT_EQ(DefaultMemory(Read()), 64 * kMiB);
  EXPECT_EQ(CheckMemory(256 * kMiB, Read()).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SystemMemoryTest, AChangeLogFitsBesideTheMemory) {
  const SystemMemory system{.most = 1024 * kMiB};
  EXPECT_TRUE(CheckChangeLog(0, 1024 * kMiB, system).ok());
  EXPECT_TRUE(CheckChangeLog(256 * kMiB, 768 * kMiB, system).ok());
  const absl::Status status = CheckChangeLog(256 * kMiB + 1, 768 * kMiB, system);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "a change log of 268435457 bytes beside a memory of 805306368 bytes is more than this machine has, "
      "1073741824: give it less (--change_log), or the memory (--memory)");
}

TEST_F(SystemMemoryTest, AvailableMemoryOfAGroupExcludesItsInactiveFiles) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/outer/inner\n");
  const std::string stat = "anon 1\ninactive_file 33554432\nactive_file 7\n";
  Write("sys/fs/cgroup/outer/inner/memory.max", "268435456\n");
  Write("sys/fs/cgroup/outer/inner/memory.current", "100663296\n");
  Write("sys/fs/cgroup/outer/inner/memory.stat", stat);
  EXPECT_EQ(Read().available, 192 * kMiB);
  EXPECT_EQ(Read().whose_available, "this process's control group");
  // The group above has less left, though its limit is higher.
  Write("sys/fs/cgroup/outer/memory.max", "536870912\n");
  Write("sys/fs/cgroup/outer/memory.current", "503316480\n");
  EXPECT_EQ(Read().available, 32 * kMiB);
  EXPECT_EQ(Read().most, 256 * kMiB);
  Write("sys/fs/cgroup/outer/memory.current", "603979776\n");
  EXPECT_EQ(Read().available, 0u) << "it is above its limit for the moment";
  // A group that has plenty is no bound.
  Write("sys/fs/cgroup/outer/memory.max", "max\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "8589934592\n");
  EXPECT_EQ(Read().available, 512 * kMiB);
  EXPECT_EQ(Read().whose_available, "this machine");
}

TEST_F(SystemMemoryTest, AvailableMemoryOfAGroupOfTheFirstVersionIsRead) {
  Write("proc/self/cgroup", "4:memory:/docker\n");
  Write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "268435456\n");
  Write("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "201326592\n");
  Write("sys/fs/cgroup/memory/docker/memory.stat", "inactive_file 1\ntotal_inactive_file 134217728\n");
  EXPECT_EQ(Read().available, 192 * kMiB);
}

TEST_F(SystemMemoryTest, ADefaultLeavesSpaceForTheRest) {
  for (std::uint64_t mib = 80; mib <= 4096; mib += 16) {
    const SystemMemory system{.most = mib * kMiB};
    EXPECT_LE(DefaultMemory(system) + BesideMemory(system, true), system.most) << mib;
    EXPECT_LE(DefaultMemory(system), 256 * kMiB);
    EXPECT_GE(DefaultMemory(system), 20 * kMiB);
  }
  EXPECT_EQ(WriteBufferFor({}), StoreOptions().write_buffer_bytes);
  EXPECT_EQ(DefaultMemory({.most = 160 * kMiB}), 80 * kMiB);
  EXPECT_EQ(BesideMemory({.most = 160 * kMiB}, false), 36 * kMiB);
}

TEST_F(SystemMemoryTest, AContainerSeesItsGroupAsTheRoot) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "67108864\n");
  EXPECT_EQ(Read().most, 64 * kMiB);
}

TEST_F(SystemMemoryTest, GroupsOfTheFirstVersion) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/1234\n1:cpu:/\nnonsense\n0::/\n");
  Write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().most, 1024 * kMiB);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n");
  EXPECT_EQ(Read().most, 32 * kMiB) << "in a container, the group's own is at the root";
}

}  // namespace
}  // namespace remora
