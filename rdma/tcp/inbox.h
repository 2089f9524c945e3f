// The stream of a socket, cut into frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma/tcp/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Use: Load, then again and again Next / TakePayload until they say no, and Fill for more; then Store.
/// A long payload goes from the socket to its place without a copy between.
///
/// Thread Safety: none.
class TcpInbox {
 public:
  /// The buffer that Load is given. Many inboxes may share one.
  static constexpr std::size_t kBufferSize = std::size_t{16} << 10;

  enum class Filled {
    kSome,     // there was more than fitted, perhaps
    kAll,      // the socket is empty now
    kNothing,  // it was empty
    kClosed,   // the peer closed
    kFailed,   // see errno
  };

  /// Begins a turn: `buffer` is this inbox's until Store. REQUIRES: buffer.size() == kBufferSize.
  void Load(std::span<std::byte> buffer);
  /// Ends the turn: keeps what is in the buffer and was not taken.
  void Store();

  enum class Waits : std::uint8_t { kNo = 1, kYes };
  /// One recv. kYes: it sleeps until something comes, for the SO_RCVTIMEO of a blocking socket at most;
  /// kNothing then also stands for a signal. REQUIRES: what is in the buffer has been looked at.
  Filled Fill(int socket, Waits waits = Waits::kNo);

  /// The header that is next, or null: not all of it is there. REQUIRES: no payload is expected.
  const FrameHeader* Next();
  /// That header is done with, and its payload, of as many bytes as `to` has, goes there. A frame without
  /// one: nothing more is to be done. REQUIRES: Next was not null; to.size() <= kMaxSges.
  void Expect(std::span<const Sge> to);
  /// Moves what has come of the payload. True: it is whole.
  bool TakePayload();
  /// Whether a payload is expected, and has not been taken whole.
  bool expects() const { return expected_ > 0; }
  /// Whether bytes wait in the buffer; between Store and Load, too.
  bool has_bytes() const { return begin_ < end_ || !kept_.empty(); }

 private:
  std::span<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  FrameHeader header_;
  std::vector<std::byte> kept_;  // between two turns
  std::array<Sge, kMaxSges> places_;
  std::size_t place_ = 0;  // the first that is not full
  std::size_t place_count_ = 0;
  std::uint64_t expected_ = 0;  // bytes
};

}  // namespace remora::rdma
