#include "rdma/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace remora::rdma {
namespace {

std::unique_ptr<SharedMemory> Make(std::size_t size, SharedMemory::Writers writers) {
  auto memory = SharedMemory::Create("remora-test-memory", size, writers);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? *std::move(memory) : nullptr;
}

TEST(SharedMemory, IsZeroFilledWholePages) {
  const auto memory = Make(5000, SharedMemory::Writers::kOwnerOnly);
  EXPECT_EQ(memory->bytes().size(), 8192u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) % 4096, 0u);
  EXPECT_TRUE(std::ranges::all_of(memory->bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(SharedMemory, AnotherMappingSeesTheOwnersBytes) {
  for (const auto writers : {SharedMemory::Writers::kOwnerOnly, SharedMemory::Writers::kPeers}) {
    const auto memory = Make(4096, writers);
    void* other = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory->fd(), 0);
    ASSERT_NE(other, MAP_FAILED);
    memory->bytes()[77] = std::byte{42};
    EXPECT_EQ(static_cast<const std::byte*>(other)[77], std::byte{42});
    munmap(other, 4096);
  }
}

/// Bytes of this process's shared memory that are in huge pages, by the kernel's count.
std::size_t MappedInLargePages() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::size_t kilobytes = 0;
  for (std::string word; rollup >> word;) {
    if (word == "ShmemPmdMapped:") rollup >> kilobytes;
  }
  return kilobytes << 10;
}

TEST(SharedMemory, LargePagesHoldWhatWasThere) {
  const std::size_t size = 2 * kHugePage;
  const auto memory = Make(size + 4096, SharedMemory::Writers::kOwnerOnly);
  std::byte* const bytes = memory->bytes().data();
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % kHugePage, 0u);
  void* const mapped = MapShared(memory->fd(), size, PROT_READ);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto* const other = static_cast<const std::byte*>(mapped);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped) % kHugePage, 0u);
  // Of the second nothing is there so far.
  for (std::size_t i = 0; i < kHugePage; ++i) bytes[i] = static_cast<std::byte>(i * 31 % 251);
  const std::size_t before = MappedInLargePages();
  const bool has_some = ProvideHugePage(bytes) && ProvideHugePage(bytes + kHugePage);
  for (std::size_t i = 0; i < kHugePage; ++i) {
    ASSERT_EQ(bytes[i], static_cast<std::byte>(i * 31 % 251)) << i;
    ASSERT_EQ(other[i], bytes[i]) << i;
  }
  EXPECT_TRUE(std::ranges::all_of(memory->bytes().subspan(kHugePage),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  bytes[kHugePage - 1] = std::byte{252};
  EXPECT_EQ(other[kHugePage - 1], std::byte{252});
  const std::size_t in_large = MappedInLargePages() - before;
  munmap(mapped, size);
  if (!has_some)
    GTEST_SKIP() << "the system has no large pages: before Linux 6.1, or memory is in small pieces";
  EXPECT_GE(in_large, size) << "neither of the two mappings";
}

TEST(SharedMemory, OwnersMemoryHasNoOtherWriter) {
  const auto memory = Make(4096, SharedMemory::Writers::kOwnerOnly);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd(), 0), MAP_FAILED);
  void* readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory->fd(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_EQ(mprotect(readable, 4096, PROT_READ | PROT_WRITE), -1);
  munmap(readable, 4096);
  EXPECT_EQ(pwrite(memory->fd(), "x", 1, 0), -1);
  EXPECT_EQ(fallocate(memory->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  // Nor by a descriptor opened anew.
  const int again = open(("/proc/self/fd/" + std::to_string(memory->fd())).c_str(), O_RDWR | O_CLOEXEC);
  if (again >= 0) {
    EXPECT_EQ(pwrite(again, "x", 1, 0), -1);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    close(again);
  }
  memory->bytes()[0] = std::byte{1};  // the owner's own mapping still is
}

TEST(SharedMemory, PeersMemoryHasOtherWriters) {
  const auto memory = Make(4096, SharedMemory::Writers::kPeers);
  void* other = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd(), 0);
  ASSERT_NE(other, MAP_FAILED);
  static_cast<std::byte*>(other)[5] = std::byte{9};
  EXPECT_EQ(memory->bytes()[5], std::byte{9});
  munmap(other, 4096);
}

TEST(SharedMemory, NobodyResizesOrUnseals) {
  for (const auto writers : {SharedMemory::Writers::kOwnerOnly, SharedMemory::Writers::kPeers}) {
    const auto memory = Make(8192, writers);
    EXPECT_EQ(ftruncate(memory->fd(), 4096), -1);
    EXPECT_EQ(ftruncate(memory->fd(), 16384), -1);
    EXPECT_EQ(fcntl(memory->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  }
}

TEST(SharedMemory, ImpossibleSizes) {
  constexpr auto kWriters = SharedMemory::Writers::kOwnerOnly;
  EXPECT_EQ(SharedMemory::Create("a", 0, kWriters).status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::size_t size : {~std::size_t{0}, std::size_t{1} << 62, std::size_t{1} << 55}) {
    EXPECT_EQ(SharedMemory::Create("a", size, kWriters).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

TEST(SharedMemory, GivesItsDescriptorBack) {
  auto memory = Make(4096, SharedMemory::Writers::kPeers);
  const int fd = memory->fd();
  memory.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace remora::rdma
