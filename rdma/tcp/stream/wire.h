// The format of a tcp:// connection: the handshake, then frames.
//
//   client                                server
//   connect                               accept
//   TcpHello                   ----->     NextRequest
//                              <-----     TcpReply: accepted, or why not
//   READ, WRITE, MESSAGE       ----->     a NIC thread serves READs and WRITEs
//   FIND                       ----->
//                              <-----     READ-ANSWER, FIND-ANSWER, in the order of the READs and FINDs;
//                                         WRITE, MESSAGE
//   END                        <---->     the reason why its sender gives up the connection; nothing follows
//
// Over tls://, all of this is inside one TLS 1.3 connection (tls_stream.h). A server answers a client that
// mistakes the one for the other with a TcpReply outside TLS.
//
// A frame is a header of 24 bytes, then its payload:
//
//    0      1          4        8        12         16                24
//   +------+----------+--------+--------+----------+-----------------+-------------------
//   | kind | zero     | size   | key    | match    | offset          | payload
//   +------+----------+--------+--------+----------+-----------------+-------------------
//
//   kind          size                  key               offset                payload
//   READ          bytes wanted          of the region     of the first byte     none
//   READ-ANSWER   bytes that follow     0                 0                     the bytes
//   WRITE         bytes that follow     of the region     of the first byte     the bytes
//   MESSAGE       bytes that follow     0                 0                     the message
//   END           bytes that follow     an absl code      0                     text for a log
//   FIND          most of the record    of the region     of the bucket         none
//   FIND-ANSWER   bytes that follow     0                 of the record         the bucket, then the record
//
// `match` is the fingerprint that a FIND looks for (12 bits, not 0), and 0 in all other frames. A FIND is two
// READs in one round trip: one of a bucket, and one of the record that the bucket's first slot with the
// fingerprint names. The answer has the bucket alone if there is no such slot, or if the record is longer
// than wanted. O3 and O4 hold for both READs. The bucket may change between the server's search in it and its
// READ. So the client takes the record only if a slot of the received bucket names it.
//
// `offset` is RemoteRegion's address plus the offset of the request. Integers are little-endian. A receiver
// trusts no field: it checks the whole header before it uses any of it, and an access outside its region ends
// the connection.
//
// Which code keeps the ordering rules of transport.h:
//   O1, O2  The frames of one direction are one stream, and one thread takes them from it in order: in
//           TcpLink::TakeFrames on a server, in TcpClient::TakeFrames on a client. The bytes of a WRITE are
//           in their place before the thread looks at the next frame.
//   O3, O4  TcpOutbox::Flush copies the bytes of a READ out of the region, or has the kernel copy them, after
//           the READ arrived and before its answer leaves.
//   O5      TcpClient completes its posts from the front of one queue (CompleteFront), and a server answers
//           READs and FINDs in the order in which they arrived.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rdma/transport.h"

namespace remora::rdma {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint64_t kTcpMagic = 0x007063746d6572ff;  // 0xff "remtcp" 0: no line of text begins so
inline constexpr std::uint32_t kTcpVersion = 2;

struct TcpHello {
  std::uint64_t magic = kTcpMagic;
  std::uint32_t version = kTcpVersion;
  std::uint32_t data_size = 0;
  std::byte data[kMaxConnectData] = {};
};
static_assert(sizeof(TcpHello) == 72);
static_assert(std::has_unique_object_representations_v<TcpHello>);

enum class TcpAnswer : std::uint32_t {
  kAccepted = 1,
  kRejected = 2,
  kWrongVersion = 3,  // TcpHello has another version than the server
  kNoSpace = 4,       // the server has no descriptor for another client
  kNeedsTls = 5,      // without TLS: this address serves with TLS alone
  kHasNoTls = 6,      // without TLS, to a TLS handshake: this address serves without TLS alone
};

struct TcpReply {
  std::uint64_t magic = kTcpMagic;
  std::uint32_t version = kTcpVersion;
  TcpAnswer answer = TcpAnswer::kAccepted;
  std::uint32_t data_size = 0;
  std::byte data[kMaxAcceptData] = {};
};
static_assert(sizeof(TcpReply) == 216);
static_assert(std::has_unique_object_representations_v<TcpReply>);
static_assert(kMaxRejectData <= kMaxAcceptData);

enum class FrameKind : std::uint8_t {
  kRead = 1,
  kReadAnswer = 2,
  kWrite = 3,
  kMessage = 4,
  kEnd = 5,
  kFind = 6,
  kFindAnswer = 7,
};

struct FrameHeader {
  FrameKind kind{};
  std::uint8_t zero[3] = {};
  std::uint32_t size = 0;
  std::uint32_t key = 0;
  std::uint32_t match = 0;
  std::uint64_t offset = 0;

  bool reserved_are_zero() const {
    return (zero[0] | zero[1] | zero[2]) == 0 && (match == 0 || kind == FrameKind::kFind);
  }
};
static_assert(sizeof(FrameHeader) == 24);
static_assert(offsetof(FrameHeader, size) == 4 && offsetof(FrameHeader, key) == 8);
static_assert(offsetof(FrameHeader, offset) == 16);
static_assert(std::has_unique_object_representations_v<FrameHeader>);

/// The most bytes of one READ or WRITE.
inline constexpr std::uint64_t kTcpMaxTransfer = std::uint64_t{1} << 30;
/// The most bytes of the record of a FIND.
inline constexpr std::uint32_t kTcpMaxFound = 1 << 20;
/// The most bytes of an END's text.
inline constexpr std::uint32_t kTcpMaxReason = 200;

/// The most regions to READ, which have the keys 1 to kTcpMaxReads. Regions to WRITE have larger keys, each
/// unique in its listener: a key is invalid on every other connection.
inline constexpr std::uint32_t kTcpMaxReads = 8;
/// The address of each region to WRITE. It is not 0, so that an access before the region has an address, too,
/// which the receiver rejects.
inline constexpr std::uint64_t kTcpWriteAddress = std::uint64_t{1} << 20;
/// The key of the memory that a client offers its server to WRITE.
inline constexpr std::uint32_t kTcpOfferedKey = 1;

}  // namespace remora::rdma
