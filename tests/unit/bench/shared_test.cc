#include "bench/kvbench/load/shared.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace remora::bench {
namespace {

TEST(InsertedRecords, CountWithoutGaps) {
  const auto inserted = std::make_unique<InsertedRecords>(10);
  EXPECT_EQ(inserted->end(), 10u);
  EXPECT_EQ(inserted->Take(), 10u);
  EXPECT_EQ(inserted->Take(), 11u);
  EXPECT_EQ(inserted->Take(), 12u);
  EXPECT_TRUE(inserted->Acknowledge(11));
  EXPECT_EQ(inserted->end(), 10u);
  EXPECT_TRUE(inserted->Acknowledge(10));
  EXPECT_EQ(inserted->end(), 12u);
  EXPECT_TRUE(inserted->Acknowledge(12));
  EXPECT_EQ(inserted->end(), 13u);
}

TEST(InsertedRecords, OneThatIsMissingHoldsUpThoseFarBehindIt) {
  constexpr std::uint64_t kWindow = InsertedRecords::kWindow;
  const auto inserted = std::make_unique<InsertedRecords>(5);
  for (std::uint64_t record = 6; record < 5 + kWindow; ++record) ASSERT_TRUE(inserted->Acknowledge(record));
  EXPECT_FALSE(inserted->Acknowledge(5 + kWindow));
  EXPECT_EQ(inserted->end(), 5u);
  EXPECT_TRUE(inserted->Acknowledge(5));
  EXPECT_EQ(inserted->end(), 5 + kWindow);
  EXPECT_TRUE(inserted->Acknowledge(5 + kWindow));
  EXPECT_EQ(inserted->end(), 6 + kWindow);
}

TEST(InsertedRecords, ManyThreadsMissNone) {
  constexpr std::uint64_t kEach = 100'000;
  const auto inserted = std::make_unique<InsertedRecords>(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&inserted] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        const std::uint64_t record = inserted->Take();
        while (!inserted->Acknowledge(record)) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inserted->end(), 1 + 4 * kEach);
}

TEST(Shared, IsOneMemoryForProcesses) {
  const auto shared = Shared::Make(3, 100);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ((*shared)->progress().size(), 3u);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    (*shared)->progress()[2].done = 7;
    (*shared)->stop() = true;
    (*shared)->inserted().Acknowledge((*shared)->inserted().Take());
    _exit(0);
  }
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ((*shared)->done(), 7u);
  EXPECT_TRUE((*shared)->stop());
  EXPECT_EQ((*shared)->inserted().end(), 101u);
}

}  // namespace
}  // namespace remora::bench
