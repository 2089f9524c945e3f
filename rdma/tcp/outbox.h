// Frames on their way into a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rdma/tcp/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Holds the headers, and refers to the payloads: they must stay until their frame has left.
/// Thread Safety: none.
class TcpOutbox {
 public:
  /// REQUIRES: payload.size() <= kMaxSges.
  void Add(const FrameHeader& header, std::span<const Sge> payload);
  /// Sends as much as the socket takes, of many frames with one call. The errno of a failure, else 0.
  int Flush(int socket);
  /// Drops all frames. REQUIRES: nothing more is added.
  void Clear();

  bool empty() const { return first_ == frames_.size(); }
  std::size_t size() const { return frames_.size() - first_; }
  /// How many frames were added, and how many of them the socket has taken whole.
  std::uint64_t added() const { return added_; }
  std::uint64_t left() const { return added_ - size(); }
  /// Whether the socket has taken a part of a frame.
  bool is_within_frame() const { return sent_ != 0; }
  /// Whether a frame refers to a byte of these.
  bool RefersTo(std::span<const std::byte> bytes) const;
  /// How many bytes the socket has taken in all.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Frame {
    FrameHeader header;
    std::array<Sge, kMaxSges> payload;
    std::size_t payload_count = 0;
    std::size_t size = 0;  // of all
  };

  void Took(std::size_t bytes);

  std::vector<Frame> frames_;  // those before first_ have left
  std::size_t first_ = 0;
  std::size_t sent_ = 0;  // bytes of the first
  std::uint64_t added_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

/// Sends END with this status as far as the socket takes it at once: whoever reads it knows why. Call it at
/// the end of a frame only.
void SendEnd(int socket, const absl::Status& why);

/// The status that an END says, told by `who` ("the server", "the client").
absl::Status StatusOfEnd(std::uint32_t code, std::string_view text, std::string_view who);

}  // namespace remora::rdma
