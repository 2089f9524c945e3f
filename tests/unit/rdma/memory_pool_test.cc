#include "rdma/memory_pool.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

constexpr char kName[] = "remora-test-pool";
constexpr auto kPeers = SharedMemory::Writers::kPeers;
constexpr auto kOwnerOnly = SharedMemory::Writers::kOwnerOnly;

/// Memories of this name that the process has mapped.
int CountMapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("/memfd:" + name + " ") != std::string::npos;
  }
  return count;
}

/// Waits until the pool's thread has mapped and freed what it has to. On the way there, the count may be
/// right for a moment, so it has to be right at two looks in a row.
bool AwaitMapped(const std::string& name, int count) {
  int looks = 0;
  for (int i = 0; i < 60'000 && looks < 2; ++i) {
    looks = CountMapped(name) == count ? looks + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return looks == 2;
}

bool IsZero(const SharedMemory& memory) {
  return std::ranges::all_of(memory.bytes(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool MayBeMappedWritable(const SharedMemory& memory) {
  void* const mapped = mmap(nullptr, memory.bytes().size(), PROT_WRITE, MAP_SHARED, memory.fd(), 0);
  if (mapped == MAP_FAILED) return false;
  munmap(mapped, memory.bytes().size());
  return true;
}

TEST(SharedMemoryPool, GivesWhatWasAskedForWhetherItWasReadyOrNot) {
  SharedMemoryPool pool;
  ASSERT_THAT(pool.Start(), IsOk());
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {std::size_t{5000}, std::size_t{40'000}}) {
      for (const auto writers : {kPeers, kOwnerOnly}) {
        const auto memory = pool.Create(kName, size, writers);
        ASSERT_THAT(memory, IsOk());
        EXPECT_EQ((*memory)->bytes().size(), SharedMemory::RoundUp(size));
        EXPECT_EQ((*memory)->writers(), writers);
        EXPECT_EQ(MayBeMappedWritable(**memory), writers == kPeers);
        EXPECT_TRUE(IsZero(**memory));
        std::ranges::fill((*memory)->bytes(), std::byte{0xa5});  // and nobody gets this one again
      }
    }
    ASSERT_TRUE(AwaitMapped(kName, 4 * 4)) << CountMapped(kName);
  }
}

TEST(SharedMemoryPool, MakesSomeAheadOnceAskedAndTakesApartWhatComesBack) {
  {
    SharedMemoryPool pool;
    ASSERT_THAT(pool.Start(), IsOk());
    EXPECT_EQ(CountMapped(kName), 0);
    std::vector<std::unique_ptr<SharedMemory>> taken;
    for (int i = 0; i < 10; ++i) taken.push_back(*pool.Create(kName, 4096, kPeers));
    const int fd = taken.back()->fd();
    ASSERT_TRUE(AwaitMapped(kName, 10 + 4)) << CountMapped(kName);
    taken.clear();
    ASSERT_TRUE(AwaitMapped(kName, 4)) << CountMapped(kName);
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
    taken.push_back(*pool.Create(kName, 4096, kPeers));
    taken.clear();
  }
  EXPECT_EQ(CountMapped(kName), 0) << "of a pool that is gone";
}

TEST(SharedMemoryPool, SaysWhatTheSystemLacks) {
  SharedMemoryPool pool;
  ASSERT_THAT(pool.Start(), IsOk());
  EXPECT_THAT(pool.Create(kName, 0, kPeers), HasCode(absl::StatusCode::kInvalidArgument));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(pool.Create(kName, std::size_t{1} << 55, kPeers),
                HasCode(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(pool.Create(kName, 4096, kPeers), IsOk());
}

TEST(SharedMemoryPool, ServesManyThreads) {
  {
    SharedMemoryPool pool;
    ASSERT_THAT(pool.Start(), IsOk());
    std::array<std::thread, 4> threads;
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t] = std::thread([&pool, t] {
        for (int i = 0; i < 300; ++i) {
          const auto memory = pool.Create(kName, 4096 * (1 + t % 2), kPeers);
          ASSERT_THAT(memory, IsOk());
          ASSERT_TRUE(IsZero(**memory));
          (*memory)->bytes()[0] = std::byte{1};
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(CountMapped(kName), 0);
}

}  // namespace
}  // namespace remora::rdma
