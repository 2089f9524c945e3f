// Sleeping on a word of memory that processes share: futex(2).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "store/base/clock.h"

namespace remora::rdma {

/// Sleeps until FutexWake is called on `word`, unless it has another value than `seen` by then. Returns
/// false if `longest` went by. A signal ends the sleep, too. The caller may have mapped the word read-only.
bool FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration longest);

/// A word, and the value that the caller has seen in it.
struct SeenWord {
  std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t seen = 0;
};

/// The most words of FutexWaitAny.
inline constexpr std::size_t kMaxFutexWords = 32;

/// Returns whether the system has FutexWaitAny: Linux 5.16 and later, except where a filter of system calls
/// keeps it away.
bool HasFutexWaitAny();

/// Sleeps until FutexWake is called on one of `words`, unless one has another value than was seen. Otherwise
/// as FutexWait. REQUIRES: there are words, and one alone, or HasFutexWaitAny and at most kMaxFutexWords.
bool FutexWaitAny(std::span<const SeenWord> words, Duration longest);

/// Wakes one thread that sleeps on `word`. Never blocks.
void FutexWake(const std::atomic<std::uint32_t>& word);

/// Changes `word`, and wakes one thread that sleeps on it. A thread that has seen it before does not fall
/// asleep on it.
void FutexNotify(std::atomic<std::uint32_t>& word);

}  // namespace remora::rdma
