// Bytes in messages between client and server, and in the handshake that comes before them.
//
//   connect:  HelloRequest  ->        <- HelloReply (accept)  or  HelloRejection (reject)
//   with a token, twice:
//     HelloRequest (has token)        ->
//                                     <- HelloRejection (challenge, nonce)
//     HelloRequest (proves)           ->
//                                     <- HelloReply with a proof of the server's
//   then, for each request of the client, at most `credits` of them unanswered:
//     WRITE key, value, reads into the staging buffer
//     SEND Request                    ->
//                                     <- SEND Reply
//
// A value of more than kMaxSmallValueSize is put in three steps, with one reservation per connection at a
// time:
//     SEND Request (reserve)          ->
//                                     <- SEND Reply, and behind it, if the transport can take it back, a
//                                     Grant
//     with a Grant:    WRITE key, value into it, in any pieces
//     without one, for each part, in order:
//       WRITE the part into the staging buffer
//       SEND Request (part)           ->
//                                     <- SEND Reply
//     SEND Request (commit)           ->   the server revokes the grant, then verifies, then publishes
//                                     <- SEND Reply
// The reserved bytes hold key, then value, with nothing in between. A reservation ends:
// - with the commit, whatever its outcome; a commit of sizes 0 only gives back the reservation,
// - with the next reserve,
// - with the connection,
// - kReservationSeconds after it was asked for.
//
// A client that WRITEs to a grant that has ended loses the connection. The server bounds the bytes
// that are reserved at a time; at the bound, reserves queue up. After kTurnSeconds in the queue, the
// server answers with kAskAgain. The client keeps its place if it asks again within another
// kTurnSeconds. So a frozen client loses its place, and delays the others by one reservation at most.
//
// The WRITEd bytes are at `payload_offset` of the connection's staging buffer: key, then value (as
// the operation has them), then reads. They are whole when the Request arrives. A touch gives an
// existing record another expiry; the record is written anew, as by a put of the same value.
//
// Reads: the hashes of keys that this client has read lately in the server's memory, which does not
// see it. The server needs them when the memory fills, because it evicts unused records. They are
// hints, so no checksum covers them. They come along with any request.
//
// A write may come with a condition (store/format/types/write_options.h), which is decided when it is
// committed; for a large value, that is at its commit.
//
// Scans, counts, drops and change feeds: store/format/wire/scan_messages.h.
//
// A client that READs the leaves of the ordered index (store/format/memory/leaf_block.h) asks for the place
// of the leaf that has a key, or the keys below a bound. Its value is a byte (LeafSide), and the key or
// bound. The reply has the place, or 0: that leaf cannot be READ. Not found: there are no keys.
//
// A client that asks where a record is may take its value in the reply (kTakesValue, ReplyFlag::kHasValue).
// The server sends a small value so if it is not to come to memory (store/format/wire/located_value.h).
//
// A backup takes longer than a request may. A client that wants one sends the same request again
// until it is done: the first of a name begins it, each one is answered at once. The server knows
// the names of the last kRememberedBackups that have ended. The server alone decides where backups
// go.
//
// The settings of a server are a text, JSON of its program's, which a client takes in pieces. Each reply has
// the size and the hash of the whole text. If the hash changes between two pieces, the client begins again.
//
// The writes of a batch are done all or none. Its status is that of the first that could not be done.
//
// The puts of a multi-put (store/format/wire/multi_put.h) share a message, and no more. Each is
// done, or not, by itself, in their order, and the reply has the outcome of each. If each has a
// request ID of its own, the server keeps a completion record of it; otherwise it keeps none.
//
// A client whose connection broke makes another, under the same client ID. By the time that it is
// accepted, the server has dropped the connection before: its requests there are done or never will
// be. The client then asks for the outcome of each write that was sent and not answered
// (kQueryCompletion).
// It sends the write anew, under another ID, if it was not done.
//
// The server remembers the last write that was done of each `credits` IDs. So a client sends a
// write only after all are answered whose IDs are less by `credits` or more. The server may have
// forgotten the client ID: then it rejects it, and the client takes another.
//
// A server may serve only clients that prove to have a token: a secret that both have, which never
// goes over the wire. The client's proof is the beginning of HMAC-SHA256(secret, ClientProofParts).
// The server's, which the client demands, is HMAC-SHA256(secret, ServerProofParts). The nonce is
// the server's own, for this client ID and challenge, good for some seconds and for one connection.
// The challenge is the client's, random for each connection. So neither side's proof serves anybody
// a second time.
//
// A proof that does not hold is rejected with a nonce again: the same one, if the token was wrong,
// and another one, if the nonce was too old. The messages behind the handshake are neither
// encrypted nor authenticated.
//
// A client whose token is for reading alone has no staging buffer. Its payloads, the bytes at
// payload_offset, stand behind the Request in its message, up to kMaxInlinePayload of them. A
// request that will be rejected, because it writes, has no payload there.
//
// A server may be a shard of a cluster (store/format/cluster/shard_identity.h). A client that sets
// HelloFlag::kAsksShard gets the identity behind the proof, and ReplyFlag::kHasShard says that there is one.
// Then the proof covers it, too. Programs of earlier builds neither ask for it nor send it: their HelloReply
// ends with the proof. So neither side's version changes.
//
// A primary with followers says so by ReplyFlag::kHasLease. Then a client reads under a lease
// (store/format/memory/lease_line.h). It takes one by two looks at the lease line, or by a ping with the
// condition kAsksLease. Such a primary rejects a client without HelloFlag::kKnowsLease, unless it
// administers.
//
// HelloReply and each Reply have the time of the server's clock when they were sent. That was after
// the request was sent and before the answer was there. A client knows no more of that clock
// (client/session/server_clock.h).
//
// A reader of a message checks magic, enumerators and sizes before anything else: the other side
// may be anybody.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "store/format/cluster/shard_identity.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/remote_region.h"

