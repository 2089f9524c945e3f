#include "tests/adversarial/raw_verbs.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "store/base/check.h"

namespace remora {
namespace {

constexpr std::uint64_t kIsReceive = std::uint64_t{1} << 32;

}  // namespace

std::unique_ptr<RawPeer> MakeRawVerbs(const rdma::Address& where, bool takes_replies) {
  return std::make_unique<RawVerbs>(where, takes_replies);
}

RawVerbs::RawVerbs(const rdma::Address& where, bool takes_replies) : takes_replies_(takes_replies) {
  REMORA_CHECK(Resolve(where));
  REMORA_CHECK(MakeQueuePair());
}

RawVerbs::~RawVerbs() {
  if (id_ != nullptr && id_->qp != nullptr) {
    static_cast<void>(rdma_disconnect(id_));
    rdma_destroy_qp(id_);
  }
  if (mr_ != nullptr) ibv_dereg_mr(mr_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

bool RawVerbs::AwaitEvent(rdma_cm_event_type wanted) {
  for (;;) {
    pollfd wait{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    rdma_cm_event* event = nullptr;
    if (poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) != 1) return false;
    if (rdma_get_cm_event(channel_, &event) != 0) return false;
    const rdma_cm_event_type type = event->event;
    const rdma_conn_param& param = event->param.conn;
    if ((type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED) &&
        param.private_data != nullptr) {
      const auto* const data = static_cast<const std::byte*>(param.private_data);
      said_.assign(data, data + param.private_data_len);
    }
    rdma_ack_cm_event(event);
    if (type == wanted) return true;
    if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) return false;
  }
}

bool RawVerbs::Resolve(const rdma::Address& where) {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr || rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) return false;
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  std::string host = where.host, port = std::to_string(where.port);
  if (rdma_getaddrinfo(host.data(), port.data(), &hints, &info) != 0) return false;
  const int resolved = rdma_resolve_addr(id_, info->ai_src_addr, info->ai_dst_addr, 5000);
  rdma_freeaddrinfo(info);
  return resolved == 0 && AwaitEvent(RDMA_CM_EVENT_ADDR_RESOLVED) && rdma_resolve_route(id_, 5000) == 0 &&
         AwaitEvent(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

bool RawVerbs::MakeQueuePair() {
  cq_ = ibv_create_cq(id_->verbs, static_cast<int>(kDepth + kReceives), nullptr, nullptr, 0);
  if (cq_ == nullptr) return false;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = kDepth,
                    .max_recv_wr = kReceives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  if (rdma_create_qp(id_, nullptr, &attributes) != 0) return false;
  const int access = IBV_ACCESS_LOCAL_WRITE;  // the macro below does arithmetic with it
  mr_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(), access);
  if (mr_ == nullptr) return false;
  for (std::uint64_t i = 0; takes_replies_ && i < kReceives; ++i) PostReceive(i);
  return true;
}

rdma_conn_param RawVerbs::Parameters(std::span<const std::byte> hello) const {
  rdma_conn_param param{};
  param.private_data = hello.data();
  param.private_data_len = static_cast<std::uint8_t>(hello.size());
  param.initiator_depth = 4;
  param.responder_resources = 4;
  param.retry_count = 6;
  param.rnr_retry_count = 7;  // for ever
  return param;
}

RawPeer::Answer RawVerbs::Join(std::span<const std::byte> hello) {
  rdma_conn_param param = Parameters(hello);
  if (rdma_connect(id_, &param) != 0) return Answer::kHungUpOn;
  if (AwaitEvent(RDMA_CM_EVENT_ESTABLISHED)) return Answer::kAccepted;
  return said_.empty() ? Answer::kHungUpOn : Answer::kRejected;
}

void RawVerbs::JoinHalf(std::span<const std::byte> hello) {
  rdma_conn_param param = Parameters(hello);
  REMORA_CHECK(rdma_connect(id_, &param) == 0);
}

void RawVerbs::PostReceive(std::uint64_t index) {
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory_.data() + index * kReceiveSize),
              .length = kReceiveSize,
              .lkey = mr_->lkey};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = kIsReceive | index;
  request.sg_list = &sge;
  request.num_sge = 1;
  static_cast<void>(ibv_post_recv(id_->qp, &request, &bad));
}

