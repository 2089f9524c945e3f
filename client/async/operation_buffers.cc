#include "client/async/operation_buffers.h"

#include <algorithm>
#include <utility>

#include "client/get/lookup.h"
#include "store/base/check.h"

namespace remora {
namespace {

// Each operation has space for a bucket, and for the size of most records.
constexpr std::size_t kBucketBytes = sizeof(Bucket);
constexpr std::size_t kRecordBytes = 4608;
constexpr std::size_t kStride = kBucketBytes + kRecordBytes;
static_assert(kStride % alignof(Bucket) == 0 && kRecordBytes >= Lookup::kMaxSharedBytes);
// Number of buffers for larger records. One READ may be in flight to each, and one to the session's own.
constexpr std::size_t kLargeBuffers = 3;
constexpr std::size_t kLargeBytes = (kMaxSmallExtent + 127) / 128 * 128;

}  // namespace

std::span<std::byte> OperationBuffers::Allocate(std::size_t depth) {
  depth_ = depth;
  const std::size_t large = std::min(depth - 1, kLargeBuffers);
  const std::size_t size = depth * kStride + large * kLargeBytes;
  memory_.resize(size + alignof(Bucket));
  void* start = memory_.data();
  std::size_t space = memory_.size();
  REMORA_CHECK(std::align(alignof(Bucket), size, start, space) != nullptr);
  for (std::uint32_t i = 0; i <= large; ++i) free_large_.push_back(i);
  return {static_cast<std::byte*>(start), size};
}

absl::Status OperationBuffers::Register(Session& session, std::unique_ptr<RegisteredBuffer> buffer) {
  session_ = &session;
  buffer_ = std::move(buffer);
  return session.endpoint().Add(buffer_.get());
}

std::span<std::byte> OperationBuffers::bucket(std::size_t operation) const {
  return buffer_->bytes().subspan(operation * kStride, kBucketBytes);
}

std::span<std::byte> OperationBuffers::record(std::size_t operation) const {
  return buffer_->bytes().subspan(operation * kStride + kBucketBytes, kRecordBytes);
}

std::span<std::byte> OperationBuffers::large(std::uint32_t number) const {
  const std::size_t offset = depth_ * kStride + number * kLargeBytes;
  if (offset == buffer_->bytes().size()) return session_->buffers().record();
  return buffer_->bytes().subspan(offset, kLargeBytes);
}

std::uint32_t OperationBuffers::TakeLarge() {
  if (free_large_.empty()) return kNone;
  const std::uint32_t number = free_large_.back();
  free_large_.pop_back();
  return number;
}

rdma::Sge OperationBuffers::SgeOf(std::span<std::byte> bytes) const {
  const std::span<std::byte> own = buffer_->bytes();
  if (bytes.data() < own.data() || bytes.data() >= own.data() + own.size()) {
    return session_->buffers().SgeOf(bytes);
  }
  return {bytes.data(), static_cast<std::uint32_t>(bytes.size()), Endpoint::SgeOf(*buffer_).local_key};
}

}  // namespace remora
