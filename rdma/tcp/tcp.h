// The transport between hosts without RDMA: READs and WRITEs over TCP, served by threads of the server's
// process beside the one that serves requests. The contract is transport.h; the bytes are wire.h's.
//
//   server's process
//     server thread   TcpListener, TcpServer     posts, polls
//     NIC threads     NicThread, TcpAcceptor         accept, take frames, answer READs
//     both            TcpLink, under its mutex   one connection
//   client's process
//     its one thread  TcpClient
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Dial for an address of kind kTcp. ClientConnection::Connect tries the addresses of the host in order;
/// besides what transport.h lists it returns Unavailable when the server is of another version, or none of
/// ours.
absl::StatusOr<std::unique_ptr<ClientConnection>> DialTcp(const Address& address, const QueueLimits& limits,
                                                          const Clock& clock, TimePoint deadline);

/// Listen for an address of kind kTcp: with so many NIC threads, 1 at least.
absl::StatusOr<std::unique_ptr<Listener>> ListenTcp(const Address& address, const QueueLimits& limits,
                                                    const Clock& clock, std::uint32_t threads);

/// DescriptorsOf for kTcp.
Descriptors DescriptorsOfTcp();

}  // namespace remora::rdma