bool RawVerbs::Poll() {
  std::array<ibv_wc, 16> batch;
  const int count = ibv_poll_cq(cq_, static_cast<int>(batch.size()), batch.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = batch[static_cast<std::size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) ended_ = true;
    if ((completion.wr_id & kIsReceive) == 0) {
      ++done_;
      last_ = completion.status;
    } else if (completion.status == IBV_WC_SUCCESS) {
      const std::uint64_t index = completion.wr_id & (kIsReceive - 1);
      messages_.emplace_back(reinterpret_cast<const char*>(memory_.data() + index * kReceiveSize),
                             completion.byte_len);
      PostReceive(index);
    }
  }
  // A server that goes says so to the connection's manager, and not to the queue pair.
  pollfd wait{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  rdma_cm_event* event = nullptr;
  if (count == 0 && !ended_ && poll(&wait, 1, 0) == 1 && rdma_get_cm_event(channel_, &event) == 0) {
    ended_ = event->event == RDMA_CM_EVENT_DISCONNECTED;
    rdma_ack_cm_event(event);
  }
  return count > 0;
}

bool RawVerbs::PostSend(ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key, std::size_t size) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (posted_ - done_ == kDepth && !ended_) {
    if (!Poll() && std::chrono::steady_clock::now() > deadline) return false;
  }
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory_.data() + kDataAt),
              .length = static_cast<std::uint32_t>(size),
              .lkey = mr_->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.opcode = operation;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &sge;
  request.num_sge = size > 0 ? 1 : 0;
  if (operation == IBV_WR_ATOMIC_FETCH_AND_ADD || operation == IBV_WR_ATOMIC_CMP_AND_SWP) {
    request.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 1, .rkey = key};
  } else if (operation == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = key;
  } else {
    request.wr.rdma = {.remote_addr = address, .rkey = key};
  }
  if (ibv_post_send(id_->qp, &request, &bad) != 0) return false;
  ++posted_;
  return true;
}

ibv_wc_status RawVerbs::Do(ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key,
                           std::string_view bytes) {
  if (!bytes.empty()) std::memcpy(memory_.data() + kDataAt, bytes.data(), bytes.size());
  if (!PostSend(operation, address, key, bytes.size())) return IBV_WC_GENERAL_ERR;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // Of a connection that has ended, nothing may come for seconds.
  while (done_ < posted_ && !ended_ && std::chrono::steady_clock::now() < deadline) Poll();
  return done_ == posted_ ? last_ : IBV_WC_GENERAL_ERR;
}

std::string RawVerbs::bytes(std::size_t size) const {
  return {reinterpret_cast<const char*>(memory_.data() + kDataAt), size};
}

void RawVerbs::Write(std::uint64_t offset, std::string_view bytes) {
  if (offset > hello_.staging.size || bytes.size() > hello_.staging.size - offset) return;
  static_cast<void>(Do(IBV_WR_RDMA_WRITE, hello_.staging.address + offset, hello_.staging.key, bytes));
}

bool RawVerbs::Send(std::span<const std::byte> message) {
  const std::string copy(reinterpret_cast<const char*>(message.data()), message.size());
  return Do(IBV_WR_SEND, 0, 0, copy) == IBV_WC_SUCCESS;
}

std::optional<std::string> RawVerbs::Receive(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (next_message_ == messages_.size()) {
    if (!Poll() && (ended_ || std::chrono::steady_clock::now() > deadline)) return std::nullopt;
  }
  std::string message = std::move(messages_[next_message_++]);
  if (next_message_ == messages_.size()) {
    messages_.clear();
    next_message_ = 0;
  }
  return message;
}

bool RawVerbs::AwaitEnd(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!ended_ && std::chrono::steady_clock::now() < deadline) Poll();
  return ended_;
}

}  // namespace remora
