// A reserve of memory for a server to which the system gives no more (ulimit -v, overcommit). Without it,
// `operator new` would throw in the middle of an operation, in any thread, and end the process silently.
//
//   The server sets some address space aside at the start. The allocation that finds no memory gives it up,
//   and succeeds. So do the allocations behind it, which complete the operations that have begun. From then
//   on the server rejects writes, until it can set as much aside again. An allocation that still finds
//   nothing ends the process, with a line and an exit status.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "store/base/clock.h"

namespace remora {

namespace memory_reserve {
inline std::atomic<bool> is_spent = false;
}  // namespace memory_reserve

/// Sets the reserve aside; a program calls it once, at its start. Without a reserve, an allocation that finds
/// no memory ends the process, with EX_OSERR as exit status. `log_last_lines` writes a line about that, from
/// any thread, and allocates nothing.
void HoldMemoryReserve(void (*log_last_lines)());

/// Sets so many bytes aside in addition; a program calls it once, before it serves. A server with a commit
/// log needs them: RocksDB takes over what is logged, when writes are rejected already. If there is too
/// little memory for that, the reserve stays as it is.
void EnlargeMemoryReserve(std::size_t bytes);

/// Returns true if the server must reject writes. Thread safety: any thread.
inline bool IsShortOfMemory() { return memory_reserve::is_spent.load(std::memory_order_relaxed); }

/// Tries to set the reserve aside again, at most every 100 ms; one thread calls it now and then. Returns a
/// line for the log, or nothing.
std::string_view CheckMemoryReserve(TimePoint now);

}  // namespace remora
