// Counters of a pool of clients.
#pragma once

#include <cstddef>
#include <cstdint>

namespace remora {

/// State of a pool, and counters since it was made.
struct ClientPoolCounters {
  std::size_t in_use = 0;              // leases, and calls that are connecting a client for one
  std::size_t idle = 0;                // clients without a lease
  std::size_t waiting = 0;             // threads that wait for a lease
  std::uint64_t acquires = 0;          // calls of Acquire and TryAcquire
  std::uint64_t waits = 0;             // those that found all clients in use and began to wait
  std::uint64_t timeouts = 0;          // those that ended with DeadlineExceeded because of that
  std::uint64_t connects = 0;          // clients that the pool connected
  std::uint64_t connect_failures = 0;  // attempts to connect one that failed
  std::uint64_t replaced = 0;          // clients destroyed because they were lost (Client::is_lost)
};

}  // namespace remora
