// The verbs transport: librdmacm and libibverbs over any RDMA device, a soft-RoCE one included.
//
// How it is read, in the order of a connection's life:
//   status.cc          errno, connection events and completions in plain words
//   device.cc          what the device can do; the event channel and the completion queue
//   client.cc          Dial, Connect, Poll, Wait
//   listener.cc        Listen, NextRequest, Poll, Arm
//   server.cc          the server's end: Accept, Reject
//   cm_thread.cc       the listener's second thread: events, handshakes, ends
//   resource_pool.cc   what that thread makes ahead
//   connection.cc      both ends: requests, failure
//   memory_window.cc   memory, and windows to it
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Dial and Listen (transport.h) for addresses of kind kVerbs. Beyond the contract:
///
/// - The host is looked up with getaddrinfo(3), which knows no deadline: give an address where that
///   matters.
/// - A listener needs one concrete address. A wildcard one is FailedPrecondition: it would belong to no
///   device, and memory is registered with a device.
/// - librdmacm gives a process one protection domain per device. So a key is good for every
///   connection of this process on that device, not only for those of the listener or connection
///   that made it. A window's key, by contrast, is good for its queue pair alone. Where the device
///   has memory windows of type 2B, they cover the memory that a server's connection registers or
///   grants to WRITE.
/// - A listener has a fixed number of connections: 512, or as many as fit a completion queue of the
///   device. Further requests are rejected without data.
/// - A peer whose process ends is noticed at once. One that cannot be reached is noticed only while
///   requests, or a Probe, are in flight, after some 2 s of retries.
/// - Connection::peer() also names the device and how many READs it works on at once, as both sides
///   agreed.
absl::StatusOr<std::unique_ptr<ClientConnection>> DialVerbs(const Address& address, const QueueLimits& limits,
                                                            const Clock& clock, TimePoint deadline);
absl::StatusOr<std::unique_ptr<Listener>> ListenVerbs(const Address& address, const QueueLimits& limits,
                                                      MemoryWindows windows);
/// SharedBytesOf for kVerbs: the queues are the device's and its driver's.
SharedBytes SharedBytesOfVerbs();

}  // namespace remora::rdma
