// Sleeping on a word of memory that processes share: futex(2).
#pragma once

#include <atomic>
#include <cstdint>

#include "store/base/clock.h"

namespace remora::rdma {

/// Sleeps until FutexWake is called on `word`, unless it has another value than `seen` by then. Returns
/// false if `longest` went by. A signal ends the sleep, too. The caller may have mapped the word read-only.
bool FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration longest);

/// Wakes one thread that sleeps on `word`. Never blocks.
void FutexWake(const std::atomic<std::uint32_t>& word);

}  // namespace remora::rdma
