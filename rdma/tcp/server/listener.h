// The server's end of a tcp:// address.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rdma/tcp/server/nic_thread.h"
#include "rdma/tcp/server/server.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Listener of a tcp:// address, with its NIC threads. The first of these has the acceptor.
///
/// Thread safety: the server thread alone uses it.
class TcpListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Make(const Address& address, const QueueLimits& limits,
                                                        const Clock& clock, std::uint32_t threads,
                                                        std::shared_ptr<ServerTls> tls);
  ~TcpListener() override;

  const Address& address() const override { return address_; }
  std::vector<std::string> sockets() const override { return sockets_; }
  const QueueLimits& limits() const override { return limits_; }
  bool binds_writes() const override { return true; }  // each link has regions of its own
  absl::StatusOr<RemoteRegion> RegisterRead(SharedMemory& memory) override;
  std::unique_ptr<ServerConnection> NextRequest() override;
  std::size_t Poll(std::span<Completion> out) override;
  bool PollingPays() const override { return !has_nic_here_; }
  void Arm() override { tcp_events_->Arm(); }
  void Disarm() override { tcp_events_->Disarm(); }
  int wait_fd() const override { return tcp_events_->fd(); }
  void CountReads(std::function<void(const ServedReads&)> count) override;
  void ServeBy(std::function<bool()> serve) override;
  std::uint64_t dropped_handshakes() const override { return threads_.front()->acceptor()->dropped(); }
  std::uint64_t without_descriptor() const override {
    return threads_.front()->acceptor()->without_descriptor();
  }

  std::optional<std::string> NextRejection() override { return tcp_events_->NextRejection(); }

  // --- For its connections ---
  TcpEvents& events() { return *tcp_events_; }
  std::span<const std::span<std::byte>> reads() const { return reads_; }
  /// Returns the NIC thread that serves the next connection.
  NicThread& NextThread();
  /// Returns the key for the next region to WRITE. After four billion regions, keys repeat.
  std::uint32_t NextKey() { return last_key_ = std::max(last_key_ + 1, kTcpMaxReads + 1); }
  void Add() { ++connection_count_; }
  void Remove() { --connection_count_; }

 private:
  TcpListener(const Address& address, const QueueLimits& limits) : address_(address), limits_(limits) {}

  Address address_;
  const QueueLimits limits_;
  std::vector<std::string> sockets_;
  std::unique_ptr<TcpEvents> tcp_events_;
  std::vector<std::unique_ptr<NicThread>> threads_;  // the first has the acceptor
  std::size_t next_thread_ = 0;
  std::vector<std::span<std::byte>> reads_;  // by key - 1
  std::uint32_t last_key_ = kTcpMaxReads;
  std::size_t connection_count_ = 0;
  bool has_nic_here_ = false;  // a NIC thread runs on the server thread's CPU, so polling does not pay
};

}  // namespace remora::rdma