namespace remora {

inline constexpr std::uint16_t kProtocolVersion = 11;

// --- Handshake ----------------------------------------------------------------------------------------

inline constexpr std::uint64_t kHelloMagic = 0x30414f4d45524f4c;

/// Returns the part of the signature that goes over the wire.
constexpr std::uint32_t FoldedLayoutSignature() {
  return static_cast<std::uint32_t>(LayoutSignature() ^ LayoutSignature() >> 32);
}

enum HelloFlag : std::uint8_t {
  kReconnects = 1,   // the server has accepted this client ID before
  kHasToken = 2,     // it has a token, and accepts only a server that has it
  kProves = 4,       // `proof` is the client's proof of its token
  kAsksShard = 8,    // it takes HelloReply::shard
  kIsAdmin = 16,     // it comes to a server that does not serve clients, too (RejectionReason::kNotServing)
  kKnowsLease = 32,  // it reads under a lease where ReplyFlag::kHasLease (store/format/memory/lease_line.h)
};

using HelloNonce = std::array<std::byte, 16>;

struct HelloRequest {
  std::uint64_t magic = kHelloMagic;
  std::uint16_t protocol_version = kProtocolVersion;
  std::uint8_t format_version = kFormatVersion;
  std::uint8_t flags = 0;  // HelloFlag
  std::uint32_t layout_signature = FoldedLayoutSignature();
  /// The client ID: random, and the same at each of its connections. 0: it has none, and never asks
  /// for the outcome of a write. Request IDs of a client ID increase, across its connections.
  std::uint64_t client = 0;
  // Of a client that has a token; else zeros.
  std::uint64_t challenge = 0;
  std::array<std::byte, 24> proof{};
};
static_assert(sizeof(HelloRequest) == 56);  // all that librdmacm takes in a connect
static_assert(std::has_unique_object_representations_v<HelloRequest>);
static_assert(kFormatVersion <= 255);

enum ReplyFlag : std::uint16_t {
  kLoading = 1,     // the index may lack keys that exist; in one incarnation, it goes from 1 to 0 once
  kWantsReads = 2,  // until a reply does not say so
  kReadOnly = 4,    // of a HelloReply: requests that need a writer are rejected, there is no staging buffer
  // The cause of a kDurableTier, or of the first one in a multi-put (store/base/shortage.h):
  kShortage = 8,
  kDisk = 16,
  kHasSettings = 32,   // of a HelloReply: the server takes kSettings
  kHasShard = 64,      // of a HelloReply: `shard` is the server's
  kHasLease = 128,     // of a HelloReply: results count under a lease alone
  kHasLeaves = 256,    // of a HelloReply: the server takes kLeaf, as it has an ordered index
  kHasTopology = 512,  // of a HelloReply: the server takes kTopology
  kHasValue = 1024,    // of a locate: the value stands behind the Reply, and the record has no place
};

struct HelloReply {
  std::uint64_t magic = kHelloMagic;
  std::uint32_t credits = 0;  // requests that the client may have unanswered
  std::uint32_t flags = 0;    // ReplyFlag::kLoading, kReadOnly, and all of kHas...
  std::uint64_t incarnation = 0;
  std::int64_t server_ms = 0;         // Clock::UnixMillis
  RemoteRegion memory;                // to READ: superblock, index, records
  RemoteRegion staging;               // to WRITE; none where ReplyFlag::kReadOnly
  std::array<std::byte, 32> proof{};  // of a client that asked for one; else zeros
  ShardIdentity shard;                // where ReplyFlag::kHasShard; else zeros
};
static_assert(offsetof(HelloReply, shard) == 112);
static_assert(sizeof(HelloReply) == 152 && sizeof(HelloReply) <= 196);
static_assert(std::has_unique_object_representations_v<HelloReply>);

inline bool HasShard(const HelloReply& reply) { return (reply.flags & ReplyFlag::kHasShard) != 0; }

enum class RejectionReason : std::uint32_t {
  kNotRemora = 1,  // the request's magic or size is wrong
  kVersion = 2,    // protocol or format version differ, or the client knows no leases
  kLayout = 3,     // same versions, different layout signature
  kFull = 4,       // the server has as many clients, or as little memory, as it allows
  kStopping = 5,
  kForgotten = 6,   // the server does not know the client ID that returns: take another
  kChallenge = 7,   // prove that you have a token, with this nonce
  kNotServing = 8,  // the server follows a primary, or waits for its followers
};

/// `text` says what to do; zero-terminated unless full.
struct HelloRejection {
  std::uint64_t magic = kHelloMagic;
  RejectionReason reason = RejectionReason::kNotRemora;
  std::uint32_t protocol_version = kProtocolVersion;
  std::uint32_t format_version = kFormatVersion;
  std::uint32_t reserved = 0;
  char text[104] = {};
  HelloNonce nonce{};  // kChallenge
};
static_assert(sizeof(HelloRejection) == 144 && sizeof(HelloRejection) <= 148);
static_assert(std::has_unique_object_representations_v<HelloRejection>);

inline constexpr std::string_view kClientProofDomain = "remora client proof 1";
inline constexpr std::string_view kServerProofDomain = "remora server proof 1";

/// Returns the parts that a client's proof covers: all of its hello before the proof.
inline std::array<std::span<const std::byte>, 3> ClientProofParts(const HelloNonce& nonce,
                                                                  const HelloRequest& hello) {
  const auto bytes = std::as_bytes(std::span(&hello, 1)).first(offsetof(HelloRequest, proof));
  return {std::as_bytes(std::span(kClientProofDomain)), nonce, bytes};
}
/// Returns the parts that a server's proof covers: all of the hello that it answers, all of the reply before
/// the proof, and the shard where there is one.
inline std::array<std::span<const std::byte>, 4> ServerProofParts(const HelloRequest& hello,
                                                                  const HelloReply& reply) {
  const auto bytes = std::as_bytes(std::span(&reply, 1));
  return {std::as_bytes(std::span(kServerProofDomain)), std::as_bytes(std::span(&hello, 1)),
          bytes.first(offsetof(HelloReply, proof)),
          bytes.subspan(offsetof(HelloReply, shard), HasShard(reply) ? sizeof(ShardIdentity) : 0)};
}

// --- Requests and replies -----------------------------------------------------------------------------

enum class Operation : std::uint8_t {
  kPut = 1,     // key, value: store
  kDelete = 2,  // key: remove
  kLocate = 3,  // key: say where its record is now
  kPing = 4,    // nothing: answer
  kTouch = 5,   // key: give its record a new expiry
  // Of a large value. None has a payload in the staging buffer but kPart.
  kReserve = 6,  // key and value of these sizes will come
  kPart = 7,     // the next value_size bytes of key and value; key_size is 0
  // Store what was reserved with these sizes, or, of 0 and 0, give it back; payload_offset is 0.
  kFinishLargePut = 8,
  // Of the value that is there. Without a ttl, it keeps its expiry.
  kIncrement = 9,  // key, and as value a std::int64_t: add that to the number that the value spells
  kAppend = 10,    // key, value: put it behind the value that is there
  // Its value is the bytes of a batch (store/format/wire/write_batch.h); key_size, ttl_ms and condition are
  // 0.
  kBatch = 11,
  kScan = 12,             // opens a cursor (store/format/wire/scan_messages.h)
  kQueryCompletion = 13,  // nothing; payload_offset: the request ID of a write that this client has sent
  kScanNext = 14,         // goes on with a cursor (store/format/wire/scan_messages.h)
  // Nothing in the staging buffer; condition: a number of the client's own, random and not 0: the name of a
  // backup.
  kBackup = 15,
  // Its value is the bytes of a multi-put; key_size, ttl_ms and condition are 0.
  kMultiPut = 16,
  // Nothing in the staging buffer; condition: the place of the first wanted byte in the text of the settings.
  // For a server with ReplyFlag::kHasSettings.
  kSettings = 17,
  // Replication (store/format/wire/replication_messages.h), of clients that may replicate:
  kFollow = 18,     // its value is the history of a primary: follow it
  kReplicate = 19,  // its value is a part of a group
  kPromote = 20,    // nothing: become a primary
  kSupport = 21,    // condition: the number of a round; say that you still follow
  kCopy = 22,       // condition: a step of a copy of a primary's data
  // Its value is a command of a move of slots (server/cluster/slot_moves.h).
  kMove = 23,
  // Its value is a LeafSide, and a key or bound. For a server with ReplyFlag::kHasLeaves. The reply has the
  // place as `slot`, and the slots word as `version`, also if there are no keys.
  kLeaf = 24,
  // As kSettings, but for the text of the cluster's topology. For a server with ReplyFlag::kHasTopology.
  kTopology = 25,
};
inline constexpr Operation kLastOperation = Operation::kTopology;

/// First byte of the value of a kLeaf.
enum class LeafSide : std::uint8_t {
  kOf = 1,     // the leaf that has the key, if anything has it
  kBelow = 2,  // the leaf that has the greatest key below the bound; an empty one is behind all keys
};

/// Condition of a kPing that asks for a lease: it is answered once a round has ended that began after it
/// came.
inline constexpr std::uint64_t kAsksLease = 1;

/// Condition of a kLocate whose client takes ReplyFlag::kHasValue, and long replies (kMaxLongReplySize).
inline constexpr std::uint64_t kTakesValue = 1;

/// Returns whether a scan may begin with it.
constexpr bool BeginsScan(Operation operation) {
  return operation == Operation::kScan || operation == Operation::kLeaf;
}

/// Returns whether it may change stored data, at once.
constexpr bool IsWrite(Operation operation) {
  switch (operation) {
    case Operation::kPut:
    case Operation::kDelete:
    case Operation::kTouch:
    case Operation::kFinishLargePut:
    case Operation::kIncrement:
    case Operation::kAppend:
    case Operation::kBatch:
    case Operation::kMultiPut:
      return true;
    default:
      return false;
  }
}

/// Returns whether it needs a token for replication.
constexpr bool IsOfReplication(Operation operation) {
  return operation == Operation::kFollow || operation == Operation::kReplicate ||
         operation == Operation::kPromote || operation == Operation::kSupport ||
         operation == Operation::kCopy;
}

/// Returns whether it needs a token for writing: writes, their preparations, backups, which fill the
/// server's disk, settings, which have names of its files, and moves of slots. (And scans of
/// ScanKind::kDelete.)
constexpr bool NeedsWriter(Operation operation) {
  return IsWrite(operation) || operation == Operation::kReserve || operation == Operation::kPart ||
         operation == Operation::kBackup || operation == Operation::kSettings ||
         operation == Operation::kMove || IsOfReplication(operation);
}

struct Request {
  std::uint64_t request_id = 0;  // the client's; comes back in the reply
  std::uint64_t payload_offset = 0;
  std::uint64_t payload_checksum = 0;
  std::int64_t ttl_ms = 0;      // of what stores a record: EncodeTtl; 0: none
  std::uint64_t condition = 0;  // of a write: Condition::Encode; 0: none. scan_next: the cursor
  std::uint32_t value_size = 0;
  std::uint16_t key_size = 0;
  Operation operation = Operation::kPing;
  std::uint8_t read_count = 0;  // up to kMaxReads
  std::uint8_t durability = 0;  // of a write: EncodeDurability
  std::uint8_t put_count = 0;   // multi-put: how many
  std::uint8_t put_ids = 0;  // multi-put: put_count: each has an id, the last one request_id; or 0: none has
  std::uint8_t reserved[5] = {};
};
static_assert(sizeof(Request) == 56);
static_assert(std::has_unique_object_representations_v<Request>);

/// Ties a payload to its request: bytes left over from an earlier one, or half of one, do not verify.
inline std::uint64_t PayloadChecksum(const Request& request, std::uint64_t key_hash,
                                     std::uint64_t value_hash) {
  const std::uint64_t covered[] = {
      request.request_id,
      request.payload_offset,
      static_cast<std::uint64_t>(request.ttl_ms),
      request.condition,
      std::uint64_t{request.durability} << 56 | std::uint64_t{request.value_size} << 24 |
          std::uint64_t{request.key_size} << 8 | static_cast<std::uint64_t>(request.operation),
      key_hash,
      value_hash};
  return XXH3_64bits(covered, sizeof(covered));
}

enum class ReplyStatus : std::uint8_t {
  kOk = 1,
  kNotFound = 2,     // no such key
  kInvalid = 3,      // the request breaks the protocol's bounds
  kCorrupt = 4,      // the bytes sent or stored do not verify, the text says which; nothing was done
  kFull = 5,         // no space; nothing was done
  kDurableTier = 6,  // the durable tier failed; whether the write survives a restart is unknown
  // Nothing was done:
  kAlreadyExists = 7,       // the condition was that the key is absent
  kFailedPrecondition = 8,  // the key has another version; or its value is no number
  kOutOfRange = 9,          // the number would overflow, or the value grow too large
  // Outcome: the server cannot tell. (kOk: it was done, with this version and result. kNotFound: it was not
  // and never will be. kDurableTier: as that write's own.)
  kUnknown = 10,
  kPermissionDenied = 11,  // the client's token is for reading alone; nothing was done
  kAskAgain = 12,          // reserve: its turn has not come; nothing was done
  // The key's slot (store/format/cluster/slot.h) is another server's; nothing was done. Only servers that
  // have a part of the slots send it.
  kMoved = 13,
};

struct Reply {
  std::uint64_t request_id = 0;
  std::uint64_t version = 0;   // of a write: its own; batch: of its first; multi-put: of the first that was
                               // done; locate: that of the record, or the slots word (layout.h)
                               // with which the key is absent; scan: the cursor;
                               // settings: the hash of the text (HashSettings)
  std::uint64_t slot = 0;      // of what stores a record, and locate: where it is (EncodeSlot), or the
                               // checksum of the value (kHasValue); scan; leaf: its offset in the region
  std::int64_t result = 0;     // increment: the number; append: the size of the value; scan: of the page;
                               // settings: of the text; locate, kHasValue: the expiry
  std::int64_t server_ms = 0;  // Clock::UnixMillis
  ReplyStatus status = ReplyStatus::kOk;
  std::uint8_t reserved = 0;
  std::uint16_t flags = 0;  // ReplyFlag
  // Bytes behind this struct, up to kMaxReplyBehind, or kMaxValueBehind where kHasValue. Status not kOk:
  // text, why. kOk, of a reserve: a Grant, or nothing; of a backup: a BackupDone; nothing: it is in progress;
  // of a multi-put: MultiPutOutcomes. Of settings: the bytes from there on. Of a move: the text of its
  // answer.
  std::uint16_t behind_size = 0;
  std::uint16_t reserved2 = 0;
};
static_assert(sizeof(Reply) == 48);
static_assert(std::has_unique_object_representations_v<Reply>);

/// The client may WRITE all of this region, and nothing else of the server's memory that others read.
struct Grant {
  RemoteRegion region;
};
static_assert(sizeof(Grant) == 24);
static_assert(std::has_unique_object_representations_v<Grant>);

struct BackupDone {
  std::uint64_t id = 0;         // in the server's directory
  std::uint64_t version = 0;    // all writes up to this one are in it
  std::uint64_t bytes = 0;      // of all its files
  std::uint64_t new_bytes = 0;  // of those that no earlier one has
};
static_assert(sizeof(BackupDone) == 32 && sizeof(BackupDone) <= 160);
static_assert(std::has_unique_object_representations_v<BackupDone>);

inline constexpr std::size_t kRememberedBackups = 16;

/// Enough for the largest value at 2 MB/s. A client that was cut off keeps the memory no longer than this.
inline constexpr std::int64_t kReservationSeconds = 30;
inline constexpr std::int64_t kTurnSeconds = 1;

/// Bytes that the reply to a multi-put takes with a text; without one, it is a short message
/// (rdma::kMaxShortMessage).
inline constexpr std::size_t kMaxReplyBehind = 368;
inline constexpr std::size_t kMaxReplySize = sizeof(Reply) + kMaxReplyBehind;

/// The largest value that a reply has (kHasValue).
inline constexpr std::size_t kMaxValueBehind = 4096;
inline constexpr std::size_t kMaxLongReplySize = sizeof(Reply) + kMaxValueBehind;

/// A client takes no larger text for settings.
inline constexpr std::size_t kMaxSettingsSize = std::size_t{1} << 20;
inline std::uint64_t HashSettings(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

/// Hashes of reads in one request, of 8 bytes each.
inline constexpr std::size_t kMaxReads = 64;

/// Bytes of a staging buffer for one request of the largest size.
inline constexpr std::size_t kMaxPayloadSize =
    kMaxKeySize + kMaxSmallValueSize + kMaxReads * sizeof(std::uint64_t);

/// Bound of the payload behind a Request in its message, where there is no staging buffer. The
/// largest opens a scan with two bounds (store/format/wire/scan_messages.h), and has reads.
inline constexpr std::size_t kMaxInlinePayload =
    128 + 2 * (kMaxKeySize + 1) + kMaxReads * sizeof(std::uint64_t);

// --- Bytes to structs and back --------------------------------------------------------------------------

template <typename T>
concept WireStruct = std::is_trivially_copyable_v<T>;

template <WireStruct T>
std::span<const std::byte> AsBytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Copies a struct out of `bytes`, which must be at least as long (more is padding). False: too short.
template <WireStruct T>
[[nodiscard]] bool FromBytes(std::span<const std::byte> bytes, T* value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(value, bytes.data(), sizeof(T));
  return true;
}

/// Copies a HelloReply out of `bytes`. One of an earlier build ends before the shard, which is none then.
/// False: too short, or it says that there is a shard, and has none.
[[nodiscard]] inline bool FromBytes(std::span<const std::byte> bytes, HelloReply* reply) {
  if (bytes.size() < offsetof(HelloReply, shard)) return false;
  *reply = {};
  std::memcpy(reply, bytes.data(), std::min(bytes.size(), sizeof(*reply)));
  if (HasShard(*reply)) return bytes.size() >= sizeof(*reply) && IsShardName(reply->shard.name());
  reply->shard = {};  // perhaps padding
  return true;
}

}  // namespace remora
