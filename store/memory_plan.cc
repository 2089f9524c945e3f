#include "store/memory_plan.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "store/format/memory/layout.h"
#include "store/index/index.h"

namespace remora {
namespace {

// Offsets must fit into a slot, and the number of a bucket's place into a control word.
static_assert(kMaxMemorySize / kUnitSize <= kMaxOffsetUnits);
static_assert(kMaxMemorySize / sizeof(Bucket) < std::uint64_t{1} << kLinkBits);
// The cast: in some libraries std::bit_width returns an int.
static_assert(static_cast<std::size_t>(std::bit_width(kMaxMemorySize / sizeof(Bucket))) <= kMaxDepth);

}  // namespace

absl::StatusOr<std::size_t> RegionSize(std::size_t memory_size) {
  if (memory_size < kMinMemorySize || memory_size > kMaxMemorySize) {
    return absl::InvalidArgumentError(absl::StrCat("memory: a store's memory must be ", kMinMemorySize,
                                                   " to ", kMaxMemorySize, " bytes, not ", memory_size));
  }
  return memory_size / kSegmentSize * kSegmentSize;
}

std::uint64_t IndexBytesNeeded(std::uint64_t key_count) {
  // Twice the buckets that it has at its peak load.
  return key_count * sizeof(Bucket) * 2 / Index::kPeakLoad;
}

std::size_t MemoryNeeded(std::uint64_t key_count, std::uint64_t record_bytes) {
  // The ends of segments: a record that does not fit leaves the end of a segment unused, up to a quarter with
  // the largest small records. Large ones have holes between them. Eight segments more: for the heads of the
  // log, the reserve, and retired memory.
  const std::uint64_t mean = key_count == 0 ? 0 : record_bytes / key_count;
  std::uint64_t ends = record_bytes / 16;
  if (mean > kMaxSmallExtent) {
    ends = record_bytes / 8;
  } else if (mean > kSegmentSize / 16) {
    ends = record_bytes / 2;
  }
  return std::max<std::size_t>(kMinMemorySize,
                               IndexBytesNeeded(key_count) + record_bytes + ends + 8 * kSegmentSize);
}

absl::StatusOr<std::unique_ptr<AnonymousMemory>> AnonymousMemory::Map(std::size_t size) {
  // NORESERVE: the size is what the store may grow to, not what it takes now.
  void* address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", size, " bytes for the store")).message());
  }
  // A hint: if the system has huge pages on request, it provides and looks up fewer pages. A failure does
  // no harm.
  ::madvise(address, size, MADV_HUGEPAGE);
  return std::unique_ptr<AnonymousMemory>(
      new AnonymousMemory(std::span(static_cast<std::byte*>(address), size)));
}

AnonymousMemory::~AnonymousMemory() { munmap(bytes_.data(), bytes_.size()); }

}  // namespace remora
