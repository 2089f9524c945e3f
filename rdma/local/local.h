// The transport between processes of one host: mapped memory, with a Unix socket to meet and to wake.
// The contract is transport.h; how it works is told in wire.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Dial for an address of kind kLocal. ClientConnection::Connect is the first to touch the socket. It has
/// the outcomes of transport.h, and these:
///
/// - PermissionDenied: the server does not admit this user, or another user has put a socket where everybody
///   may (root connects to any).
/// - Unavailable: the server has another version, or is another program.
absl::StatusOr<std::unique_ptr<ClientConnection>> DialLocal(const Address& address, const QueueLimits& limits,
                                                            const Clock& clock, TimePoint deadline);

/// Listen for an address of kind kLocal. Makes the socket PATH, for those whom `access` admits, and
/// PATH.lock, which is held as long as the listener lives and stays behind after it, unlocked. A socket left
/// by a server that died is replaced; anything else found at PATH is left alone (AlreadyExists). When
/// the listener is destroyed, it removes its own socket, and nothing that has taken its place.
///
/// A client's mapping cannot be taken back: memory given to RegisterWrite is that client's to change until
/// the memory is destroyed, even after the Registration and the connection are. Never give it to another
/// connection, nor trust bytes that are still in it. Such a client may also READ what it may WRITE.
///
/// REQUIRES: the calling thread lives until it destroys the listener. Clients detect the end of the server by
/// the end of this thread.
absl::StatusOr<std::unique_ptr<Listener>> ListenLocal(const Address& address, const QueueLimits& limits,
                                                      const Clock& clock, const LocalAccess& access = {});

/// SharedBytesOf for kLocal: the page that says whether the server lives, and the message rings.
SharedBytes SharedBytesOfLocal(const QueueLimits& limits);
/// DescriptorsOf for kLocal.
Descriptors DescriptorsOfLocal();

}  // namespace remora::rdma
