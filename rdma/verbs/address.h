// From an Address to librdmacm's own: host look-up and connection identifiers.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/verbs/device.h"

namespace remora::rdma {

struct AddressInfoDeleter {
  void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<rdma_addrinfo, AddressInfoDeleter>;

/// Destroys an id, after its queue pair and before its event channel. Its events must be
/// acknowledged by then.
struct IdDeleter {
  void operator()(rdma_cm_id* id) const { static_cast<void>(rdma_destroy_id(id)); }
};
using IdPtr = std::unique_ptr<rdma_cm_id, IdDeleter>;

/// rdma_getaddrinfo(3). `flags`: 0 or RAI_PASSIVE. Unavailable: no such host.
absl::StatusOr<AddressInfo> ResolveHost(const Address& address, int flags);

/// rdma_create_id(3) for reliable connections. `address`: for error messages.
absl::StatusOr<IdPtr> CreateId(EventChannel& events, absl::string_view address);

bool IsWildcard(const sockaddr* address);

/// "10.0.0.7:7471" or "[fe80::1]:7471".
std::string AddressText(const sockaddr* address);

}  // namespace remora::rdma
