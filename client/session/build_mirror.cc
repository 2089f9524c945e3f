// The first READs of a mirror of the index (client/mirror/index_mirror.h), which a client makes when it
// connects. The order is that of M2 and M3: generations, then the retired segments and the count of changes,
// then the buckets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "client/session/session.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Buckets of a bulk READ.
constexpr std::uint64_t kBulk = 1024;
static_assert(kBulk * sizeof(Bucket) <= kMaxSmallExtent);
static_assert(kBucketsPerSegment % kBulk == 0 && kBulk % MirrorFrames::kBuckets == 0);

std::uint64_t BucketCountOf(const IndexView& view) { return (std::uint64_t{1} << view.level) + view.split; }

}  // namespace

absl::Status Session::BuildMirror() {
  if (mirror_ == nullptr) return absl::OkStatus();
  mirror_->Begin(server_.shape(), server_.grace());
  REMORA_RETURN_IF_ERROR(ReadGenerations());
  REMORA_RETURN_IF_ERROR(ReadRetired());
  const std::span<std::byte> count = buffers_.record().first(sizeof(std::uint64_t));
  REMORA_RETURN_IF_ERROR(ReadForMirror(count, ChangesOffset(server_.shape().memory_size)));
  std::uint64_t word = 0;
  std::memcpy(&word, count.data(), sizeof(word));
  mirror_->TakeFirstCount(word, cache_.generations().count());
  REMORA_RETURN_IF_ERROR(ReadBuckets());
  mirror_->EndBuild(Coarse());
  return absl::OkStatus();
}

absl::Status Session::ReadForMirror(std::span<std::byte> to, std::uint64_t offset) {
  calls_.deadline().Restart();
  REMORA_RETURN_IF_ERROR(calls_.Read(to, offset));
  ++counters().mirror_reads;
  counters().mirror_read_bytes += to.size();
  return absl::OkStatus();
}

absl::Status Session::ReadGenerations() {
  SegmentGenerations& generations = cache_.generations();
  const std::uint64_t segments = SegmentCount(server_.shape().memory_size);
  for (std::uint64_t segment = 0; segment < segments; segment += SegmentGenerations::kChunkSize) {
    const SegmentGenerations::Range range = generations.RangeOf(segment);
    const std::span<std::byte> bytes = buffers_.record().first(range.size);
    const TimePoint posted = Coarse();
    REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, range.offset));
    generations.Take(segment, bytes, posted, Coarse());
    ++counters().generation_reads;
  }
  return absl::OkStatus();
}

absl::Status Session::ReadRetired() {
  RetiredSegments& retired = mirror_->retired();
  for (std::size_t chunk = 0; chunk < retired.chunk_count(); ++chunk) {
    const std::span<std::byte> bytes = buffers_.record().first(retired.SizeOf(chunk));
    REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, retired.OffsetOf(chunk)));
    retired.Take(chunk, bytes, cache_.generations().count());
  }
  return absl::OkStatus();
}

/// READs main buckets until there are no more, or no frame is free. Overflow buckets are not READ: few keys
/// are in them, and GETs add those.
absl::Status Session::ReadBuckets() {
  for (std::uint64_t first = 0; first < BucketCountOf(server_.index()) && !mirror_->is_full();) {
    if (region_.KnownOffsetOf({false, first}) == 0) {
      const RegionReader::DirectoryRange range = region_.DirectoryAround({false, first});
      if (range.size == 0) return absl::OkStatus();  // the view is more than the server can have
      const std::span<std::byte> bytes = buffers_.directory().first(range.size);
      REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, range.offset));
      region_.TakeDirectory(range, bytes);
    }
    const std::uint64_t offset = region_.KnownOffsetOf({false, first});
    if (offset == 0) return absl::OkStatus();
    const std::uint64_t count = std::min(kBulk, BucketCountOf(server_.index()) - first);
    const std::span<std::byte> bytes = buffers_.record().first(count * sizeof(Bucket));
    REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, offset));
    const std::span<const Bucket> buckets(reinterpret_cast<const Bucket*>(bytes.data()), count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t depth = ControlDepth(buckets[i].control);
      if (depth <= kMaxDepth) server_.index().Saw(first + i, depth);
    }
    if (!mirror_->TakeBuckets(first, buckets, cache_.generations())) return absl::OkStatus();
    first += count;
  }
  return absl::OkStatus();
}

}  // namespace remora
