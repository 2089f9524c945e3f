#include "bench/raw_path.h"

#include <chrono>
#include <cstring>
#include <span>

#include "store/base/status_macros.h"
#include "store/format/layout.h"
#include "store/format/lookup.h"
#include "store/format/record.h"

namespace remora::bench {
namespace {

// One buffer for what is READ, one for what is WRITTEN: of the second, bytes may be under way while the first
// is in use.
constexpr std::size_t kReadSize = ExtentUnits(RecordExtentCode(kMaxKeySize, kMaxValueSize)) * kUnitSize;
constexpr std::size_t kWriteOffset = (kReadSize + 63) / 64 * 64;

// No context of the client's: those are small.
constexpr std::uint64_t kContext = 0x7261775f70617468;

constexpr std::chrono::seconds kPatience(5);

}  // namespace

RawPath::RawPath(rdma::Connection& connection, const Clock& clock)
    : connection_(connection), clock_(clock), buffer_(kWriteOffset + kMaxPayloadSize) {}

absl::StatusOr<std::unique_ptr<RawPath>> RawPath::Create(rdma::Connection& connection, const Clock& clock) {
  std::unique_ptr<RawPath> path(new RawPath(connection, clock));
  if (!FromBytes(connection.peer_data(), &path->hello_) || path->hello_.magic != kHelloMagic) {
    return absl::FailedPreconditionError("the connection is not one to a Remora server");
  }
  REMORA_ASSIGN_OR_RETURN(path->registration_, connection.RegisterMessages(path->buffer_));
  REMORA_RETURN_IF_ERROR(path->Read(path->hello_.superblock, 0, sizeof(Superblock)));
  Superblock superblock;
  std::memcpy(&superblock, path->buffer_.data(), sizeof(superblock));
  path->bucket_count_ = superblock.bucket_count;
  return path;
}

absl::StatusOr<Place> RawPath::Find(std::string_view key) {
  const std::uint64_t key_hash = HashKey(key);
  std::uint64_t number = MainBucket(key_hash, bucket_count_);
  do {
    Place place{number * sizeof(Bucket), 0, 0};
    REMORA_RETURN_IF_ERROR(ReadBucket(place));
    Bucket bucket;
    std::memcpy(&bucket, buffer_.data(), sizeof(bucket));
    SlotSet matches = FindSlots(bucket, key_hash);
    if (!matches.empty()) {
      const Slot slot = DecodeSlot(bucket.slots[static_cast<std::size_t>(matches.Next())]);
      place.record_offset = slot.offset_bytes();
      place.record_size = static_cast<std::uint32_t>(slot.extent_bytes());
      return place;
    }
    number = ControlOverflow(bucket.control);
  } while (number != 0);
  return absl::NotFoundError("no slot has the key's fingerprint");
}

Place RawPath::MainBucketOf(std::string_view key) const {
  return {MainBucket(HashKey(key), bucket_count_) * sizeof(Bucket), 0, 0};
}

absl::Status RawPath::ReadBucket(const Place& place) {
  return Read(hello_.index, place.bucket_offset, sizeof(Bucket));
}

absl::Status RawPath::ReadRecord(const Place& place) {
  return Read(hello_.log, place.record_offset, place.record_size);
}

absl::Status RawPath::Write(std::string_view key, std::string_view value) {
  std::byte* const payload = buffer_.data() + kWriteOffset;
  std::memcpy(payload, key.data(), key.size());
  std::memcpy(payload + key.size(), value.data(), value.size());
  const rdma::Sge from = rdma::MakeSge(*registration_, kWriteOffset, key.size() + value.size());
  return connection_.PostWritev(std::span(&from, 1), hello_.slice, 0);
}

absl::Status RawPath::Read(const RemoteRegion& region, std::uint64_t offset, std::size_t size) {
  const rdma::Sge into = rdma::MakeSge(*registration_, 0, size);
  REMORA_RETURN_IF_ERROR(connection_.PostReadv(kContext, std::span(&into, 1), region, offset));
  rdma::Completion completion;
  // As the client does: the deadline is made only when the first look finds nothing.
  if (connection_.Poll(std::span(&completion, 1)) == 0) {
    REMORA_RETURN_IF_ERROR(
        rdma::PollUntil(connection_, std::span(&completion, 1), clock_.Now() + kPatience).status());
  }
  if (!completion.ok) return connection_.status();
  if (completion.context != kContext || completion.kind != rdma::CompletionKind::kRead) {
    return absl::InternalError("a completion of the client's own came between the raw READs");
  }
  return absl::OkStatus();
}

}  // namespace remora::bench
