#include "rdma/local/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"

namespace remora::rdma {
namespace {

constexpr std::size_t kMappedSize = 3 * 4096;
constexpr unsigned kChildMaySeconds = 60;

class MappingTest : public testing::Test {
 protected:
  MappingTest()
      : memory_(
            *SharedMemory::Create("remora-test-mapping", kMappedSize, SharedMemory::Writers::kOwnerOnly)) {
    std::ranges::fill(memory_->bytes(), std::byte{7});
  }

  LocalMapping Map() const { return *LocalMapping::Map(memory_->fd(), kMappedSize, false); }
  /// Returns whether all bytes can be read and have this value.
  static bool AllAre(std::span<const std::byte> bytes, std::byte value) {
    return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == value; });
  }
  /// Returns whether nothing of this process is mapped there.
  static bool IsFree(std::span<std::byte> bytes) {
    void* const taken =
        mmap(bytes.data(), bytes.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (taken == MAP_FAILED) return false;
    munmap(taken, bytes.size());
    return taken == bytes.data();
  }

  const std::unique_ptr<SharedMemory> memory_;
};

TEST_F(MappingTest, LeavesItsAddressesAtItsEnd) {
  std::span<std::byte> bytes;
  {
    const LocalMapping mapping = Map();
    bytes = mapping.bytes();
    EXPECT_TRUE(AllAre(bytes, std::byte{7}));
  }
  EXPECT_TRUE(IsFree(bytes));
}

TEST_F(MappingTest, KeptAddressesReadAsZerosFromTheEndOn) {
  for (const std::size_t kept : {std::size_t{0}, std::size_t{5000}, kMappedSize - 1}) {
    std::optional<LocalMapping> mapping = Map();
    const std::span<std::byte> bytes = mapping->bytes();
    LocalMapping::KeepAddresses(bytes.data() + kept);
    LocalMapping::KeepAddresses(bytes.data() + kept);
    LocalMapping moved = *std::move(mapping);
    mapping.reset();
    EXPECT_TRUE(AllAre(bytes, std::byte{7}));
    moved = LocalMapping();
    EXPECT_TRUE(AllAre(bytes, std::byte{0})) << "kept at " << kept;
    EXPECT_FALSE(IsFree(bytes));
    memory_->bytes()[0] = std::byte{7};
    EXPECT_TRUE(AllAre(bytes, std::byte{0})) << "it is the peer's no more";
    munmap(bytes.data(), bytes.size());
  }
}

TEST_F(MappingTest, OthersLeaveTheirAddresses) {
  const LocalMapping kept = Map();
  LocalMapping::KeepAddresses(kept.bytes().data());
  std::span<std::byte> bytes;
  {
    const LocalMapping other = Map();
    bytes = other.bytes();
  }
  EXPECT_TRUE(IsFree(bytes));
  EXPECT_TRUE(AllAre(kept.bytes(), std::byte{7}));
}

class SharedMappingTest : public MappingTest {
 protected:
  void SetUp() override {
    struct statx file;
    ASSERT_EQ(statx(memory_->fd(), "", AT_EMPTY_PATH, STATX_BTIME, &file), 0);
    if ((file.stx_mask & STATX_BTIME) == 0) GTEST_SKIP() << "this system does not tell when a memfd was made";
  }
  LocalMapping Share() const { return *LocalMapping::Share(memory_->fd(), kMappedSize); }
};

TEST_F(SharedMappingTest, IsOneForAllThatMapTheSame) {  // P1
  std::optional<LocalMapping> first = Share();
  const std::span<std::byte> bytes = first->bytes();
  std::ranges::fill(memory_->bytes(), std::byte{8});  // the file's owner changes it all the while
  std::optional<LocalMapping> second = Share();
  EXPECT_EQ(second->bytes().data(), bytes.data());
  first.reset();
  EXPECT_TRUE(AllAre(bytes, std::byte{8}));
  second.reset();
  EXPECT_TRUE(IsFree(bytes));
  EXPECT_TRUE(AllAre(Share().bytes(), std::byte{8}));
}

TEST_F(SharedMappingTest, IsReadOnlyAndApartFromOthers) {
  const LocalMapping shared = Share();
  const LocalMapping own = Map();
  EXPECT_NE(own.bytes().data(), shared.bytes().data());
  const LocalMapping part = *LocalMapping::Share(memory_->fd(), kMappedSize / 3);
  EXPECT_NE(part.bytes().data(), shared.bytes().data());
  EXPECT_EQ(part.bytes().size(), kMappedSize / 3);
  const auto other =
      *SharedMemory::Create("remora-test-other", kMappedSize, SharedMemory::Writers::kOwnerOnly);
  EXPECT_TRUE(AllAre(LocalMapping::Share(other->fd(), kMappedSize)->bytes(), std::byte{0}));
  EXPECT_DEATH(shared.bytes()[0] = std::byte{1}, "");
}

TEST_F(SharedMappingTest, SaysWhatIsWrongEachTime) {
  const LocalMapping shared = Share();
  EXPECT_TRUE(absl::IsInternal(LocalMapping::Share(memory_->fd(), kMappedSize + 1).status()));
  EXPECT_TRUE(absl::IsInternal(LocalMapping::Share(memory_->fd(), 0).status()));
  EXPECT_TRUE(absl::IsInternal(LocalMapping::Share(-1, kMappedSize).status()));
}

TEST_F(SharedMappingTest, MayBeMadeInAChildWhateverOtherThreadsDid) {
  std::atomic<bool> is_over = false;
  LocalMapping::KeepAddresses(Share().bytes().data());  // the end of a mapping asks for these from now on
  std::thread other([&] {
    while (!is_over) Share();
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kChildMaySeconds);
      const bool is_same = AllAre(Share().bytes(), std::byte{7});
      _exit(is_same ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  is_over = true;
  other.join();
}

}  // namespace
}  // namespace remora::rdma
