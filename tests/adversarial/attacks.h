// Acts of hostile and unlucky clients against a server, each bounded, so that it may be repeated.
#pragma once

#include <string>
#include <vector>

#include "rdma/address.h"

namespace remora {

struct Attack {
  const char* name;
  /// The server's counter that grows with each act. Null: it is none of the server's business.
  const char* counter;
  /// Begins, does it, and leaves, one way or the other.
  void (*act)(const rdma::Address& where);
};

/// All that can be done over this transport. The last one does nothing but to keep a CPU busy.
std::vector<Attack> AttacksOver(rdma::TransportKind kind);

/// Clients beyond this number are rejected: --max_clients has to be this.
inline constexpr int kAttackedClients = 12;

}  // namespace remora
