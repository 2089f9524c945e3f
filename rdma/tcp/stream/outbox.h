// Queue of frames that are to be sent through a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/tcp/stream/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Holds the headers of frames, and refers to their payloads. A payload must stay valid until the socket has
/// taken its frame.
///
/// Thread safety: none.
class TcpOutbox {
 public:
  /// Adds a frame at the end. REQUIRES: payload.size() <= kMaxSges.
  void Add(const FrameHeader& header, std::span<const Sge> payload);
  /// Sends as much as the socket takes at once, many frames with one system call. Copies small payloads into
  /// one piece for it, and again if the socket does not take them. `tls` is null for a plain
  /// socket; else it holds bytes that the socket has not taken (TlsStream::has_output), and counts as a part
  /// of the socket here. Returns the errno of a failure, else 0.
  int Flush(int socket, TlsStream* tls);
  /// Drops all frames. REQUIRES: the caller adds no more.
  void Clear();

  bool empty() const { return first_ == frames_.size(); }
  std::size_t size() const { return frames_.size() - first_; }
  /// Returns the number of frames added so far, and the number of those that the socket has taken whole.
  std::uint64_t added() const { return added_; }
  std::uint64_t left() const { return added_ - size(); }
  /// Returns whether the socket has taken only a part of the first frame.
  bool is_within_frame() const { return sent_ != 0; }
  /// Returns whether a frame refers to one of `bytes`.
  bool RefersTo(std::span<const std::byte> bytes) const;
  /// Returns the number of bytes that the socket has taken so far.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Frame {
    FrameHeader header;
    std::array<Sge, kMaxSges> payload;
    std::size_t payload_count = 0;
    std::size_t size = 0;  // bytes of header and payload
  };

  void Took(std::size_t bytes);

  std::vector<Frame> frames_;  // the socket has taken those before first_
  std::size_t first_ = 0;
  std::size_t sent_ = 0;  // bytes of the first frame that the socket has taken
  std::uint64_t added_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

/// Sends these bytes as far as the socket takes them at once. `tls` is null for a plain socket.
void SendBytes(int socket, TlsStream* tls, std::span<const std::byte> bytes);

/// Sends an END with this status, as far as the socket takes it at once, so that the peer learns the reason.
/// REQUIRES: the socket has taken the last frame whole.
void SendEnd(int socket, TlsStream* tls, const absl::Status& why);

/// Returns the status that an END from `who` ("the server" or "the client") states.
absl::Status StatusOfEnd(std::uint32_t code, std::string_view text, std::string_view who);

}  // namespace remora::rdma
