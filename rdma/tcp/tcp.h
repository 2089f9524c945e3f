// The transport between hosts without RDMA: READs and WRITEs over TCP. Threads of the server's process serve
// them, beside the server thread, which serves requests. transport.h states the contract, wire.h the format.
//
//   server's process
//     server thread   TcpListener, TcpServer     posts, polls
//     NIC threads     NicThread, TcpAcceptor     accept, take frames, answer READs
//     both            TcpLink, under its mutex   one connection
//   client's process
//     its one thread  TcpClient
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/tls.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Implements Dial for an address of kind kTcp. ClientConnection::Connect tries the addresses of the host in
/// order. Beside the outcomes in transport.h, it returns Unavailable if the server speaks another version, or
/// is no Remora server. With TLS, it returns PermissionDenied if one side does not accept the certificate or
/// token of the other. InvalidArgument: one side speaks TLS, and the other does not.
absl::StatusOr<std::unique_ptr<ClientConnection>> DialTcp(const Address& address, const QueueLimits& limits,
                                                          const Clock& clock, const ClientTls& tls);

/// Implements Listen for an address of kind kTcp, with `threads` NIC threads, at least one. `tls` is used by
/// an address with TLS, and else may be null.
absl::StatusOr<std::unique_ptr<Listener>> ListenTcp(const Address& address, const QueueLimits& limits,
                                                    const Clock& clock, std::uint32_t threads,
                                                    std::shared_ptr<ServerTls> tls);

/// Implements DescriptorsOf for kTcp.
Descriptors DescriptorsOfTcp();

}  // namespace remora::rdma
