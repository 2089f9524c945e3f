#include "tools/kvctl/doctor/loopback.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/kvctl/doctor/devices.h"

namespace remora::doctor {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::size_t kRequests = 1000;
constexpr std::chrono::seconds kForOneKind{3};
constexpr std::chrono::seconds kForOneRequest{30};
// The page: the bytes that are sent or read, then those that arrive.
constexpr std::size_t kTarget = 2048;
constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* resource) const {
    static_cast<void>(kDestroy(resource));
  }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroyer<kDestroy>>;

/// Two queue pairs of one device, each the peer of the other.
class Loopback {
 public:
  /// Makes them. Returns the call that failed, and why; empty: none.
  std::string Make(ibv_device* device, const PortFacts& port);
  /// Runs one request, from the first queue pair to the second. Returns its fault; empty: none.
  std::string Run(ibv_wr_opcode opcode);

 private:
  std::string Failed(const char* call, int error) { return absl::StrCat(call, ": ", std::strerror(error)); }
  std::string Connect(ibv_qp* pair, std::uint32_t peer, const PortFacts& port);
  std::string PostReceive();
  /// Waits for so many completions.
  std::string Await(int completions);

  std::array<char, 4096> page_{};
  Owned<ibv_context, &ibv_close_device> context_;
  Owned<ibv_pd, &ibv_dealloc_pd> domain_;
  Owned<ibv_mr, &ibv_dereg_mr> region_;
  Owned<ibv_cq, &ibv_destroy_cq> queue_;
  std::array<Owned<ibv_qp, &ibv_destroy_qp>, 2> pairs_;
  std::uint16_t lid_ = 0;
  ibv_mtu mtu_ = IBV_MTU_1024;
  ibv_gid gid_{};
};

std::string Loopback::Make(ibv_device* device, const PortFacts& port) {
  context_.reset(ibv_open_device(device));
  if (context_ == nullptr) return Failed("ibv_open_device", errno);
  ibv_port_attr attributes = {};
  const auto number = static_cast<std::uint8_t>(port.number);
  if (const int error = ibv_query_port(context_.get(), number, &attributes); error != 0) {
    return Failed("ibv_query_port", error);
  }
  lid_ = attributes.lid;
  mtu_ = attributes.active_mtu;
  if (ibv_query_gid(context_.get(), number, static_cast<int>(port.gid_index.value_or(0)), &gid_) != 0) {
    return Failed("ibv_query_gid", errno);
  }
  domain_.reset(ibv_alloc_pd(context_.get()));
  if (domain_ == nullptr) return Failed("ibv_alloc_pd", errno);
  region_.reset(ibv_reg_mr(domain_.get(), page_.data(), page_.size(), kAllAccess));
  if (region_ == nullptr) return Failed("ibv_reg_mr", errno);
  queue_.reset(ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0));
  if (queue_ == nullptr) return Failed("ibv_create_cq", errno);
  for (auto& pair : pairs_) {
    ibv_qp_init_attr wanted = {};
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    pair.reset(ibv_create_qp(domain_.get(), &wanted));
    if (pair == nullptr) return Failed("ibv_create_qp", errno);
  }
  std::string failed = Connect(pairs_[0].get(), pairs_[1]->qp_num, port);
  return failed.empty() ? Connect(pairs_[1].get(), pairs_[0]->qp_num, port) : failed;
}

std::string Loopback::Connect(ibv_qp* pair, std::uint32_t peer, const PortFacts& port) {
  const auto number = static_cast<std::uint8_t>(port.number);
  ibv_qp_attr to = {};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = number;
  to.qp_access_flags = kAllAccess;
  if (const int error =
          ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0) {
    return Failed("ibv_modify_qp to INIT", error);
  }
  to = {};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = mtu_;
  to.dest_qp_num = peer;
  to.max_dest_rd_atomic = 1;
  to.min_rnr_timer = 12;  // 0.64 ms
  to.ah_attr.dlid = lid_;
  to.ah_attr.port_num = number;
  to.ah_attr.is_global = port.is_ethernet ? 1 : 0;
  to.ah_attr.grh.dgid = gid_;
  to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid_index.value_or(0));
  to.ah_attr.grh.hop_limit = 1;
  constexpr int kToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int error = ibv_modify_qp(pair, &to, kToReceive); error != 0) {
    return Failed("ibv_modify_qp to RTR", error);
  }
  to = {};
  to.qp_state = IBV_QPS_RTS;
  to.timeout = 16;  // 268 ms
  to.retry_cnt = to.rnr_retry = 7;
  to.max_rd_atomic = 1;
  constexpr int kToSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  const int error = ibv_modify_qp(pair, &to, kToSend);
  return error == 0 ? "" : Failed("ibv_modify_qp to RTS", error);
}

std::string Loopback::PostReceive() {
  ibv_sge target = {.addr = reinterpret_cast<std::uintptr_t>(page_.data() + kTarget),
                    .length = kLoopbackBytes,
                    .lkey = region_->lkey};
  ibv_recv_wr receive = {};
  receive.sg_list = &target;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pairs_[1].get(), &receive, &bad);
  return error == 0 ? "" : Failed("ibv_post_recv", error);
}

