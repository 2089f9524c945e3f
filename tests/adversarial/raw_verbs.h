// The verbs transport, spoken by hand, with librdmacm and libibverbs alone.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>
#include <vector>

#include "tests/adversarial/raw_peer.h"

namespace remora {

class RawVerbs final : public RawPeer {
 public:
  RawVerbs(const rdma::Address& where, bool takes_replies);
  ~RawVerbs() override;

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

  /// Asks to be let in, and never says that it has heard the answer: no RTU.
  void JoinHalf(std::span<const std::byte> hello);
  /// Does one request of any kind on these bytes of this side's memory, and returns its outcome. If the
  /// request takes its data from here, `bytes` are put there before; after READs and atomics, bytes() is the
  /// data that came.
  ibv_wc_status Do(ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key, std::string_view bytes);
  std::string bytes(std::size_t size) const;

 private:
  static constexpr std::uint32_t kDepth = 256;
  static constexpr std::size_t kReceiveSize = 256;
  static constexpr std::size_t kDataAt = kReceives * kReceiveSize;

  bool Resolve(const rdma::Address& where);
  bool MakeQueuePair();
  rdma_conn_param Parameters(std::span<const std::byte> hello) const;
  /// The next event of this kind, or of an end. False: it ended.
  bool AwaitEvent(rdma_cm_event_type wanted);
  void PostReceive(std::uint64_t index);
  /// Takes completions; messages are kept. False: none has come.
  bool Poll();
  bool PostSend(ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key, std::size_t size);

  const bool takes_replies_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kDataAt + (std::size_t{1} << 20));
  std::vector<std::byte> said_;
  std::vector<std::string> messages_;
  std::size_t next_message_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  ibv_wc_status last_ = IBV_WC_SUCCESS;  // of the last request that is done
  bool ended_ = false;
};

}  // namespace remora
