#include "server/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// A reply's buffer is ours again at its SEND's completion, which can trail the client's next request.
constexpr std::size_t kReplies = 2 * kCredits;

constexpr std::size_t kRequestsOffset = 0;
constexpr std::size_t kRepliesOffset = kRequestsOffset + kCredits * sizeof(Request);
constexpr std::size_t kMessagesSize = kRepliesOffset + kReplies * kMaxReplySize;

}  // namespace

std::size_t ServerSession::RegisteredBytes() {
  return rdma::SharedMemory::RoundUp(kMaxPayloadSize) + kMessagesSize;
}

absl::StatusOr<std::unique_ptr<ServerSession>> ServerSession::Accept(
    std::unique_ptr<rdma::Connection>& connection, const RemoteRegion& memory, std::uint64_t incarnation,
    std::int64_t server_ms, std::uint16_t flags) {
  std::unique_ptr<ServerSession> session(new ServerSession(std::move(connection)));
  absl::Status prepared = session->Prepare();
  if (!prepared.ok()) {
    session->slice_registration_.reset();
    session->messages_registration_.reset();
    connection = std::move(session->connection_);  // for the caller to refuse
    return prepared;
  }
  HelloReply reply;
  reply.credits = kCredits;
  reply.flags = flags;
  reply.incarnation = incarnation;
  reply.server_ms = server_ms;
  reply.memory = memory;
  reply.slice = session->slice_registration_->remote();
  REMORA_RETURN_IF_ERROR(session->connection_->Accept(AsBytes(reply)));
  return session;
}

absl::Status ServerSession::Prepare() {
  REMORA_ASSIGN_OR_RETURN(slice_, rdma::SharedMemory::Create("remora-slice", kMaxPayloadSize,
                                                             rdma::SharedMemory::Writers::kPeers));
  REMORA_ASSIGN_OR_RETURN(slice_registration_, connection_->RegisterWrite(*slice_));
  messages_.resize(kMessagesSize);
  REMORA_ASSIGN_OR_RETURN(messages_registration_, connection_->RegisterMessages(messages_));
  for (std::uint64_t i = 0; i < kCredits; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  return absl::OkStatus();
}

absl::Status ServerSession::PostReceive(std::uint64_t index) {
  return connection_->PostRecv(
      index,
      rdma::MakeSge(*messages_registration_, kRequestsOffset + index * sizeof(Request), sizeof(Request)));
}

absl::StatusOr<Request> ServerSession::TakeRequest(const rdma::Completion& completion) {
  const std::byte* const message = messages_.data() + kRequestsOffset + completion.context * sizeof(Request);
  Request request;
  if (completion.byte_count != sizeof(Request) ||
      !FromBytes(std::span(message, completion.byte_count), &request)) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", completion.byte_count,
                                                   " bytes, where requests have ", sizeof(Request)));
  }
  // Before the reply, with which the client may send again.
  REMORA_RETURN_IF_ERROR(PostReceive(completion.context));
  return request;
}

ServerSession::Payload ServerSession::PayloadOf(const Request& request) const {
  const std::span<std::byte> slice = slice_->bytes();
  const std::uint64_t size = std::uint64_t{request.key_size} + request.value_size;
  if (request.key_size < kMinKeySize || request.key_size > kMaxKeySize ||
      request.value_size > kMaxSmallValueSize || size > slice.size() ||
      request.payload_offset > slice.size() - size) {
    return {};
  }
  const char* const key = reinterpret_cast<const char*>(slice.data()) + request.payload_offset;
  return {{key, request.key_size}, {key + request.key_size, request.value_size}};
}

std::size_t ServerSession::TakeReads(const Request& request, Reads* reads) const {
  const std::span<const std::byte> slice = slice_->bytes();
  const std::uint64_t before = std::uint64_t{request.key_size} + request.value_size;
  const std::size_t count = std::min<std::size_t>(request.read_count, kMaxReads);
  const std::uint64_t size = before + count * sizeof(std::uint64_t);
  if (size > slice.size() || request.payload_offset > slice.size() - size) return 0;
  std::memcpy(reads->data(), slice.data() + request.payload_offset + before, count * sizeof(std::uint64_t));
  return count;
}

std::span<const std::byte> ServerSession::PartOf(const Request& request) const {
  const std::span<const std::byte> slice = slice_->bytes();
  if (request.key_size != 0 || request.payload_offset > slice.size() ||
      request.value_size > slice.size() - request.payload_offset) {
    return {};
  }
  return slice.subspan(request.payload_offset, request.value_size);
}

absl::Status ServerSession::SendReply(Reply reply, std::string_view behind) {
  if (replies_under_way_ == kReplies) {
    return absl::ResourceExhaustedError("the client sends more than its credits allow, or takes no replies");
  }
  reply.text_size = static_cast<std::uint8_t>(std::min(behind.size(), kMaxReplyText));
  const std::size_t offset = kRepliesOffset + replies_sent_ % kReplies * kMaxReplySize;
  std::memcpy(messages_.data() + offset, &reply, sizeof(reply));
  std::copy_n(behind.data(), reply.text_size,
              reinterpret_cast<char*>(messages_.data() + offset + sizeof(reply)));
  REMORA_RETURN_IF_ERROR(connection_->PostSend(
      replies_sent_, rdma::MakeSge(*messages_registration_, offset, sizeof(reply) + reply.text_size)));
  ++replies_sent_;
  ++replies_under_way_;
  return absl::OkStatus();
}

}  // namespace remora
