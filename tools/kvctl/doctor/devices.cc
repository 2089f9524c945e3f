#include "tools/kvctl/doctor/devices.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace remora::doctor {
namespace {

constexpr char kClass[] = "/sys/class/infiniband";
// Below, each packet carries little beside its headers.
constexpr unsigned kLeastMtu = 1024;

unsigned MtuBytes(ibv_mtu mtu) { return mtu == 0 ? 0 : 128U << static_cast<unsigned>(mtu); }

void ReadGid(const std::string& device, int gids, PortFacts* port) {
  const std::string folder = absl::StrCat(kClass, "/", device, "/ports/", port->number, "/");
  for (int i = 0; i < gids; ++i) {
    const std::string index = absl::StrCat(i);
    if (!IsAddressGid(ReadLine(folder + "gids/" + index)) && port->is_ethernet) continue;
    const std::string type = ReadLine(folder + "gid_attrs/types/" + index);
    if (port->is_ethernet && type != "RoCE v2") continue;
    port->gid_index = static_cast<unsigned>(i);
    port->gid_type = type.empty() ? "InfiniBand" : type;
    port->netdev = ReadLine(folder + "gid_attrs/ndevs/" + index);
    return;
  }
  // Without an address, the first entry names the interface all the same.
  port->netdev = ReadLine(folder + "gid_attrs/ndevs/0");
}

PortFacts ReadPort(ibv_context* context, const std::string& device, unsigned number) {
  PortFacts port;
  port.number = number;
  ibv_port_attr attributes = {};
  if (ibv_query_port(context, static_cast<std::uint8_t>(number), &attributes) != 0) {
    port.state = "unknown";
    return port;
  }
  port.is_active = attributes.state == IBV_PORT_ACTIVE;
  port.state = absl::AsciiStrToUpper(ibv_port_state_str(attributes.state));
  port.is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.active_mtu = MtuBytes(attributes.active_mtu);
  port.max_mtu = MtuBytes(attributes.max_mtu);
  ReadGid(device, attributes.gid_tbl_len, &port);
  return port;
}

DeviceFacts ReadDevice(ibv_device* device) {
  DeviceFacts facts;
  facts.name = ibv_get_device_name(device);
  errno = 0;
  const std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(ibv_open_device(device),
                                                                    &ibv_close_device);
  if (context == nullptr) {
    facts.failure = std::strerror(errno);
    return facts;
  }
  ibv_device_attr attributes = {};
  if (const int error = ibv_query_device(context.get(), &attributes); error != 0) {
    facts.failure = std::strerror(error);
    return facts;
  }
  facts.firmware = attributes.fw_ver;
  facts.max_mr_size = attributes.max_mr_size;
  facts.memory_windows = (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
    facts.ports.push_back(ReadPort(context.get(), facts.name, port));
  }
  return facts;
}

Verdict Serious(const Plan& plan) { return plan.needs_rdma ? Verdict::kProblem : Verdict::kWarning; }

Check JudgeAll(const RdmaFacts& facts, const Plan& plan) {
  std::size_t active = 0;
  std::vector<std::string> unknown = facts.in_kernel;
  for (const DeviceFacts& device : facts.devices) {
    std::erase(unknown, device.name);
    active += static_cast<std::size_t>(std::ranges::count_if(device.ports, &PortFacts::is_active));
  }
  Check check =
      PassedCheck("rdma_devices", absl::StrFormat("%d, with %d active ports", facts.devices.size(), active));
  check.value = facts.devices.size();
  if (!unknown.empty()) {
    check.verdict = Serious(plan);
    check.found = absl::StrFormat("libibverbs has no driver for %s", absl::StrJoin(unknown, ", "));
    check.remedy = "apt install ibverbs-providers, or what the card's vendor has";
  } else if (facts.devices.empty()) {
    check.found = "none; the local and the TCP transports need none";
    if (!plan.needs_rdma) return check;
    check.verdict = Verdict::kProblem;
    check.found = "none";
    check.remedy =
        "load the card's driver (lspci -k names it); without a card, as root: modprobe rdma_rxe && rdma link "
        "add rxe0 type rxe netdev INTERFACE";
  } else if (active == 0) {
    check.verdict = Serious(plan);
    check.remedy = "connect a port, and set its interface up; rdma link show has the states";
  }
  return check;
}

void JudgePort(const DeviceFacts& device, const PortFacts& port, const Plan& plan, Checks* checks) {
  const std::string name = absl::StrFormat("rdma.%s.%d.", device.name, port.number);
  const std::string netdev = port.netdev.empty() ? "INTERFACE" : port.netdev;
  Check state =
      PassedCheck(name + "port",
                  absl::StrFormat("%s, %s, %s", port.state, port.is_ethernet ? "Ethernet" : "InfiniBand",
                                  port.netdev.empty() ? "without an interface" : "interface " + port.netdev));
  if (!port.is_active) {
    state.verdict = Verdict::kWarning;
    state.remedy = port.is_ethernet
                       ? absl::StrFormat("ip link set %s up; ip link show %s tells whether a cable is there",
                                         netdev, netdev)
                       : "see to the cable, and that a subnet manager runs: ibstat, sminfo";
    checks->push_back(state);
    return;
  }
  checks->push_back(state);

  Check gid = PassedCheck(name + "gid", "");
  if (port.gid_index) {
    gid.value = *port.gid_index;
    gid.found = absl::StrFormat("index %d, %s", *port.gid_index, port.gid_type);
  } else {
    gid.verdict = Serious(plan);
    gid.found = "no GID of RoCE v2 has an IP address, so no address leads here";
    gid.remedy = absl::StrFormat("ip address add ADDRESS/24 dev %s", netdev);
  }
  checks->push_back(gid);

  Check mtu = PassedCheck(name + "mtu",
                          absl::StrFormat("%d bytes in a packet, of %d", port.active_mtu, port.max_mtu));
  mtu.value = port.active_mtu;
  mtu.limit = kLeastMtu;
  if (port.active_mtu < kLeastMtu) {
    mtu.verdict = Verdict::kWarning;
    mtu.remedy =
        absl::StrFormat("large values take more packets; ip link set %s mtu 4500, on all machines", netdev);
  }
  checks->push_back(mtu);
}

void JudgeDevice(const DeviceFacts& device, const Plan& plan, Checks* checks) {
  const std::string name = absl::StrFormat("rdma.%s.", device.name);
  if (!device.failure.empty()) {
    Check open = PassedCheck(name + "open", absl::StrCat("cannot be opened: ", device.failure));
    open.verdict = Serious(plan);
    open.remedy = "this user must be able to read and write it: ls -l /dev/infiniband; apt install rdma-core";
    checks->push_back(open);
    return;
  }
  Check size = PassedCheck(name + "max_mr_size",
                           device.max_mr_size == UINT64_MAX
                               ? "a registration has any size"
                               : absl::StrCat("a registration has up to ", BytesText(device.max_mr_size)));
  size.value = device.max_mr_size;
  size.limit = plan.memory;
  if (device.max_mr_size < plan.memory) {
    size.verdict = Verdict::kProblem;
    size.remedy =
        absl::StrFormat("the server cannot register its memory; give it less: kvserver --memory=%dM",
                        device.max_mr_size >> 20);
  }
  checks->push_back(size);
  Check windows =
      PassedCheck(name + "memory_windows", "of type 2B: each client can write its own buffer alone");
  if (!device.memory_windows) {
    windows.verdict = Verdict::kWarning;
    windows.found = "none of type 2B: a client that guesses a key could write the buffer of another";
    windows.remedy = "let trusted machines alone reach it; see kvserver --memory_windows";
  }
  checks->push_back(windows);
  for (const PortFacts& port : device.ports) JudgePort(device, port, plan, checks);
}

}  // namespace

bool IsAddressGid(const std::string& gid) {
  const bool is_zero = std::ranges::all_of(gid, [](char c) { return c == '0' || c == ':'; });
  return !is_zero && !absl::StartsWith(gid, "fe80:");
}

RdmaFacts ReadDevices() {
  RdmaFacts facts;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kClass, error), end; !error && entry != end;
       entry.increment(error)) {
    facts.in_kernel.push_back(entry->path().filename().string());
  }
  std::ranges::sort(facts.in_kernel);
  if (facts.in_kernel.empty()) return facts;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return facts;
  for (int i = 0; i < count; ++i) facts.devices.push_back(ReadDevice(list[i]));
  ibv_free_device_list(list);
  return facts;
}

void JudgeDevices(const std::optional<RdmaFacts>& facts, const Plan& plan, Checks* checks) {
  if (!facts) {
    Check check = PassedCheck("rdma_devices", "a driver does not answer");
    check.verdict = Serious(plan);
    check.remedy = "see dmesg; the machine may have to be started again";
    checks->push_back(check);
    return;
  }
  checks->push_back(JudgeAll(*facts, plan));
  for (const DeviceFacts& device : facts->devices) JudgeDevice(device, plan, checks);
}

}  // namespace remora::doctor
