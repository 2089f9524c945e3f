// The handshake of a connection: the hello, the proof of an auth token if there is one, the check of the
// server's answer, and its superblock.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/confirm.h"
#include "client/session/connector.h"
#include "client/session/fork_guard.h"
#include "client/session/session.h"
#include "rdma/auth/hmac.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Largest memory that slots can address. A client rejects a larger one, also because it keeps some bytes for
// each MiB.
constexpr std::uint64_t kMaxRegionSize = (kMaxOffsetUnits + 1) * kUnitSize;

absl::Status VersionMismatch(std::string_view what, std::uint64_t server, std::uint64_t client) {
  return absl::FailedPreconditionError(absl::StrCat("connect: the server's ", AbslView(what), " is ", server,
                                                    ", this client's is ", client,
                                                    "; use a client of the server's release"));
}

absl::Status NoServer() {
  return absl::FailedPreconditionError(
      "connect: the process that listens there is not a Remora server; check the address");
}

absl::Status Rejectionstatus(std::span<const std::byte> data, bool has_token) {
  HelloRejection rejection;
  const bool is_rejection = FromBytes(data, &rejection);
  // A server that ends, or whose device has no space for another connection, rejects without a reason.
  if (!is_rejection || rejection.magic == 0) {
    return absl::UnavailableError(
        "connect: the server rejected the connection: it is ending, or has no space; try again");
  }
  if (rejection.magic != kHelloMagic) return NoServer();
  if (rejection.reason == RejectionReason::kChallenge) {
    return absl::PermissionDeniedError(
        has_token ? "the server does not accept this client's auth token; ask its operator for a valid one"
                  : "the server requires an auth token, and this client has none; pass one "
                    "(ClientOptions::token, --token_file)");
  }
  const std::size_t size = ::strnlen(rejection.text, sizeof(rejection.text));
  const std::string why =
      absl::StrCat("connect: the server rejected this client: ", absl::string_view(rejection.text, size));
  // It may serve later, and another address of a list may serve now.
  if (rejection.reason == RejectionReason::kNotServing) return absl::UnavailableError(why);
  return absl::FailedPreconditionError(why);
}

absl::Status NotProven() {
  return absl::PermissionDeniedError(
      "connect: the server cannot prove that it has this client's auth token, so it may be an impostor; "
      "start it with that token (kvserver --tokens), or connect without one");
}

std::string ShardText(const ShardIdentity& shard) {
  const std::string name = absl::StrCat("shard ", AbslView(shard.name()));
  return shard.cluster == 0 ? name : absl::StrCat(name, " of cluster ", ClusterText(shard.cluster));
}

absl::Status AnotherShard(const ShardIdentity& expected, const ShardIdentity& found) {
  if (found.is_none()) {
    return absl::FailedPreconditionError(
        absl::StrCat("connect: the server there does not say which shard it is, and ", ShardText(expected),
                     " is expected; start it with --shard=", IdentityText(expected)));
  }
  return absl::FailedPreconditionError(absl::StrCat("connect: the server there is ", ShardText(found),
                                                    ", and ", ShardText(expected),
                                                    " is expected; correct the address in the topology"));
}

}  // namespace

absl::StatusOr<Connector::Greeting> Connector::Connect(std::unique_ptr<rdma::ClientConnection> connection,
                                                       TimePoint deadline, Bind bind) {
  HelloRequest hello;
  hello.client = identity_.id;
  hello.flags |= HelloFlag::kKnowsLease;
  if (identity_.returns) hello.flags |= HelloFlag::kReconnects;
  if (!options_.expected_shard.is_none()) hello.flags |= HelloFlag::kAsksShard;
  if (options_.admin_connection) hello.flags |= HelloFlag::kIsAdmin;
  if (secret_.empty()) return Join(std::move(connection), hello, deadline, bind);

  hello.flags |= HelloFlag::kHasToken;
  rdma::FillRandom(std::as_writable_bytes(std::span(&hello.challenge, 1)));
  REMORA_ASSIGN_OR_RETURN(HelloNonce nonce, AskForNonce(*connection, hello, deadline));
  if (!dials()) {
    return absl::FailedPreconditionError(
        "connect: to prove a token takes a second connection, and this client was given one: connect to an "
        "address, or with a Dialer");
  }
  hello.flags |= HelloFlag::kProves;
  for (;;) {
    const rdma::Mac mac = rdma::HmacSha256(secret_, ClientProofParts(nonce, hello));
    std::copy_n(mac.begin(), hello.proof.size(), hello.proof.begin());
    REMORA_ASSIGN_OR_RETURN(connection, dialer_(deadline));
    const rdma::ClientConnection& proving = *connection;
    absl::StatusOr<Greeting> joined = Join(std::move(connection), hello, deadline, bind);
    if (joined.ok() || rejection_ != RejectionReason::kChallenge) return joined;
    HelloRejection rejection;
    if (!FromBytes(proving.peer_data(), &rejection) || rejection.nonce == nonce || clock_.Now() >= deadline) {
      return joined;
    }
    nonce = rejection.nonce;  // the nonce was too old, or came from the previous server
  }
}

