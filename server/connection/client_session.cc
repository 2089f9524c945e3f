#include "server/connection/client_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

constexpr std::size_t kMaxRepliesInFlightOffset = 0;
constexpr std::size_t kLongRepliesOffset = kMaxRepliesInFlightOffset + kMaxRepliesInFlight * kMaxReplySize;
constexpr std::size_t kRequestsOffset = kLongRepliesOffset + kLongReplyBytes;

// Whole pages, as every transport gives them.
std::size_t StagingSize() { return rdma::SharedMemory::RoundUp(kMaxPayloadSize); }

// A client that only reads WRITEs to no staging buffer; its payloads come with the requests.
constexpr std::size_t kInlineRequestSize = sizeof(Request) + kMaxInlinePayload;
static_assert(kInlineRequestSize <= rdma::kMaxMessageSize);

constexpr std::size_t MessagesSize(bool read_only) {
  return kRequestsOffset + kCredits * (read_only ? kInlineRequestSize : sizeof(Request));
}
static_assert(MessagesSize(true) <= MessagesSize(false) + kMaxPayloadSize);

}  // namespace

SessionBytes ClientSession::MaxRegisteredBytes() {
  const std::size_t writer = StagingSize() + MessagesSize(false);
  return {.largest = writer, .all_kinds = writer + MessagesSize(true)};
}

std::size_t ClientSession::registered_bytes() const {
  return messages_->bytes().size() + (read_only_ ? 0 : staging_.size());
}

absl::StatusOr<std::unique_ptr<ClientSession>> ClientSession::Accept(
    std::unique_ptr<rdma::ServerConnection>& connection, HelloReply reply,
    const std::function<void(HelloReply*)>& seal) {
  const bool read_only = (reply.flags & ReplyFlag::kReadOnly) != 0;
  std::unique_ptr<ClientSession> session(new ClientSession(std::move(connection), read_only));
  absl::Status prepared = session->Prepare();
  if (!prepared.ok()) {
    session->shared_staging_.reset();
    session->messages_.reset();
    connection = std::move(session->connection_);  // for the caller to reject
    return prepared;
  }
  reply.credits = kCredits;
  if (!read_only) reply.staging = session->shared_staging_->remote();
  seal(&reply);
  REMORA_RETURN_IF_ERROR(session->connection_->Accept(AsBytes(reply)));
  return session;
}

ClientSession::~ClientSession() {
  if (connection_ != nullptr) connection_->Disconnect();
}

