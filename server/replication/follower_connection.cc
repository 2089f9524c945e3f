#include "server/replication/follower_connection.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/auth/hmac.h"
#include "server/connection/client_session.h"
#include "store/base/status_macros.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

// A slot is an equal share of a staging buffer, in whole words.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kReplyStride = (kMaxReplySize + kAlignment - 1) / kAlignment * kAlignment;
constexpr std::size_t kRequestStride = kAlignment;
static_assert(sizeof(Request) <= kRequestStride);
static_assert(kCopyPart <= kMaxPayloadSize / kCredits / kAlignment * kAlignment);  // of SlotSize

/// Returns why the follower has rejected the connection, with the challenge's nonce if it has one.
absl::Status Rejection(std::span<const std::byte> data, bool has_token, std::optional<HelloNonce>* nonce) {
  HelloRejection rejection;
  if (!FromBytes(data, &rejection) || rejection.magic == 0) {
    return absl::UnavailableError("the server there rejected the connection: it is ending, or has no space");
  }
  if (rejection.magic != kHelloMagic) {
    return absl::FailedPreconditionError("follow: the process there is no kvserver; check the address");
  }
  if (rejection.reason == RejectionReason::kChallenge) {
    *nonce = rejection.nonce;
    return absl::PermissionDeniedError(
        has_token ? "the follower does not accept this primary's token; see --replication_token_file"
                  : "the follower requires a token; name the file of one with --replication_token_file");
  }
  const std::size_t size = ::strnlen(rejection.text, sizeof(rejection.text));
  const absl::string_view text(rejection.text, size);
  // A server that is full, or ends, may have space later.
  if (rejection.reason == RejectionReason::kFull || rejection.reason == RejectionReason::kStopping) {
    return absl::UnavailableError(absl::StrCat("the follower rejected the primary: ", text));
  }
  return absl::FailedPreconditionError(absl::StrCat("the follower rejected the primary: ", text));
}

absl::Status AnotherShard(const ShardIdentity& expected, const ShardIdentity& found) {
  return absl::FailedPreconditionError(
      absl::StrCat("follow: the server there is ",
                   found.is_none() ? std::string("of no shard") : "shard " + IdentityText(found),
                   ", and this one is of shard ", IdentityText(expected),
                   "; correct the address of that member (kvctl cluster members), or its --shard"));
}

}  // namespace

// --- The handshake --------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<FollowerConnection>> FollowerConnection::Connect(const FollowerAddress& to,
                                                                                const Clock& clock,
                                                                                TimePoint deadline) {
  const rdma::ClientTls tls =
      to.address.tls ? rdma::ClientTls{.files = to.tls, .secret = to.secret} : rdma::ClientTls{};
  HelloRequest hello;
  hello.flags |= HelloFlag::kIsAdmin;
  if (!to.shard.is_none()) hello.flags |= HelloFlag::kAsksShard;
  std::optional<HelloNonce> nonce;
  if (!to.secret.empty()) {
    hello.flags |= HelloFlag::kHasToken;
    rdma::FillRandom(std::as_writable_bytes(std::span(&hello.challenge, 1)));
    REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<rdma::ClientConnection> asks,
                            rdma::Dial(to.address, rdma::QueueLimits{}, clock, deadline, tls));
    const absl::Status asked = asks->Connect(AsBytes(hello), deadline);
    if (asked.ok()) {
      return absl::PermissionDeniedError(
          "follow: the follower has no tokens, so it cannot prove that it is the right one; start it with "
          "--tokens, or leave out --replication_token_file");
    }
    if (!absl::IsFailedPrecondition(asked)) return asked;
    const absl::Status rejection = Rejection(asks->peer_data(), /*has_token=*/true, &nonce);
    if (!nonce) return rejection;
    hello.flags |= HelloFlag::kProves;
    const rdma::Mac mac = rdma::HmacSha256(to.secret, ClientProofParts(*nonce, hello));
    std::copy_n(mac.begin(), hello.proof.size(), hello.proof.begin());
  }
  std::unique_ptr<FollowerConnection> connection(new FollowerConnection);
  REMORA_ASSIGN_OR_RETURN(connection->connection_,
                          rdma::Dial(to.address, rdma::QueueLimits{}, clock, deadline, tls));
  REMORA_RETURN_IF_ERROR(connection->Join(hello, to, deadline));
  return connection;
}