std::string Loopback::Await(int completions) {
  const auto deadline = SteadyTime::now() + kForOneRequest;
  for (int seen = 0; seen < completions;) {
    ibv_wc completion = {};
    const int count = ibv_poll_cq(queue_.get(), 1, &completion);
    if (count < 0) return "ibv_poll_cq failed";
    if (count > 0 && completion.status != IBV_WC_SUCCESS) return ibv_wc_status_str(completion.status);
    seen += count;
    if (count == 0 && SteadyTime::now() > deadline) {
      return absl::StrFormat("no completion within %d s", kForOneRequest.count());
    }
  }
  return "";
}

std::string Loopback::Run(ibv_wr_opcode opcode) {
  const bool is_read = opcode == IBV_WR_RDMA_READ;
  const bool is_send = opcode == IBV_WR_SEND;
  page_[0] = static_cast<char>(page_[0] + 1);  // the bytes that arrive are of this request
  if (is_send) {
    if (std::string failed = PostReceive(); !failed.empty()) return failed;
  }
  char* const local = page_.data() + (is_read ? kTarget : 0);
  char* const remote = page_.data() + (is_read ? 0 : kTarget);
  ibv_sge bytes = {
      .addr = reinterpret_cast<std::uintptr_t>(local), .length = kLoopbackBytes, .lkey = region_->lkey};
  ibv_send_wr request = {};
  request.sg_list = &bytes;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(remote);
  request.wr.rdma.rkey = region_->rkey;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(pairs_[0].get(), &request, &bad); error != 0) {
    return Failed("ibv_post_send", error);
  }
  if (std::string failed = Await(is_send ? 2 : 1); !failed.empty()) return failed;
  // The device writes behind the compiler's back.
  const bool is_there = *static_cast<volatile char*>(page_.data() + kTarget) == page_[0];
  return is_there ? "" : "it was completed, and its bytes did not arrive";
}

std::string Measure(Loopback& loopback, ibv_wr_opcode opcode, LoopbackTimes* times) {
  std::vector<double> taken;
  std::string failed;
  const auto begin = SteadyTime::now();
  while (taken.size() < kRequests && SteadyTime::now() - begin < kForOneKind) {
    const auto start = SteadyTime::now();
    failed = loopback.Run(opcode);
    if (!failed.empty()) break;
    taken.push_back(std::chrono::duration<double, std::micro>(SteadyTime::now() - start).count());
  }
  times->count = taken.size();
  if (taken.empty()) return failed;
  std::ranges::sort(taken);
  times->median_us = taken[taken.size() / 2];
  times->p99_us = taken[taken.size() * 99 / 100];
  return failed;
}

/// The port that is used: active, and on Ethernet with an address.
const PortFacts* UsablePort(const DeviceFacts& device) {
  const auto found = std::ranges::find_if(device.ports, [](const PortFacts& port) {
    return port.is_active && (port.gid_index || !port.is_ethernet);
  });
  return found == device.ports.end() ? nullptr : &*found;
}

}  // namespace

LoopbackFacts RunLoopback(const std::string& device) {
  LoopbackFacts facts;
  const RdmaFacts all = ReadDevices();
  const auto chosen = std::ranges::find_if(all.devices, [&](const DeviceFacts& one) {
    return (device.empty() || one.name == device) && UsablePort(one) != nullptr;
  });
  if (chosen == all.devices.end()) return facts;
  facts.device = chosen->name;
  facts.port = UsablePort(*chosen)->number;
  facts.gid_index = UsablePort(*chosen)->gid_index;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Loopback loopback;
  facts.failure = "the device has gone";
  for (int i = 0; i < count; ++i) {
    if (facts.device == ibv_get_device_name(list[i]))
      facts.failure = loopback.Make(list[i], *UsablePort(*chosen));
  }
  if (list != nullptr) ibv_free_device_list(list);
  for (const auto& [kind, opcode] : {std::pair("read", IBV_WR_RDMA_READ),
                                     std::pair("write", IBV_WR_RDMA_WRITE), std::pair("send", IBV_WR_SEND)}) {
    if (!facts.failure.empty()) break;
    facts.times.push_back({.kind = kind});
    facts.failure = Measure(loopback, opcode, &facts.times.back());
    if (!facts.failure.empty()) facts.failure = absl::StrCat(kind, ": ", facts.failure);
  }
  return facts;
}

void JudgeLoopback(const std::optional<LoopbackFacts>& facts, const std::string& asked, Checks* checks) {
  if (!facts || facts->device.empty()) {
    Check none = PassedCheck("rdma_loopback", "");
    none.verdict = Verdict::kProblem;
    none.found =
        facts ? absl::StrCat("there is no ", asked.empty() ? "RDMA device" : asked, " with a usable port")
              : "the driver does not answer";
    none.remedy = "see the lines above, and rdma link show";
    checks->push_back(none);
    return;
  }
  const std::string name = absl::StrCat("rdma.", facts->device, ".loopback_");
  for (const LoopbackTimes& times : facts->times) {
    if (times.count == 0) continue;
    checks->push_back(PassedCheck(
        name + times.kind, absl::StrFormat("median %.2f us, p99 %.2f us, of %d of %d bytes", times.median_us,
                                           times.p99_us, times.count, kLoopbackBytes)));
    checks->back().value = static_cast<std::uint64_t>(times.median_us);
  }
  if (facts->failure.empty()) return;
  Check failed = PassedCheck(absl::StrCat("rdma.", facts->device, ".loopback"), facts->failure);
  failed.verdict = Verdict::kProblem;
  failed.remedy = "see dmesg; ibv_rc_pingpong shows whether other programs can use the device";
  checks->push_back(failed);
}

}  // namespace remora::doctor
