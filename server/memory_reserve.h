// What a server does where the system has no memory left for it (ulimit -v, overcommit): `operator new` would
// throw in the middle of something, in any thread, and end the process without a word.
//
//   Some address space is set aside at the start. The allocation that finds no memory gives it up, and
//   succeeds; so do those behind it that end what has begun. From then on writes are refused, until as much
//   can be set aside again. An allocation that finds nothing even so ends the process, with a line and an
//   exit status.
#pragma once

#include <atomic>
#include <string_view>

#include "store/base/clock.h"

namespace remora {

namespace memory_reserve {
inline std::atomic<bool> is_spent = false;
}  // namespace memory_reserve

/// For a program at its start, once: sets the reserve aside. Where there is none, allocations end the process
/// at once. `last_words`: the line, with its end, without allocating; EX_OSERR is the exit status.
void HoldMemoryReserve(std::string_view last_words);

/// Whether writes are to be refused. Thread Safety: any.
inline bool IsShortOfMemory() { return memory_reserve::is_spent.load(std::memory_order_relaxed); }

/// Now and then, by one thread: sets the reserve aside again if it can be, at most every 100 ms. Returns what
/// there is to tell since the last call: a line for the log, or nothing.
std::string_view LookAtMemoryReserve(TimePoint now);

}  // namespace remora
