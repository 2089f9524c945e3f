#include "rdma/local/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "gtest/gtest.h"
#include "rdma/shared_memory.h"

namespace remora::rdma {
namespace {

constexpr std::size_t kMappedSize = 3 * 4096;

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

}  // namespace
}  // namespace remora::rdma
