#include "store/memory_plan.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "store/format/layout.h"
#include "store/value_log.h"

namespace remora {
namespace {

constexpr std::size_t kPageSize = 4096;
static_assert(kSuperblockSize % kPageSize == 0);

constexpr std::size_t kIndexShare = 8;     // 1/8 of the memory is main buckets, at most
constexpr std::size_t kOverflowShare = 8;  // for each 8 main buckets, one overflow bucket
constexpr std::uint64_t kMinOverflowCount = 8;

// A bucket's number must fit into a control word.
constexpr std::uint64_t kMaxBucketCount = std::uint64_t{1} << 31;

// Offsets in the log must fit into a slot.
static_assert(kMaxMemorySize / kUnitSize <= kMaxOffsetUnits);

// Of all main slots, those in use when the overflow buckets run out: with keys spread by their hashes,
// buckets of 15 and one overflow bucket for 8 of them, this comes at about 3/4.
constexpr std::uint64_t UsableSlots(std::uint64_t bucket_count) {
  return bucket_count * kSlotsPerBucket * 3 / 4;
}

}  // namespace

IndexShape PlanIndex(std::size_t memory_size) {
  IndexShape shape;
  shape.bucket_count =
      std::min(std::bit_floor(std::uint64_t{memory_size} / kIndexShare / sizeof(Bucket)), kMaxBucketCount);
  shape.overflow_count = std::max(shape.bucket_count / kOverflowShare, kMinOverflowCount);
  return shape;
}

absl::StatusOr<StoreLayout> PlanMemory(std::size_t memory_size) {
  if (memory_size < kMinMemorySize || memory_size > kMaxMemorySize) {
    return absl::InvalidArgumentError(absl::StrCat("a store's memory must be ", kMinMemorySize, " to ",
                                                   kMaxMemorySize, " bytes, not ", memory_size));
  }
  const IndexShape shape = PlanIndex(memory_size);
  const std::size_t index_bytes = (shape.bucket_count + shape.overflow_count) * sizeof(Bucket);
  StoreLayout layout;
  layout.superblock_size = kSuperblockSize;
  layout.index_size = (index_bytes + kPageSize - 1) / kPageSize * kPageSize;
  layout.log_size = (memory_size - layout.superblock_size - layout.index_size) / kPageSize * kPageSize;
  return layout;
}

std::size_t MemoryNeeded(std::uint64_t key_count, std::uint64_t record_bytes) {
  // A segment may end unused by as much as the largest record but one unit takes; on average far less.
  const std::uint64_t log_bytes = record_bytes + record_bytes / 64 + ValueLog::kSegmentSize;
  std::size_t size = kMinMemorySize;
  while (size <= kMaxMemorySize &&
         (PlanMemory(size)->log_size < log_bytes || UsableSlots(PlanIndex(size).bucket_count) < key_count)) {
    size += size / 16;
  }
  return size;
}

absl::StatusOr<std::unique_ptr<AnonymousMemory>> AnonymousMemory::Map(const StoreLayout& layout) {
  const std::size_t size = layout.superblock_size + layout.index_size + layout.log_size;
  // NORESERVE: the limit says what the store may grow to, not what it takes.
  void* address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", size, " bytes for the store")).message());
  }
  return std::unique_ptr<AnonymousMemory>(
      new AnonymousMemory(std::span(static_cast<std::byte*>(address), size), layout));
}

AnonymousMemory::AnonymousMemory(std::span<std::byte> all, const StoreLayout& layout)
    : all_(all),
      parts_{all.first(layout.superblock_size), all.subspan(layout.superblock_size, layout.index_size),
             all.last(layout.log_size)} {}

AnonymousMemory::~AnonymousMemory() { munmap(all_.data(), all_.size()); }

}  // namespace remora
