// The local transport, spoken by hand: a socket, mappings, and rings whose words may be forged.
#pragma once

#include <string>
#include <vector>

#include "rdma/local/mapping.h"
#include "rdma/local/ring.h"
#include "rdma/local/socket.h"
#include "tests/adversarial/raw_peer.h"

namespace remora {

class RawLocal final : public RawPeer {
 public:
  RawLocal(const rdma::Address& where, bool takes_replies);

  using RawPeer::AwaitEnd;
  using RawPeer::Join;
  using RawPeer::Receive;
  Answer Join(std::span<const std::byte> hello) override;
  std::span<const std::byte> said() const override { return said_; }
  void Write(std::uint64_t offset, std::string_view bytes) override;
  bool Send(std::span<const std::byte> message) override;
  std::optional<std::string> Receive(std::chrono::milliseconds patience) override;
  bool AwaitEnd(std::chrono::milliseconds patience) override;

  // --- Beneath the messages

  /// A packet, whatever it says.
  void Say(const void* bytes, std::size_t size);
  /// Returns the server's answer to a packet. kAccepted: all that came with it is mapped.
  Answer Hear();
  void Wake() { rdma::WakePeer(socket_.get()); }
  int socket() const { return socket_.get(); }
  bool is_connected() const { return static_cast<bool>(socket_); }

  rdma::LocalSide* own = nullptr;  // this side's memory, and counters

 private:
  bool HasEnded();

  const bool takes_replies_;
  rdma::UniqueFd socket_;
  std::vector<std::byte> said_;
  rdma::LocalMapping page_, server_mapping_, own_mapping_, staging_;
  const rdma::LocalSide* server_ = nullptr;
  rdma::RingWriter writer_;
  rdma::RingReader reader_;
};

}  // namespace remora
