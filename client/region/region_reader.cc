#include "client/region/region_reader.h"

#include <cstring>

#include "store/base/status_macros.h"

namespace remora {
namespace {

// Context of the READs that is_idle covers.
constexpr std::uint64_t kReadContext = 1;

}  // namespace

absl::Status RegionReader::Post(std::span<const rdma::Sge> to, std::uint64_t offset) {
  REMORA_RETURN_IF_ERROR(Post(kReadContext, to, offset));
  ++in_flight_;
  return absl::OkStatus();
}

absl::Status RegionReader::PostFind(const rdma::Sge& bucket, const rdma::Sge& record, std::uint64_t offset,
                                    std::uint64_t key_hash, rdma::FoundRecord* found) {
  if (found == nullptr) found = &found_;
  REMORA_RETURN_IF_ERROR(PostFind(kReadContext, bucket, record, offset, key_hash, found));
  ++in_flight_;
  return absl::OkStatus();
}

absl::Status RegionReader::PostFence() {
  const rdma::Sge into = buffers_.SgeOf(buffers_.record().first(sizeof(std::uint64_t)));
  return Post(std::span(&into, 1), 0);
}

RegionReader::DirectoryRange RegionReader::DirectoryAround(const BucketRef& bucket) const {
  constexpr std::uint64_t kEntries = SessionBuffers::kDirectoryEntries;
  const std::uint64_t index = bucket.number / kBucketsPerSegment;
  const std::uint64_t count = SegmentCount(server_.shape().memory_size);
  if (index >= count) return {};
  // READs the entries around it too: the client will need those behind it next.
  const std::uint64_t first = index / kEntries * kEntries;
  const std::uint64_t entries = std::min(kEntries, count - first);
  return {first, DirectoryOffset() + first * sizeof(std::uint64_t), entries * sizeof(std::uint64_t)};
}

void RegionReader::TakeDirectory(const DirectoryRange& range, std::span<const std::byte> bytes) {
  const std::uint64_t entries = range.size / sizeof(std::uint64_t);
  if (bucket_offsets_.size() < range.first + entries) bucket_offsets_.resize(range.first + entries, 0);
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::uint64_t entry = 0;
    std::memcpy(&entry, bytes.data() + i * sizeof(entry), sizeof(entry));
    const bool whole = DirectoryEntryIsWhole(entry) &&
                       DirectoryEntrySegment(entry) < SegmentCount(server_.shape().memory_size);
    if (!whole) continue;
    bucket_offsets_[range.first + i] = MainBucketPlace(entry, 0) * sizeof(Bucket);
    const std::uint32_t segment = DirectoryEntrySegment(entry);
    if (bucket_segments_.size() <= segment) bucket_segments_.resize(segment + std::size_t{1}, kNoBuckets);
    bucket_segments_[segment] = static_cast<std::uint32_t>(range.first + i);
  }
}

}  // namespace remora
