// The device under a connection: its limits, and its two queues.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// The limits of a device that matter here (ibv_query_device(3), ibv_query_port(3)).
struct DeviceLimits {
  std::string name;
  std::uint32_t initiator_depth = 0;      // READs under way, as their sender
  std::uint32_t responder_resources = 0;  // as their receiver
  std::uint32_t requests = 0;             // per queue
  std::uint32_t completions = 0;          // per completion queue
  std::uint32_t request_size = 0;         // bytes of one READ or WRITE
  bool memory_windows = false;            // of type 2B: bound by a request, good for one queue pair

  /// REQUIRES: `id` belongs to a device.
  static absl::StatusOr<DeviceLimits> Query(rdma_cm_id* id);
  /// ResourceExhausted: the device has no queues as long as `limits` asks for.
  absl::Status Check(const QueueLimits& limits) const;
};

/// How a queue pair is to be made for connections with these limits. Not every device takes messages of this
/// size inline, and one without inline is only slower: kInlineSizes are to be tried one after the other.
inline constexpr std::uint32_t kInlineSizes[] = {static_cast<std::uint32_t>(kMaxShortMessage), 0};
class CompletionQueue;
ibv_qp_init_attr QueuePairAttributes(const CompletionQueue& completions, const QueueLimits& limits,
                                     std::uint32_t inline_size);

/// How soon a lost packet of the connection is sent again. Before it connects or accepts.
void SetRetransmission(rdma_cm_id* id);

/// In this state a queue pair flushes what is posted, and what will be. False: it cannot be brought there.
bool SetToError(ibv_qp* qp);

/// An rdma_cm_event, copied.
struct ConnectionEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::uint32_t initiator_depth = 0;
  std::uint32_t responder_resources = 0;
  std::vector<std::byte> data;
};

/// An rdma_event_channel that never blocks.
class EventChannel {
 public:
  /// `address`: for error messages. FailedPrecondition: this host has no RDMA.
  static absl::StatusOr<std::unique_ptr<EventChannel>> Open(absl::string_view address);
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  rdma_event_channel* get() const { return channel_; }
  int fd() const { return channel_->fd; }

  /// The next event, if one has come; a system call. It is acknowledged at once: rdma_destroy_id waits for
  /// the acknowledgement of every event of its id, so one kept back could make it wait for ever.
  std::optional<ConnectionEvent> Next();

 private:
  explicit EventChannel(rdma_event_channel* channel) : channel_(channel) {}

  rdma_event_channel* const channel_;
};

/// An ibv_cq with a completion channel of its own.
class CompletionQueue {
 public:
  /// ResourceExhausted: too little locked memory, descriptors or device resources.
  static absl::StatusOr<std::unique_ptr<CompletionQueue>> Create(ibv_context* device, std::uint32_t size);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  ibv_cq* get() const { return cq_; }
  /// Readable after Arm and then a new completion.
  int fd() const { return channel_->fd; }

  /// Takes up to out.size() completions (ibv_poll_cq).
  std::size_t Poll(std::span<ibv_wc> out);
  /// The next completion makes fd() readable; one that is already in the queue does not.
  void Arm();
  /// Makes fd() unreadable.
  void TakeNotifications();

 private:
  CompletionQueue(ibv_comp_channel* channel, ibv_cq* cq) : channel_(channel), cq_(cq) {}

  ibv_comp_channel* const channel_;
  ibv_cq* const cq_;
  unsigned unacknowledged_ = 0;  // ibv_destroy_cq waits until it is 0
};

}  // namespace remora::rdma
