#include "rdma/verbs/device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/status.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

// Acknowledging takes a lock, so it is done for many notifications at once.
constexpr unsigned kMaxUnacknowledged = 1024;

// Exponent of the time (4.096 us << 16 = 268 ms) that a packet may stay unacknowledged before it is
// sent again (kRetries). On Ethernet, the choice of librdmacm is 19: one lost packet stalls the
// connection for 2 s, and it gives up after 16 s. Shorter ones give up on hosts that are merely
// overloaded.
constexpr std::uint8_t kAckTimeout = 16;

void MakeNonblocking(int fd) { REMORA_CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

std::uint32_t Positive(int value) { return static_cast<std::uint32_t>(std::max(value, 1)); }

}  // namespace

absl::StatusOr<DeviceLimits> DeviceLimits::Query(rdma_cm_id* id) {
  ibv_device_attr device{};
  ibv_port_attr port{};
  const char* const name = ibv_get_device_name(id->verbs->device);
  if (const int error = ibv_query_device(id->verbs, &device); error != 0) {
    return StatusFromErrno(error, "ibv_query_device", name);
  }
  if (const int error = ibv_query_port(id->verbs, id->port_num, &port); error != 0) {
    return StatusFromErrno(error, "ibv_query_port", name);
  }
  return DeviceLimits{.name = name,
                      .initiator_depth = Positive(device.max_qp_init_rd_atom),
                      .responder_resources = Positive(device.max_qp_rd_atom),
                      .requests = Positive(device.max_qp_wr),
                      .completions = Positive(device.max_cqe),
                      .request_size = port.max_msg_sz,
                      .memory_windows = (device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0};
}

absl::Status DeviceLimits::Check(const QueueLimits& limits) const {
  if (limits.sends == 0 || limits.receives == 0) {
    return absl::InvalidArgumentError("limits: sends and receives must be at least 1");
  }
  const std::uint64_t sum = std::uint64_t{limits.sends} + limits.receives;
  if (limits.sends > requests || limits.receives > requests || sum > completions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("limits: device ", name, " has queues of ", requests, " requests and ", completions,
                     " completions; the configuration asks for ", limits.sends, " sends and ",
                     limits.receives, " receives"));
  }
  return absl::OkStatus();
}

ibv_qp_init_attr QueuePairAttributes(const CompletionQueue& completions, const QueueLimits& limits,
                                     std::uint32_t inline_size) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = completions.get();
  attributes.recv_cq = completions.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = limits.sends,
                    .max_recv_wr = limits.receives,
                    .max_send_sge = kMaxSges,
                    .max_recv_sge = 1,
                    .max_inline_data = inline_size};
  return attributes;
}

void SetRetransmission(rdma_cm_id* id) {
  std::uint8_t timeout = kAckTimeout;
  // A kernel before 5.3 does not know the option; then disconnections cost more time, and nothing else.
  static_cast<void>(
      rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)));
}

// A queue pair may have gone there by itself. It has not when only the peer went away: its requests might
// then be retried for ever. And a receive that was posted to one which had gone there by itself may have been
// overlooked (soft-RoCE posts receives without telling the kernel); this flushes it.
bool SetToError(ibv_qp* qp) {
  ibv_qp_attr error_state{};
  error_state.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(qp, &error_state, IBV_QP_STATE) == 0;
}

absl::StatusOr<std::unique_ptr<EventChannel>> EventChannel::Open(absl::string_view address) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) return StatusFromErrno(errno, "rdma_create_event_channel", address);
  MakeNonblocking(channel->fd);
  return std::unique_ptr<EventChannel>(new EventChannel(channel));
}

EventChannel::~EventChannel() { rdma_destroy_event_channel(channel_); }

std::optional<ConnectionEvent> EventChannel::Next() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return std::nullopt;
  const rdma_conn_param& param = event->param.conn;
  ConnectionEvent copy = {.type = event->event,
                          .status = event->status,
                          .id = event->id,
                          .initiator_depth = param.initiator_depth,
                          .responder_resources = param.responder_resources,
                          .data = {}};
  if (param.private_data != nullptr) {
    const auto* data = static_cast<const std::byte*>(param.private_data);
    copy.data.assign(data, data + param.private_data_len);
  }
  REMORA_CHECK(rdma_ack_cm_event(event) == 0);
  return copy;
}

absl::StatusOr<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(ibv_context* device,
                                                                         std::uint32_t size) {
  const char* const name = ibv_get_device_name(device->device);
  ibv_comp_channel* const channel = ibv_create_comp_channel(device);
  if (channel == nullptr) return StatusFromErrno(errno, "ibv_create_comp_channel", name);
  MakeNonblocking(channel->fd);
  ibv_cq* const cq = ibv_create_cq(device, static_cast<int>(size), nullptr, channel, 0);
  if (cq == nullptr) {
    const int error = errno;
    ibv_destroy_comp_channel(channel);
    return StatusFromErrno(error, "ibv_create_cq", name);
  }
  return std::unique_ptr<CompletionQueue>(new CompletionQueue(channel, cq));
}

CompletionQueue::~CompletionQueue() {
  TakeNotifications();
  ibv_ack_cq_events(cq_, unacknowledged_);
  REMORA_CHECK(ibv_destroy_cq(cq_) == 0);  // else a queue pair still uses it
  REMORA_CHECK(ibv_destroy_comp_channel(channel_) == 0);
}

std::size_t CompletionQueue::Poll(std::span<ibv_wc> out) {
  const int count = ibv_poll_cq(cq_, static_cast<int>(out.size()), out.data());
  // Negative only when the device wrote what no driver understands.
  REMORA_CHECK(count >= 0);
  return static_cast<std::size_t>(count);
}

void CompletionQueue::Arm() {
  // Fails only for a device that was removed; its connections learn that by an event.
  static_cast<void>(ibv_req_notify_cq(cq_, 0));
}

void CompletionQueue::TakeNotifications() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_, &cq, &context) == 0) ++unacknowledged_;
  if (unacknowledged_ >= kMaxUnacknowledged) {
    ibv_ack_cq_events(cq_, unacknowledged_);
    unacknowledged_ = 0;
  }
}

}  // namespace remora::rdma
