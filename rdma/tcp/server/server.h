// The server thread's view of the server's end of a tcp:// connection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rdma/tcp/server/link.h"
#include "rdma/tcp/server/nic_thread.h"
#include "rdma/transport.h"

namespace remora::rdma {

class TcpListener;

/// Server's connection over a TCP socket. A NIC thread takes its frames; TcpLink is their common part.
///
/// Thread safety: the server thread alone uses it.
class TcpServer final : public ServerConnection {
 public:
  /// Makes a connection for a client's request. `listener` must outlive the connection.
  TcpServer(TcpListener& listener, TcpRequest request);
  ~TcpServer() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Registration>> ProvideWrite(std::string_view name,
                                                             std::size_t size) override;
  absl::StatusOr<std::unique_ptr<Registration>> GrantWrite(SharedMemory& memory, std::size_t offset,
                                                           std::size_t size) override;
  absl::Status Accept(std::span<const std::byte> data) override;
  void Reject(std::span<const std::byte> data) override;
  std::span<const std::byte> peer_data() const override { return peer_data_; }
  void Disconnect() override;

  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  absl::Status PostSend(std::uint64_t context, const Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const Sge& into) override;
  const absl::Status& status() const override { return status_; }
  std::string peer() const override { return peer_; }

  /// Copies the link's failure to status(). The listener calls this when a request has failed.
  void NoteFailure();

 private:
  /// Returns the status of a post unchanged, and updates status() if the post failed.
  absl::Status Note(absl::Status posted);

  TcpListener& listener_;
  const std::string peer_;
  const std::shared_ptr<TcpLink> link_;
  NicThread* nic_ = nullptr;  // null before Accept
  std::vector<std::byte> peer_data_;
  absl::Status status_;  // the link's failure, as last copied by NoteFailure
  bool answered_ = false;
};

}  // namespace remora::rdma
