// RDMA devices and their ports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

struct PortFacts {
  unsigned number = 1;
  std::string state;  // "ACTIVE", as ibv_port_state_str(3) has it in lower case or upper case
  bool is_active = false;
  bool is_ethernet = false;
  unsigned active_mtu = 0;  // bytes of payload in a packet
  unsigned max_mtu = 0;
  std::optional<unsigned> gid_index{};  // that connections use: of an IP address, on Ethernet
  std::string gid_type;                 // "RoCE v2"
  std::string netdev;                   // empty: none
};

struct DeviceFacts {
  std::string name;
  std::string failure;  // why it cannot be opened; empty: the rest holds
  std::string firmware;
  std::uint64_t max_mr_size = 0;
  bool memory_windows = false;  // of type 2B
  std::vector<PortFacts> ports;
};

struct RdmaFacts {
  std::vector<std::string> in_kernel;  // names of the kernel's devices
  std::vector<DeviceFacts> devices;    // those that libibverbs has a driver for
};

/// May wait for a device's driver.
RdmaFacts ReadDevices();

/// Adds rdma_devices, and of each device and port some of its own. `facts`: nothing if a driver did not
/// answer. Shows no addresses.
void JudgeDevices(const std::optional<RdmaFacts>& facts, const Plan& plan, Checks* checks);

/// Returns whether this GID, as sysfs writes it, is an IP address that another machine can reach: neither
/// zero nor link-local.
bool IsAddressGid(const std::string& gid);

}  // namespace remora::doctor
