// The first READs of a mirror of the index (client/mirror/index_mirror.h), which a client makes when it
// connects. The order is that of M2 and M3: generations, then the retired segments and the count of changes,
// then the buckets. Clients that connect to the same server at a time share the buckets among them. A client
// that connects later finds them READ.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
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

bool IsBehind(const IndexView& view, const IndexView& other) {
  return view.level < other.level || (view.level == other.level && view.split < other.split);
}

}  // namespace

absl::Status Session::BuildMirror() {
  if (mirror_ == nullptr) return absl::OkStatus();
  const std::uint64_t memory_size = server_.shape().memory_size;
  std::optional<RetiredSegments> retired;
  for (;;) {
    if (const IndexView seen = mirror_->view(); IsBehind(server_.index(), seen)) server_.index() = seen;
    REMORA_RETURN_IF_ERROR(ReadDirectories());
    const auto claimed = mirror_->Claim(kBulk, BucketCountOf(server_.index()));
    if (!claimed && !mirror_->LacksBasis()) return absl::OkStatus();
    absl::Status status = retired ? absl::OkStatus() : ReadMirrorBasis(&retired.emplace(memory_size));
    if (status.ok() && claimed) status = ReadBuckets(*claimed, *retired);
    if (!status.ok()) {
      if (claimed) mirror_->GiveBack(claimed->first);
      return status;
    }
  }
}

absl::Status Session::ReadForMirror(std::span<std::byte> to, std::uint64_t offset) {
  calls_.deadline().Restart();
  REMORA_RETURN_IF_ERROR(calls_.Read(to, offset));
  ++counters().mirror_reads;
  counters().mirror_read_bytes += to.size();
  return absl::OkStatus();
}

/// READs the directory as far as there are main buckets. The places of changes are known by it.
absl::Status Session::ReadDirectories() {
  for (std::uint64_t first = 0; first < BucketCountOf(server_.index()); first += kBucketsPerSegment) {
    if (region_.KnownOffsetOf({false, first}) != 0) continue;
    const RegionReader::DirectoryRange range = region_.DirectoryAround({false, first});
    if (range.size == 0) return absl::OkStatus();  // the view is more than the server can have
    const std::span<std::byte> bytes = buffers_.directory().first(range.size);
    REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, range.offset));
    region_.TakeDirectory(range, bytes);
    if (region_.KnownOffsetOf({false, first}) == 0) return absl::OkStatus();  // likewise
  }
  return absl::OkStatus();
}

/// READs what proves the slots of the buckets that come next (M2), and those of changes (M3).
absl::Status Session::ReadMirrorBasis(RetiredSegments* retired) {
  REMORA_RETURN_IF_ERROR(ReadGenerations());
  REMORA_RETURN_IF_ERROR(ReadRetired(retired));
  return mirror_->LacksBasis() ? ReadFirstCount(*retired) : absl::OkStatus();
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

absl::Status Session::ReadRetired(RetiredSegments* retired) {
  for (std::size_t chunk = 0; chunk < mirror_->retired_chunk_count(); ++chunk) {
    const IndexMirror::Range range = mirror_->RetiredRange(chunk);
    const std::span<std::byte> bytes = buffers_.record().first(range.size);
    const SegmentGenerations::Number refreshes = cache_.refreshes();
    REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, range.offset));
    retired->Take(chunk, bytes, refreshes);
  }
  return absl::OkStatus();
}

absl::Status Session::ReadFirstCount(const RetiredSegments& retired) {
  const std::span<std::byte> count = buffers_.record().first(sizeof(std::uint64_t));
  const SegmentGenerations::Number refreshes = cache_.refreshes();
  REMORA_RETURN_IF_ERROR(ReadForMirror(count, ChangesOffset(server_.shape().memory_size)));
  std::uint64_t word = 0;
  std::memcpy(&word, count.data(), sizeof(word));
  mirror_->TakeBasis(word, refreshes, retired, Coarse());
  return absl::OkStatus();
}

/// READs main buckets of one segment. Overflow buckets are not READ: few keys are in them, and GETs add
/// those.
absl::Status Session::ReadBuckets(const IndexMirror::Buckets& claimed, const RetiredSegments& retired) {
  const std::uint64_t offset = region_.KnownOffsetOf({false, claimed.first});
  if (offset == 0) return absl::OkStatus();  // the view is more than the server can have
  const std::span<std::byte> bytes = buffers_.record().first(claimed.count * sizeof(Bucket));
  REMORA_RETURN_IF_ERROR(ReadForMirror(bytes, offset));
  const auto* const buckets = reinterpret_cast<const Bucket*>(bytes.data());
  mirror_->TakeBuckets(claimed.first, std::span(buckets, claimed.count), retired);
  return absl::OkStatus();
}

}  // namespace remora
