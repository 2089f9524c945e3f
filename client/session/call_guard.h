// Detects two threads in one client, before they read each other's values or crash in another place.
//
// The guard ends the process. A status would let a program continue that gets wrong values now and then, and
// some functions have none: Poll, the end of a scan, destructors. The check has no locked instruction,
// because each GET would pay for it, so it does not detect the mistake each time. It never mistakes threads
// that take turns, and synchronize with each other, for two at once.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/session/fork_guard.h"

namespace remora {

/// Marks a client as in use during a call.
class InUse {
 public:
  /// Scope of a call of the public API.
  class Call {
   public:
    explicit Call(InUse& in_use) : in_use_(in_use) { in_use_.Begin(); }
    ~Call() { in_use_.End(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    InUse& in_use_;
  };
  /// Scope of a callback inside a call, which may call the client.
  class Callback {
   public:
    explicit Callback(InUse& in_use) : in_use_(in_use) { in_use_.End(); }
    ~Callback() { in_use_.Begin(); }
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;

   private:
    InUse& in_use_;
  };

  // Relaxed: the flag orders nothing. Threads that take turns synchronize, and so the next one sees its
  // value.
  void Begin() {
    if (is_.load(std::memory_order_relaxed)) [[unlikely]]
      UsedAlready();
    is_.store(true, std::memory_order_relaxed);
  }
  void End() { is_.store(false, std::memory_order_relaxed); }
  /// Returns whether this process is a forked child of the one that made the client.
  bool is_forked() const { return forks_ != Forks::Count(); }

 private:
  /// Ends the process with a message. Returns in a forked child, whose calls report that instead.
  [[gnu::noinline, gnu::cold]] void UsedAlready() const;

  std::atomic<bool> is_ = false;
  const std::uint64_t forks_ = Forks::Count();
};

}  // namespace remora