absl::Status FollowerConnection::Join(const HelloRequest& hello, const FollowerAddress& to,
                                      TimePoint deadline) {
  const std::string& secret = to.secret;
  REMORA_RETURN_IF_ERROR(Prepare());
  const absl::Status connected = connection_->Connect(AsBytes(hello), deadline);
  if (absl::IsFailedPrecondition(connected)) {
    std::optional<HelloNonce> nonce;
    return Rejection(connection_->peer_data(), !secret.empty(), &nonce);
  }
  REMORA_RETURN_IF_ERROR(connected);
  HelloReply reply;
  if (!FromBytes(connection_->peer_data(), &reply) || reply.magic != kHelloMagic || reply.credits < slots_) {
    return absl::FailedPreconditionError(
        "follow: the process there is no kvserver of this release; check the address");
  }
  if (!secret.empty() &&
      !rdma::AreSameBytes(rdma::HmacSha256(secret, ServerProofParts(hello, reply)), reply.proof)) {
    return absl::PermissionDeniedError(
        "follow: the follower cannot prove that it has this primary's token, so it may be an impostor; check "
        "the address, and its --tokens");
  }
  if (!IsExpected(to.shard, reply.shard)) return AnotherShard(to.shard, reply.shard);
  if ((reply.flags & ReplyFlag::kReadOnly) != 0 || reply.staging.size < slots_ * slot_size_) {
    return absl::PermissionDeniedError(
        "follow: the token of this primary is for reading alone; it needs one with the role replication");
  }
  staging_ = reply.staging;
  return absl::OkStatus();
}

absl::Status FollowerConnection::Prepare() {
  slots_ = kCredits;
  slot_size_ = kMaxPayloadSize / slots_ / kAlignment * kAlignment;
  is_sending_.assign(slots_, false);
  bytes_.resize(slots_ * kReplyStride + slots_ * (kRequestStride + slot_size_));
  REMORA_ASSIGN_OR_RETURN(messages_, connection_->RegisterMessages(bytes_));
  for (std::size_t i = 0; i < slots_; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  return absl::OkStatus();
}

FollowerConnection::~FollowerConnection() {
  if (connection_ != nullptr) connection_->Disconnect();
}

// --- Messages -------------------------------------------------------------------------------------------

std::size_t FollowerConnection::SlotOffset(std::size_t slot) const {
  return slots_ * kReplyStride + slot * (kRequestStride + slot_size_);
}

absl::Status FollowerConnection::PostReceive(std::size_t index) {
  return connection_->PostRecv(index, rdma::MakeSge(*messages_, index * kReplyStride, kMaxReplySize));
}

absl::Status FollowerConnection::Send(std::size_t slot, const Request& request, std::string_view payload) {
  // The answer to the message before may overtake the completion of its SEND, which then comes soon.
  while (is_sending_[slot]) REMORA_RETURN_IF_ERROR(TakeCompletions());
  const std::size_t at = SlotOffset(slot);
  std::memcpy(bytes_.data() + at, &request, sizeof(request));
  if (!payload.empty()) {
    std::memcpy(bytes_.data() + at + kRequestStride, payload.data(), payload.size());
    const rdma::Sge from = rdma::MakeSge(*messages_, at + kRequestStride, payload.size());
    REMORA_RETURN_IF_ERROR(connection_->PostWritev({&from, 1}, staging_, request.payload_offset));
  }
  REMORA_RETURN_IF_ERROR(connection_->PostSend(slot, rdma::MakeSge(*messages_, at, sizeof(request))));
  is_sending_[slot] = true;
  return absl::OkStatus();
}

absl::Status FollowerConnection::TakeCompletions() {
  std::array<rdma::Completion, 32> completions;
  const std::size_t count = connection_->Poll(completions);
  for (const rdma::Completion& completion : std::span(completions).first(count)) {
    if (!completion.ok) continue;  // the status has the cause
    if (completion.kind == rdma::CompletionKind::kSend) is_sending_[completion.context] = false;
    if (completion.kind != rdma::CompletionKind::kReceive) continue;
    const std::span<const std::byte> message =
        std::span<const std::byte>(bytes_).subspan(completion.context * kReplyStride, completion.byte_count);
    Answer& answer = answers_.emplace_back();
    if (!FromBytes(message, &answer.reply)) {
      return absl::FailedPreconditionError(
          "follow: the follower sent a message that is no reply; use one release");
    }
    const auto behind = message.subspan(sizeof(Reply));
    answer.text.assign(reinterpret_cast<const char*>(behind.data()),
                       std::min<std::size_t>(behind.size(), answer.reply.behind_size));
    REMORA_RETURN_IF_ERROR(PostReceive(completion.context));
  }
  return connection_->status();
}

absl::StatusOr<std::optional<FollowerConnection::Answer>> FollowerConnection::Poll() {
  if (answers_.empty()) REMORA_RETURN_IF_ERROR(TakeCompletions());
  if (answers_.empty()) return std::nullopt;
  std::optional<Answer> answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

void FollowerConnection::Sleep(int other_fd, int timeout_ms) {
  connection_->Arm();
  // Events before the arming are not signalled.
  const bool is_quiet = TakeCompletions().ok() && answers_.empty();
  if (is_quiet) {
    std::array<pollfd, 2> fds{pollfd{connection_->wait_fd(), POLLIN, 0}, pollfd{other_fd, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), timeout_ms);
  }
  connection_->Disarm();
}

}  // namespace remora
