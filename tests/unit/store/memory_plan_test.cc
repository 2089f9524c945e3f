#include "store/memory_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "store/format/memory/layout.h"
#include "store_parts.h"

namespace remora {
namespace {

TEST(RegionSizeTest, IsWholeSegmentsAndNoMoreThanGiven) {
  std::mt19937_64 random(1);
  for (std::size_t size = kMinMemorySize; size <= kMaxMemorySize; size *= 2) {
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}, kSegmentSize - 1, random() % size}) {
      const std::size_t memory_size = std::min(size + more, kMaxMemorySize);
      const absl::StatusOr<std::size_t> region = RegionSize(memory_size);
      ASSERT_TRUE(region.ok()) << region.status();
      ASSERT_EQ(*region % kSegmentSize, 0u);
      ASSERT_LE(*region, memory_size);
      ASSERT_GT(*region + kSegmentSize, memory_size);
    }
  }
}

TEST(MemoryNeededTest, TheIndexIsPartOfIt) {
  const std::size_t without = MemoryNeeded(0, std::uint64_t{1} << 30);
  EXPECT_EQ(IndexBytesNeeded(0), 0u);
  EXPECT_EQ(MemoryNeeded(1'000'000, std::uint64_t{1} << 30) - without, IndexBytesNeeded(1'000'000));
  EXPECT_GT(IndexBytesNeeded(1'000'000), 10'000'000u);
  EXPECT_LT(IndexBytesNeeded(1'000'000), 40'000'000u);
}

TEST(RegionSizeTest, RejectsSizesOutOfBounds) {
  for (const std::size_t size : {std::size_t{0}, kMinMemorySize - 1, kMaxMemorySize + 1}) {
    EXPECT_EQ(RegionSize(size).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(MemoryNeededTest, GrowsWithWhatIsStored) {
  EXPECT_EQ(MemoryNeeded(1, 48), kMinMemorySize);
  const std::uint64_t gigabyte = std::uint64_t{1} << 30;
  EXPECT_GT(MemoryNeeded(1, gigabyte), gigabyte);
  EXPECT_LT(MemoryNeeded(1, gigabyte), gigabyte * 2);
  EXPECT_LT(MemoryNeeded(1'000'000, gigabyte), gigabyte * 5 / 4);
  EXPECT_GT(MemoryNeeded(10'000'000, 48), 10'000'000u * 8);
  EXPECT_GT(MemoryNeeded(1, kMaxMemorySize), kMaxMemorySize) << "nothing would do";
}

// Numbers of keys just below and just above the growth of
// the index, and records of which few fit into a segment.
TEST(MemoryNeededTest, IsEnough) {
  struct Load {
    std::uint64_t keys;
    std::size_t value_size;
  };
  for (const Load load :
       {Load{180'000, 0}, Load{220'000, 8}, Load{60, kMaxSmallValueSize}, Load{100, 200'000}}) {
    std::uint64_t record_bytes = 0;
    const std::string value(load.value_size, 'v');
    const auto key = [](std::uint64_t i) { return "key" + std::to_string(100'000'000 + i); };
    record_bytes = load.keys * ExtentUnits(RecordExtentCode(key(0).size(), value.size())) * kUnitSize;
    StoreParts parts(*RegionSize(MemoryNeeded(load.keys, record_bytes)) / kSegmentSize);
    for (std::uint64_t i = 0; i < load.keys; ++i) {
      ASSERT_TRUE(parts.Put(key(i), value)) << i << " of " << load.keys << " with " << load.value_size;
      parts.index.Grow(2, parts.now);
      parts.index.Tick(parts.now += kTestRest);
    }
  }
}

TEST(AnonymousMemoryTest, IsZeroAlignedAndWritable) {
  const auto memory = AnonymousMemory::Map(kMinMemorySize);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::span<std::byte> bytes = (*memory)->bytes();
  EXPECT_EQ(bytes.size(), kMinMemorySize);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096, 0u);
  EXPECT_EQ(bytes.front(), std::byte{0});
  bytes.back() = std::byte{1};
}

TEST(AnonymousMemoryTest, MoreThanTheAddressSpaceIsResourceExhausted) {
  const auto memory = AnonymousMemory::Map(std::size_t{1} << 60);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace remora
