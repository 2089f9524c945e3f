// The transport between processes of one host: mapped memory, with a Unix socket to meet and to wake.
// The contract is transport.h; how it works is told in local_wire.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Dial for an address of kind kLocal. The socket is first touched by Connection::Connect, which besides what
/// transport.h lists returns PermissionDenied when the server serves another user, or is another user's who
/// put a socket there (root connects to any), and Unavailable when it is of another version, or none of ours.
absl::StatusOr<std::unique_ptr<Connection>> DialLocal(const Address& address, const QueueLimits& limits,
                                                      const Clock& clock, TimePoint deadline);

/// Listen for an address of kind kLocal. Makes the socket PATH, for its owner only, and PATH.lock, which is
/// held as long as the listener lives and stays behind after it, unlocked. A socket left by a server that
/// died is replaced; anything else found at PATH is left alone (AlreadyExists). So is what has taken the
/// socket's place when the listener is destroyed.
///
/// A client's mapping cannot be taken back: memory given to RegisterWrite is that client's to change until
/// the memory is destroyed, even after the Registration and the connection are. Never give it to another
/// connection, nor trust bytes that are still in it. Such a client may also READ what it may WRITE.
///
/// The thread that calls this must be the one that destroys the listener, and must live until then: clients
/// take its end for the end of the server.
absl::StatusOr<std::unique_ptr<Listener>> ListenLocal(const Address& address, const QueueLimits& limits,
                                                      const Clock& clock);

/// SharedBytesOf for kLocal: the page that says whether the server lives, and the message rings.
SharedBytes SharedBytesOfLocal(const QueueLimits& limits);
/// DescriptorsOf for kLocal.
Descriptors DescriptorsOfLocal();

}  // namespace remora::rdma
