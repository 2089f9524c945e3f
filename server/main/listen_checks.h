// Checks of the addresses of kvserver: whom they would serve, and with which means.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rdma/address.h"
#include "rdma/tls.h"

namespace remora {

bool IsSameAddress(const rdma::Address& one, const rdma::Address& other);

/// Returns whether this machine alone reaches the address.
bool IsLoopback(const rdma::Address& address);

/// Returns OK if each address serves only clients that have shown who they are, or all clients are admitted.
/// `is_settled`: there are tokens, or --insecure_open. Else InvalidArgument, which says what to do.
absl::Status CheckWhomItServes(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls,
                               bool is_settled);

/// Returns the addresses that serve every user of this host: those at a loopback interface that ask for no
/// certificate. `is_settled`: as for CheckWhomItServes.
std::vector<std::string> OpenToThisHost(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls,
                                        bool is_settled);

/// Returns OK if each tls:// address has the means of TLS, and there are no means without such an address.
/// Else InvalidArgument, which says what to do.
absl::Status CheckTls(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls, bool has_tokens);

}  // namespace remora