absl::StatusOr<HelloNonce> Connector::AskForNonce(rdma::ClientConnection& connection,
                                                  const HelloRequest& hello, TimePoint deadline) {
  const absl::Status connected = connection.Connect(AsBytes(hello), deadline);
  rejection_ = RejectionReason{};
  if (connected.ok()) return NotProven();
  if (connected.code() != absl::StatusCode::kFailedPrecondition) return connected;
  HelloRejection rejection;
  if (FromBytes(connection.peer_data(), &rejection)) rejection_ = rejection.reason;
  if (rejection.magic != kHelloMagic || rejection_ != RejectionReason::kChallenge) {
    return Rejectionstatus(connection.peer_data(), true);
  }
  return rejection.nonce;
}

absl::StatusOr<Connector::Greeting> Connector::Join(std::unique_ptr<rdma::ClientConnection> connection,
                                                    const HelloRequest& hello, TimePoint deadline,
                                                    Bind bind) {
  rdma::ClientConnection& joined = *connection;
  REMORA_RETURN_IF_ERROR(bind(std::move(connection)));
  return Greet(joined, hello, deadline);
}

absl::StatusOr<Connector::Greeting> Connector::Greet(rdma::ClientConnection& connection,
                                                     const HelloRequest& hello, TimePoint deadline) {
  const TimePoint sent = clock_.Now();
  const absl::Status connected = connection.Connect(AsBytes(hello), deadline);
  rejection_ = RejectionReason{};
  if (connected.code() == absl::StatusCode::kFailedPrecondition) {
    HelloRejection rejection;
    if (FromBytes(connection.peer_data(), &rejection)) rejection_ = rejection.reason;
    return Rejectionstatus(connection.peer_data(), !secret_.empty());
  }
  REMORA_RETURN_IF_ERROR(connected);
  HelloReply reply;
  if (!FromBytes(connection.peer_data(), &reply) || reply.magic != kHelloMagic || reply.credits == 0 ||
      (reply.staging.size < kMaxPayloadSize && (reply.flags & ReplyFlag::kReadOnly) == 0) ||
      reply.memory.size < kSuperblockSize) {
    return NoServer();
  }
  // The client verifies this before it trusts any other field of the answer.
  if (!secret_.empty() &&
      !rdma::AreSameBytes(rdma::HmacSha256(secret_, ServerProofParts(hello, reply)), reply.proof)) {
    return NotProven();
  }
  if (!IsExpected(options_.expected_shard, reply.shard))
    return AnotherShard(options_.expected_shard, reply.shard);
  identity_.returns = identity_.id != 0;
  return Greeting{reply, sent};
}

absl::Status Session::AdoptSuperblock() {
  REMORA_ASSIGN_OR_RETURN(const Superblock* superblock, calls_.ReadSuperblock());
  if (superblock->magic != kSuperblockMagic) {
    return absl::FailedPreconditionError(
        "connect: the server's memory has no superblock; use a client of the server's release");
  }
  if (superblock->format_version != kFormatVersion) {
    return VersionMismatch("format version", superblock->format_version, kFormatVersion);
  }
  if (superblock->layout_signature != LayoutSignature()) {
    return VersionMismatch("layout signature", superblock->layout_signature, LayoutSignature());
  }
  const StoreShape shape = ShapeOf(*superblock);
  const std::chrono::milliseconds grace(superblock->grace_ms);
  const auto level = static_cast<std::uint32_t>(superblock->level & 0xff);
  if (shape.incarnation != server_.hello().incarnation ||
      shape.memory_size > std::min(server_.memory().size, kMaxRegionSize) || level > kMaxDepth ||
      level < shape.base_depth || grace < std::chrono::milliseconds(kMinGraceMs)) {
    return absl::FailedPreconditionError(
        "connect: the server's superblock contradicts its hello; restart the server");
  }
  server_.TakeStore(shape, grace, level, superblock->slots_word);
  JoinMirror();
  cache_.Begin(shape.memory_size, grace, mirror_ == nullptr ? nullptr : &mirror_->generations());
  lease_.Forget();
  if (server_.has_lease() && !connector_.is_admin()) REMORA_RETURN_IF_ERROR(TakeFirstLease(*this));
  return ReadFirstDirectory();
}

/// Takes the mirror of the clients that READ the same index, or makes one.
void Session::JoinMirror() {
  if (mirror_bytes_ == 0) return;
  const StoreShape& shape = server_.shape();
  mirror_ = SharedMirrors::Join({.address = connector_.address(),
                                 .incarnation = shape.incarnation,
                                 .memory_size = shape.memory_size,
                                 .base_depth = shape.base_depth,
                                 .grace = server_.grace(),
                                 .bytes = mirror_bytes_,
                                 .clock = &clock_,
                                 .forks = Forks::Count()},
                                std::move(mirror_));
  mirror_user_ = {};
}

/// READs the first entries of the directory, so that the first GET need not.
absl::Status Session::ReadFirstDirectory() {
  const RegionReader::DirectoryRange range = region_.DirectoryAround({});
  if (range.size == 0) return absl::OkStatus();
  const std::span<std::byte> bytes = buffers_.directory().first(range.size);
  REMORA_RETURN_IF_ERROR(calls_.Read(bytes, range.offset));
  region_.TakeDirectory(range, bytes);
  return absl::OkStatus();
}

}  // namespace remora
