// tcp://, spoken by hand: a socket, and frames.
#pragma once

#include <string>
#include <vector>

#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/stream/wire.h"
#include "tests/adversarial/raw_peer.h"

namespace remora {

class RawTcp final : public RawPeer {
 public:
  RawTcp(const rdma::Address& where, bool takes_replies);

  using RawPeer::AwaitEnd;
  using RawPeer::Join;
  using RawPeer::Receive;
  Answer Join(std::span<const std::byte> hello) override;
  std::span<const std::byte> said() const override { return said_; }
  void Write(std::uint64_t offset, std::string_view bytes) override;
  bool Send(std::span<const std::byte> message) override;
  std::optional<std::string> Receive(std::chrono::milliseconds patience) override;
  bool AwaitEnd(std::chrono::milliseconds patience) override;

  /// Bytes, whatever they are. False: they were not taken within some seconds, or the connection has ended.
  bool Say(const void* bytes, std::size_t size);
  /// Says the bytes if the socket takes them at once. False: it took a part of them, or nothing.
  bool SayAtOnce(const void* bytes, std::size_t size);
  /// So many bytes of the stream, as soon as they have come. False: they have not.
  bool Hear(void* bytes, std::size_t size, std::chrono::milliseconds patience);

 private:
  bool SayFrame(const rdma::FrameHeader& header, std::string_view payload);

  const bool takes_replies_;
  rdma::UniqueFd socket_;
  std::vector<std::byte> said_;
};

}  // namespace remora
