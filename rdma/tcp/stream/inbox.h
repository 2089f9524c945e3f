// Receiver of a socket's stream, which cuts it into frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/tcp/stream/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Receives frames in turns. A turn begins with Load and ends with Store. In between, its user calls Next and
/// TakePayload until they need more bytes, then Fill, and so on. A long payload goes from the socket directly
/// to its place.
///
/// Thread safety: none.
class TcpInbox {
 public:
  /// The size in bytes of the buffer for Load. Many inboxes may share one buffer.
  static constexpr std::size_t kBufferSize = std::size_t{16} << 10;

  enum class Filled {
    kSome,     // bytes arrived, and there may be more in the socket
    kAll,      // bytes arrived, and the socket is empty now
    kNothing,  // the socket was empty
    kClosed,   // the peer closed the connection
    kFailed,   // see errno
  };

  /// Begins a turn, in which the inbox uses `buffer`. REQUIRES: buffer.size() == kBufferSize.
  void Load(std::span<std::byte> buffer);
  /// Ends the turn. The inbox keeps a copy of the bytes in the buffer that were not taken.
  void Store();

  enum class Waits : std::uint8_t { kNo = 1, kYes };
  /// Receives once. With kYes, the call sleeps until bytes arrive, at most for the SO_RCVTIMEO of a blocking
  /// socket; kNothing then also stands for a signal. `tls` is null for a plain socket. REQUIRES: Next and
  /// TakePayload have taken all that they can from the buffer.
  Filled Fill(int socket, TlsStream* tls, Waits waits = Waits::kNo);

  /// Returns the next header; null if it is incomplete. REQUIRES: no payload is expected.
  const FrameHeader* Next();
  /// Drops that header, and expects as many bytes of payload as `to` has, which go there. If `to` is empty,
  /// the frame is done. REQUIRES: Next was not null; to.size() <= kMaxSges.
  void Expect(std::span<const Sge> to);
  /// Moves the bytes of the payload that have arrived to their place. True: the payload is whole.
  bool TakePayload();
  /// Returns whether bytes of a payload are still to come.
  bool expects() const { return expected_ > 0; }
  /// Returns whether bytes wait in the buffer, or between two turns in the inbox.
  bool has_bytes() const { return begin_ < end_ || !kept_.empty(); }

 private:
  std::span<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  FrameHeader header_;
  std::vector<std::byte> kept_;  // bytes between two turns
  std::array<Sge, kMaxSges> places_;
  std::size_t place_ = 0;  // the first that is not full
  std::size_t place_count_ = 0;
  std::uint64_t expected_ = 0;  // bytes of payload that are still to come
};

}  // namespace remora::rdma
