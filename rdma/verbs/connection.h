// The part of a verbs connection that both ends share: the queue pair, the requests in flight,
// failure and end.
//
// Every request posted occupies a slot of its queue until a completion says that it, or a later one of the
// same queue, is done (queues complete in order). Completions do not say which kind of request they end when
// they fail, so the slots remember; ibv_wc::wr_id names the slot and the connection:
//
//   bits 63..32  serial of the connection in its completion queue
//   bit  31      1 for the receive queue, 0 for the send queue
//   bits 30..0   number of the request in its queue, counted up
//
// WRITEs are posted unsignalled: the completion of the SEND behind them stands for them. The one that takes
// the last free slot is signalled, so that a queue full of WRITEs drains, too. Requests that bind a memory
// window are like WRITEs in this.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/transport.h"
#include "rdma/verbs/device.h"

namespace remora::rdma {

/// Pieces of ibv_wc::wr_id.
inline constexpr std::uint32_t kReceiveBit = std::uint32_t{1} << 31;
inline constexpr std::uint64_t MakeRequestId(std::uint32_t serial, std::uint32_t request) {
  return (std::uint64_t{serial} << 32) | request;
}
inline constexpr std::uint32_t SerialOf(std::uint64_t request_id) {
  return static_cast<std::uint32_t>(request_id >> 32);
}

/// The requests in flight in one queue, oldest first.
class RequestRing {
 public:
  enum class Kind : std::uint8_t { kRead, kSend, kReceive, kWrite };  // kWrite: also a window's binding
  struct Request {
    std::uint64_t context = 0;
    Kind kind = Kind::kWrite;
  };

  explicit RequestRing(std::uint32_t limit);

  bool empty() const { return size_ == 0; }
  std::uint32_t free_slots() const { return limit_ - size_; }
  /// The number that the next Push takes; below kReceiveBit.
  std::uint32_t next_number() const { return (oldest_ + size_) & (kReceiveBit - 1); }
  void Push(const Request& request);
  /// Ends request `number` and those before it, which are WRITEs.
  Request Retire(std::uint32_t number);
  /// Ends the oldest one. REQUIRES: !empty().
  Request RetireOldest() { return Retire(oldest_); }

 private:
  Request& At(std::uint32_t number) { return slots_[number & (slots_.size() - 1)]; }

  const std::uint32_t limit_;
  std::vector<Request> slots_;  // as many as a power of two, so that numbers may wrap around
  std::uint32_t oldest_ = 0;
  std::uint32_t size_ = 0;
};

/// `End`: ClientConnection or ServerConnection.
///
/// The class has more than 25 methods, because it has all that both ends of a connection do, over one queue
/// pair.
template <typename End>
class VerbsConnection : public End {
 public:
  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  std::span<const std::byte> peer_data() const override { return peer_data_; }

  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  absl::Status PostSend(std::uint64_t context, const Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const Sge& into) override;
  const absl::Status& status() const override { return failure_; }
  std::string peer() const override { return peer_; }

  // --- For whoever polls the completion queue ------------------------------------------------------

  std::uint32_t serial() const { return serial_; }
  /// Returns whether nothing but receives is in flight.
  bool sends_are_done() const { return sends_.empty(); }
  /// Takes note of a completion of this connection. True: `out` is what the caller should see of it.
  bool Finish(const ibv_wc& completion, Completion& out);
  /// Breaks the connection. The first cause wins. All requests in flight are going to be flushed.
  void Break(absl::Status cause);
  /// Like Break, where requests that failed before may still have completions: the first of these
  /// replaces the cause.
  void BreakByEvent(absl::Status cause);
  /// Returns the next completion that is still due, lastly kDisconnected, when the connection is
  /// broken and its completions have been taken. False: nothing (now).
  bool NextAfterBreak(Completion& out);

 protected:
  /// `id` is that of the derived class, and belongs to a device. This class uses its queue pair,
  /// its device and its addresses. A null queue pair means that there is none, or none any more,
  /// and that nobody else flushes the posted requests. `device`: where it has memory windows,
  /// GrantWrite takes them.
  VerbsConnection(rdma_cm_id* id, std::string peer, std::uint32_t serial, const QueueLimits& limits,
                  DeviceLimits device);

  /// Does the work of ClientConnection::PostReadv.
  absl::Status PostRead(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                        std::uint64_t offset);
  /// Does the work of ServerConnection::GrantWrite.
  absl::StatusOr<std::unique_ptr<Registration>> Grant(std::span<std::byte> bytes);
  /// Posts a request that only the peer's device answers, if nothing else is in flight.
  void PostProbe();
  /// Has the queue pair flush what is posted, now or later; where it cannot, there is none any more.
  virtual void BreakQueuePair() = 0;
  /// Notes that a request that binds a window is posted, now or by another thread with this id.
  /// REQUIRES: there is space.
  std::uint64_t NoteBind();

  rdma_cm_id* id() const { return id_; }
  bool connected() const { return connected_; }
  /// Returns the parameters to ask for, or to accept. The depths are cut to the device's, and never
  /// 0: that makes a READ hang.
  rdma_conn_param ConnectionParameters(std::uint32_t initiator_depth, std::uint32_t responder_resources,
                                       std::span<const std::byte> data) const;
  void SetPeerData(std::vector<std::byte> data) { peer_data_ = std::move(data); }
  /// Allows requests to be posted from now on. `reads`: how many READs the device works on at once.
  void SetConnected(std::uint32_t reads);
  /// Messages up to this size travel inside the request.
  void SetInlineSize(std::uint32_t size) { inline_size_ = size; }
  const QueueLimits& limits() const { return limits_; }
  const DeviceLimits& device() const { return device_; }

 private:
  struct SgeList;

  absl::Status CheckOneSided(std::span<const Sge> sges, const RemoteRegion& region, std::uint64_t offset,
                             SgeList& list) const;
  absl::Status CheckSendQueue() const;
  absl::Status PostFailed(absl::string_view call) const;

  rdma_cm_id* const id_;
  const std::uint32_t serial_;
  const QueueLimits limits_;
  const DeviceLimits device_;
  std::uint32_t inline_size_ = 0;
  RequestRing sends_;
  RequestRing receives_;
  std::vector<std::byte> peer_data_;
  std::string peer_;
  absl::Status failure_;
  bool connected_ = false;
  // failure_ comes from a flushed request or an event: a request that really failed replaces it.
  bool is_replaceable_ = false;
  bool disconnect_reported_ = false;
};

}  // namespace remora::rdma