absl::Status ClientSession::Prepare() {
  if (read_only_) {
    own_staging_.resize(kMaxPayloadSize);
    staging_ = own_staging_;
  } else {
    REMORA_ASSIGN_OR_RETURN(shared_staging_, connection_->ProvideWrite("remora-staging", StagingSize()));
    staging_ = shared_staging_->bytes();
  }
  REMORA_ASSIGN_OR_RETURN(messages_, connection_->ProvideMessages(MessagesSize(read_only_)));
  for (std::uint64_t i = 0; i < kCredits; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  return absl::OkStatus();
}

absl::Status ClientSession::PostReceive(std::uint64_t index) {
  return connection_->PostRecv(index, ReceiveBuffer(index));
}

rdma::Sge ClientSession::ReceiveBuffer(std::uint64_t index) const {
  const std::size_t size = read_only_ ? kInlineRequestSize : sizeof(Request);
  return rdma::MakeSge(*messages_, kRequestsOffset + index * size, size);
}

absl::Status ClientSession::TakeRequest(const rdma::Completion& completion, Request* request) {
  const rdma::Sge buffer = ReceiveBuffer(completion.context);
  const std::span<const std::byte> message(buffer.data, completion.byte_count);
  // No more can have come than the buffer takes: from a client with a staging buffer, a Request and
  // no byte more.
  if (!FromBytes(message, request)) {
    return absl::InvalidArgumentError(absl::StrCat("protocol error: a message of ", completion.byte_count,
                                                   " bytes, where requests have ", sizeof(Request)));
  }
  const std::span<const std::byte> payload = message.subspan(sizeof(Request));
  if (!payload.empty() && payload.size() <= staging_.size() &&
      request->payload_offset <= staging_.size() - payload.size()) {
    std::ranges::copy(payload, staging_.subspan(request->payload_offset).begin());
  }
  if (unanswered_ == kCredits) {
    return absl::ResourceExhaustedError("protocol error: the client sends more than its credits allow");
  }
  ++unanswered_;
  // Before the reply, with which the client may send again.
  return PostReceive(completion.context);
}

ClientSession::Payload ClientSession::DecodePayload(const Request& request) const {
  const std::uint64_t size = std::uint64_t{request.key_size} + request.value_size;
  if (request.key_size < kMinKeySize || request.key_size > kMaxKeySize ||
      request.value_size > kMaxSmallValueSize || size > staging_.size() ||
      request.payload_offset > staging_.size() - size) {
    return {};
  }
  const char* const key = reinterpret_cast<const char*>(staging_.data()) + request.payload_offset;
  return {{key, request.key_size}, {key + request.key_size, request.value_size}};
}

std::size_t ClientSession::TakeReads(const Request& request, Reads* reads) const {
  const std::uint64_t before = std::uint64_t{request.key_size} + request.value_size;
  const std::size_t count = std::min<std::size_t>(request.read_count, kMaxReads);
  const std::uint64_t size = before + count * sizeof(std::uint64_t);
  if (size > staging_.size() || request.payload_offset > staging_.size() - size) return 0;
  std::memcpy(reads->data(), staging_.data() + request.payload_offset + before,
              count * sizeof(std::uint64_t));
  return count;
}

std::span<const std::byte> ClientSession::DecodePart(const Request& request) const {
  if (request.key_size != 0 || request.payload_offset > staging_.size() ||
      request.value_size > staging_.size() - request.payload_offset) {
    return {};
  }
  return staging_.subspan(request.payload_offset, request.value_size);
}

absl::Status ClientSession::SendReply(Reply& reply, std::string_view behind) {
  if (replies_in_flight_ == kMaxRepliesInFlight) {
    return absl::ResourceExhaustedError("protocol error: the client takes no replies");
  }
  const std::size_t offset = kMaxRepliesInFlightOffset + replies_sent_ % kMaxRepliesInFlight * kMaxReplySize;
  return Post(offset, reply, behind.substr(0, kMaxReplyBehind));
}

bool ClientSession::TakesLongReply(std::size_t size) const {
  return size <= kMaxValueBehind && replies_in_flight_ < kMaxRepliesInFlight &&
         long_replies_.Has(sizeof(Reply) + size) && connection_->TakesLong(sizeof(Reply) + size);
}

absl::Status ClientSession::SendLongReply(Reply& reply, std::string_view value) {
  const PieceRing::Piece piece = long_replies_.Take(sizeof(Reply) + value.size()).value();
  pieces_[replies_sent_ % kMaxRepliesInFlight] = piece.number;
  return Post(kLongRepliesOffset + piece.offset, reply, value);
}

void ClientSession::TakeSendCompletion() {
  std::optional<std::uint32_t>& piece = pieces_[replies_done() % kMaxRepliesInFlight];
  if (piece) long_replies_.Release(*std::exchange(piece, std::nullopt));
  --replies_in_flight_;
}

absl::Status ClientSession::Post(std::size_t offset, Reply& reply, std::string_view behind) {
  reply.behind_size = static_cast<std::uint16_t>(behind.size());
  std::byte* const message = messages_->bytes().data() + offset;
  std::memcpy(message, &reply, sizeof(reply));
  if (!behind.empty()) std::memcpy(message + sizeof(reply), behind.data(), behind.size());
  REMORA_RETURN_IF_ERROR(connection_->PostSend(
      replies_sent_, rdma::MakeSge(*messages_, offset, sizeof(reply) + reply.behind_size)));
  --unanswered_;
  ++replies_sent_;
  ++replies_in_flight_;
  return absl::OkStatus();
}

}  // namespace remora
