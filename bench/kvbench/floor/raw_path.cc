#include "bench/kvbench/floor/raw_path.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora::bench {
namespace {

// One buffer for what is READ, one for what is WRITTEN: of the second, bytes may be in flight while the first
// is in use.
constexpr std::size_t kReadSize = kMaxSmallExtent;
constexpr std::size_t kWriteOffset = (kReadSize + 63) / 64 * 64;

// Superblock and directory, as much of it as fits.
constexpr std::size_t kReadDirectory = std::size_t{64} << 10;
static_assert(kReadDirectory <= kReadSize);

// No context of the client's: those are small.
constexpr std::uint64_t kContext = 0x7261775f70617468;

constexpr std::chrono::seconds kPatience(5);

}  // namespace

RawPath::RawPath(rdma::ClientConnection& connection, const Clock& clock)
    : connection_(connection), clock_(clock), buffer_(kWriteOffset + kMaxPayloadSize) {}

absl::StatusOr<std::unique_ptr<RawPath>> RawPath::Create(rdma::ClientConnection& connection,
                                                         const Clock& clock) {
  std::unique_ptr<RawPath> path(new RawPath(connection, clock));
  if (!FromBytes(connection.peer_data(), &path->hello_) || path->hello_.magic != kHelloMagic) {
    return absl::FailedPreconditionError("floor: the connection is not one to a Remora server");
  }
  REMORA_ASSIGN_OR_RETURN(path->registration_, connection.RegisterMessages(path->buffer_));
  REMORA_RETURN_IF_ERROR(path->Read(0, kReadDirectory));
  Superblock superblock;
  std::memcpy(&superblock, path->buffer_.data(), sizeof(superblock));
  path->shape_ = ShapeOf(superblock);
  path->view_.level = static_cast<std::uint32_t>(superblock.level);
  const std::size_t entries =
      std::min<std::size_t>(SegmentCount(superblock.memory_size), (kReadDirectory - DirectoryOffset()) / 8);
  path->directory_.resize(entries);
  std::memcpy(path->directory_.data(), path->buffer_.data() + DirectoryOffset(), entries * 8);
  return path;
}

std::uint64_t RawPath::MainOffset(std::uint64_t number) const {
  const std::uint64_t entry = directory_[number / kBucketsPerSegment];
  REMORA_CHECK(DirectoryEntryIsWhole(entry));  // the index does not grow during a measurement
  return MainBucketPlace(entry, number) * sizeof(Bucket);
}

absl::StatusOr<Place> RawPath::Find(std::string_view key) {
  KeySearch search(key, HashKey(key), shape_, &view_);
  Place place;
  Bucket bucket;
  while (search.step() == KeySearch::Step::kReadBucket) {
    const BucketRef& ref = search.bucket();
    place.bucket_offset = ref.overflow ? ref.number * sizeof(Bucket) : MainOffset(ref.number);
    REMORA_RETURN_IF_ERROR(ReadBucket(place));
    std::memcpy(&bucket, buffer_.data(), sizeof(bucket));
    search.TakeBucket(bucket);
  }
  if (search.step() != KeySearch::Step::kReadRecord) {
    return absl::NotFoundError("floor: no slot has the key's fingerprint");
  }
  place.record_offset = search.slot().offset_bytes();
  place.record_size = static_cast<std::uint32_t>(search.slot().extent_bytes());
  return place;
}

Place RawPath::MainBucketOf(std::string_view key) const {
  return {MainOffset(view_.HomeOf(HashKey(key)).bucket), 0, 0};
}

absl::Status RawPath::ReadBucket(const Place& place) { return Read(place.bucket_offset, sizeof(Bucket)); }

absl::Status RawPath::ReadRecord(const Place& place) { return Read(place.record_offset, place.record_size); }

absl::Status RawPath::Write(std::string_view key, std::string_view value) {
  std::byte* const payload = buffer_.data() + kWriteOffset;
  std::memcpy(payload, key.data(), key.size());
  std::memcpy(payload + key.size(), value.data(), value.size());
  const rdma::Sge from = rdma::MakeSge(*registration_, kWriteOffset, key.size() + value.size());
  return connection_.PostWritev(std::span(&from, 1), hello_.staging, 0);
}

absl::Status RawPath::Read(std::uint64_t offset, std::size_t size) {
  const rdma::Sge into = rdma::MakeSge(*registration_, 0, size);
  REMORA_RETURN_IF_ERROR(connection_.PostReadv(kContext, std::span(&into, 1), hello_.memory, offset));
  return AwaitRead();
}

absl::Status RawPath::ReadRecords(std::span<const Place> places) {
  std::size_t at = 0;
  for (const Place& place : places) {
    const rdma::Sge into = rdma::MakeSge(*registration_, at, place.record_size);
    REMORA_RETURN_IF_ERROR(
        connection_.PostReadv(kContext, std::span(&into, 1), hello_.memory, place.record_offset));
    at += place.record_size;
  }
  for (std::size_t i = 0; i < places.size(); ++i) REMORA_RETURN_IF_ERROR(AwaitRead());
  return absl::OkStatus();
}

absl::Status RawPath::AwaitRead() {
  rdma::Completion completion;
  // As the client does: the deadline is made only when the first look finds nothing.
  if (connection_.Poll(std::span(&completion, 1)) == 0) {
    REMORA_RETURN_IF_ERROR(
        rdma::PollUntil(connection_, std::span(&completion, 1), clock_.Now() + kPatience, spinner_).status());
  }
  if (!completion.ok) return connection_.status();
  if (completion.context != kContext || completion.kind != rdma::CompletionKind::kRead) {
    return absl::InternalError("floor: a completion of the client's own came between the raw READs");
  }
  return absl::OkStatus();
}

}  // namespace remora::bench
