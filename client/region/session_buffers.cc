#include "client/region/session_buffers.h"

#include "store/base/status_macros.h"
#include "store/format/memory/leaf_block.h"

namespace remora {
namespace {

constexpr std::size_t RoundUp(std::size_t size) { return (size + 127) / 128 * 128; }
constexpr std::size_t kBucketOffset = RoundUp(kMaxSmallExtent);  // behind the record
constexpr std::size_t kSuperblockOffset = kBucketOffset + RoundUp(SessionBuffers::kMaxBatch * sizeof(Bucket));
constexpr std::size_t kDirectoryOffset = kSuperblockOffset + RoundUp(sizeof(Superblock));
constexpr std::size_t kDirectoryBytes = SessionBuffers::kDirectoryEntries * sizeof(std::uint64_t);
constexpr std::size_t kLeafOffset = kDirectoryOffset + RoundUp(kDirectoryBytes);
constexpr std::size_t kRequestOffset = kLeafOffset + SessionBuffers::kLeaves * kLeafBlockSize;
constexpr std::size_t kRequestStride = RoundUp(sizeof(Request));
constexpr std::size_t kRepliesOffset = kRequestOffset + SessionBuffers::kMaxInFlight * kRequestStride;
constexpr std::size_t kReplyStride = RoundUp(kMaxLongReplySize);
constexpr std::size_t kPayloadOffset = kRepliesOffset + SessionBuffers::kReplies * kReplyStride;
constexpr std::size_t kBufferSize = kPayloadOffset + RoundUp(kMaxPayloadSize);
constexpr std::size_t kAlignment = alignof(Bucket);
static_assert(sizeof(Request) + kMaxInlinePayload <= kMaxPayloadSize);
static_assert(sizeof(Request) + kMaxInlinePayload <= rdma::kMaxMessageSize);

}  // namespace

SessionBuffers::SessionBuffers() : memory_(kBufferSize + kAlignment) {}

absl::Status SessionBuffers::Register(rdma::ClientConnection& connection) {
  auto* const start = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory_.data()) + kAlignment - 1) / kAlignment * kAlignment);
  REMORA_ASSIGN_OR_RETURN(registration_, connection.RegisterMessages(std::span(start, kBufferSize)));
  return absl::OkStatus();
}

std::span<std::byte> SessionBuffers::bucket(std::size_t number) const {
  return registration_->bytes().subspan(kBucketOffset + number * sizeof(Bucket), sizeof(Bucket));
}

std::span<std::byte> SessionBuffers::superblock() const {
  return registration_->bytes().subspan(kSuperblockOffset, sizeof(Superblock));
}

std::span<std::byte> SessionBuffers::directory() const {
  return registration_->bytes().subspan(kDirectoryOffset, kDirectoryBytes);
}

std::span<std::byte> SessionBuffers::leaf(std::size_t number) const {
  return registration_->bytes().subspan(kLeafOffset + number * kLeafBlockSize, kLeafBlockSize);
}

std::span<std::byte> SessionBuffers::request(std::size_t number) const {
  return registration_->bytes().subspan(kRequestOffset + number * kRequestStride, sizeof(Request));
}

std::span<std::byte> SessionBuffers::reply(std::size_t number) const {
  return registration_->bytes().subspan(kRepliesOffset + number * kReplyStride, kMaxLongReplySize);
}

std::span<std::byte> SessionBuffers::payload() const {
  return registration_->bytes().subspan(kPayloadOffset, kMaxPayloadSize);
}

}  // namespace remora
