// The server's end of a local connection.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rdma/local/connection.h"
#include "rdma/local/mapping.h"
#include "rdma/local/wire.h"
#include "rdma/shared_memory.h"

namespace remora::rdma {

class LocalListener;

class LocalServer final : public LocalConnection<ServerConnection> {
 public:
  /// REQUIRES: `hello` has been checked, and `listener` outlives the connection. `offered` is the
  /// memory that the client offers, or nothing.
  LocalServer(LocalListener& listener, UniqueFd socket, const ucred& peer, const LocalHello& hello,
              LocalMapping offered);
  ~LocalServer() override;

  absl::StatusOr<std::unique_ptr<Registration>> ProvideWrite(std::string_view name,
                                                             std::size_t size) override;
  /// Unimplemented: a process keeps what it has mapped.
  absl::StatusOr<std::unique_ptr<Registration>> GrantWrite(SharedMemory& memory, std::size_t offset,
                                                           std::size_t size) override;
  absl::Status Accept(std::span<const std::byte> data) override;
  void Reject(std::span<const std::byte> data) override;

  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  absl::Status PostSend(std::uint64_t context, const Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const Sge& into) override;
  bool TakesLong(std::size_t size) const override {
    return usable() && FreeSlots() >= LocalSlotsOf(size) + 2 * limits_.receives;
  }

  /// The socket has something to read: wake-ups, or its end.
  void OnSocketEvent();
  int socket() const { return socket_.get(); }

  // --- For PolledConnections ---
  /// Parks the connection (A6), unless Take would return something now. Returns whether it is parked.
  bool Park();
  void Unpark();
  bool is_parked() const { return is_parked_; }
  /// Returns whether the client can send a message.
  bool CanWake() const { return usable(); }
  /// Returns the word by which the client wakes a server that sleeps briefly (A4). REQUIRES: CanWake.
  std::atomic<std::uint32_t>& wakes();
  /// Returns the number of the last call of Take that returned a completion of this connection.
  std::uint32_t busy_at() const { return busy_at_; }
  void set_busy_at(std::uint32_t takes) { busy_at_ = takes; }

 private:
  /// Makes the memory of the rings.
  absl::Status MakeSides(std::uint32_t slots);
  absl::Status SendAcceptance(std::span<const std::byte> data, std::uint32_t slots);
  /// Closes the descriptors of the rings, which the client has received. The connection keeps its socket
  /// only.
  void CloseDescriptors();

  LocalListener& listener_;
  const LocalMapping offered_;
  std::unique_ptr<SharedMemory> server_memory_;
  std::unique_ptr<SharedMemory> client_memory_;
  std::vector<SharedMemory*> writes_;  // in the order of their keys; only until Accept
  bool answered_ = false;
  bool is_parked_ = false;
  std::uint32_t busy_at_ = 0;
};

}  // namespace remora::rdma
