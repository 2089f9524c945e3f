// What hostile and unlucky clients do to a server, each as one bounded act that may be repeated.
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

/// All that can be done over this transport. The last one does nothing but to keep a processor busy.
std::vector<Attack> AttacksOver(rdma::TransportKind kind);

/// A client more than these are refused: what --max_clients has to be.
inline constexpr int kAttackedClients = 12;

}  // namespace remora
