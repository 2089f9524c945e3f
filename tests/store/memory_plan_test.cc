#include "store/memory_plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "store/format/layout.h"

namespace remora {
namespace {

void CheckPlan(std::size_t memory_size) {
  const absl::StatusOr<StoreLayout> layout = PlanMemory(memory_size);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const IndexShape shape = PlanIndex(memory_size);
  ASSERT_LE(layout->superblock_size + layout->index_size + layout->log_size, memory_size);
  for (const std::size_t part : {layout->superblock_size, layout->index_size, layout->log_size}) {
    ASSERT_GT(part, 0u);
    ASSERT_EQ(part % 4096, 0u);
  }
  ASSERT_TRUE(std::has_single_bit(shape.bucket_count));
  ASSERT_GE(shape.overflow_count, 8u);
  ASSERT_LE((shape.bucket_count + shape.overflow_count) * sizeof(Bucket), layout->index_size);
  ASSERT_LE(shape.bucket_count + shape.overflow_count, std::uint64_t{1} << 32) << "a link has 32 bits";
  ASSERT_LE(layout->log_size / kUnitSize, kMaxOffsetUnits);
  ASSERT_GE(layout->log_size, memory_size / 5 * 4);
}

TEST(PlanMemoryTest, FitsAndIsAligned) {
  std::mt19937_64 random(1);
  for (std::size_t size = kMinMemorySize; size <= kMaxMemorySize; size *= 2) {
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, random() % size}) {
      ASSERT_NO_FATAL_FAILURE(CheckPlan(std::min(size + more, kMaxMemorySize))) << size << " + " << more;
    }
  }
}

TEST(PlanMemoryTest, RefusesSizesOutOfBounds) {
  for (const std::size_t size : {std::size_t{0}, kMinMemorySize - 1, kMaxMemorySize + 1}) {
    EXPECT_EQ(PlanMemory(size).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(MemoryNeededTest, GrowsWithWhatIsStored) {
  EXPECT_EQ(MemoryNeeded(1, 48), kMinMemorySize);
  const std::uint64_t gigabyte = std::uint64_t{1} << 30;
  EXPECT_GT(MemoryNeeded(1, gigabyte), gigabyte);
  EXPECT_LT(MemoryNeeded(1, gigabyte), gigabyte * 3 / 2);
  EXPECT_GT(MemoryNeeded(10'000'000, 48), 10'000'000u * 8);
  EXPECT_GT(MemoryNeeded(1, kMaxMemorySize), kMaxMemorySize) << "nothing would do";
}

TEST(AnonymousMemoryTest, IsZeroAlignedAndWritable) {
  const StoreLayout layout = *PlanMemory(kMinMemorySize);
  const auto memory = AnonymousMemory::Map(layout);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const StoreMemory& parts = (*memory)->parts();
  EXPECT_EQ(parts.superblock.size(), layout.superblock_size);
  EXPECT_EQ(parts.index.size(), layout.index_size);
  EXPECT_EQ(parts.log.size(), layout.log_size);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parts.index.data()) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parts.log.data()) % 4096, 0u);
  EXPECT_EQ(parts.log.front(), std::byte{0});
  parts.log.back() = std::byte{1};
}

}  // namespace
}  // namespace remora
