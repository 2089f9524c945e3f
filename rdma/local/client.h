// The client's end of a local connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rdma/local/connection.h"
#include "rdma/local/mapping.h"
#include "rdma/local/wire.h"

namespace remora::rdma {

class LocalClient final : public LocalConnection<ClientConnection> {
 public:
  LocalClient(const Address& address, const QueueLimits& limits, const Clock& clock)
      : LocalConnection(limits), path_(address.path), clock_(clock) {}
  ~LocalClient() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) override;
  absl::Status OfferWrite(SharedMemory& memory) override;
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override;

  absl::Status PostReadv(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override;
  MappedRegion* Mapped(const RemoteRegion& region) override;
  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  std::size_t Poll(std::span<Completion> out) override;
  bool PollingPays() override;
  absl::Status Wait(TimePoint deadline) override;
  void Arm() override;
  void Disarm() override;
  int wait_fd() const override { return socket_.get(); }

 private:
  struct Region {
    LocalMapping mapping;
    std::uint64_t size = 0;  // 0: no such region
    bool writable = false;
  };

  absl::Status Shake(std::span<const std::byte> request_data, TimePoint deadline);
  absl::Status ServesAnother() const;
  absl::StatusOr<UniqueFd> ConnectSocket(TimePoint deadline) const;
  absl::StatusOr<ReceivedReply> AwaitReply(TimePoint deadline);
  absl::Status MapAll(const ReceivedReply& received);
  /// The bytes [offset, offset + size) of `region` if the server gave us that, else null.
  std::byte* Find(const RemoteRegion& region, std::uint64_t offset, std::uint64_t size, bool for_write) {
    const std::uint32_t index = region.key - 1;  // unsigned: key 0 becomes too large
    if (index >= regions_.size()) return nullptr;
    const Region& found = regions_[index];
    if (offset > found.size || size > found.size - offset) return nullptr;
    if (for_write && !found.writable) return nullptr;
    return found.mapping.bytes().data() + offset;
  }
  /// Takes the wake-up bytes, and notes a server that has hung up or died.
  void LookAtSocket();
  /// Sleeps for a short while, or until the server wakes this client. Returns false if nothing came, and the
  /// server may have died.
  bool SleepBriefly(TimePoint deadline);
  /// Sleeps, like Wait, until the server wakes this client or hangs up; a signal ends it, too.
  absl::Status Sleep(TimePoint deadline);

  const std::string path_;
  const Clock& clock_;
  LocalMapping listener_mapping_;
  LocalMapping server_mapping_;
  LocalMapping own_mapping_;
  std::array<Region, kLocalMaxRegions> regions_;  // by key - 1
  const LocalListenerPage* listener_page_ = nullptr;
  const SharedMemory* offered_ = nullptr;
  std::uint32_t polls_ = 0;
  bool armed_ = false;
};

}  // namespace remora::rdma
