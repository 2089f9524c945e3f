// Notices two threads in one client, before they read each other's values or crash somewhere else.
//
// It ends the process. The check has no locked instruction, since each GET would pay for that, so it does not
// notice the mistake each time. A status would let a program continue that gets wrong values now and then;
// Poll, the end of a scan and destructors return no status. Threads that take turns, and tell
// each other, are never taken for two at once.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/session/fork_guard.h"

namespace remora {

class InUse {
 public:
  /// For the length of a call of the public API.
  class Call {
   public:
    explicit Call(InUse& in_use) : in_use_(in_use) { in_use_.Begin(); }
    ~Call() { in_use_.End(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    InUse& in_use_;
  };
  /// For the length of a callback inside a call: it may call the client.
  class Callback {
   public:
    explicit Callback(InUse& in_use) : in_use_(in_use) { in_use_.End(); }
    ~Callback() { in_use_.Begin(); }
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;

   private:
    InUse& in_use_;
  };

  // Relaxed: it orders nothing, and of threads that take turns, what orders these lets the next one see it.
  void Begin() {
    if (is_.load(std::memory_order_relaxed)) [[unlikely]]
      UsedAlready();
    is_.store(true, std::memory_order_relaxed);
  }
  void End() { is_.store(false, std::memory_order_relaxed); }

 private:
  /// But in a forked child, whose calls say so.
  [[gnu::noinline, gnu::cold]] void UsedAlready() const;

  std::atomic<bool> is_ = false;
  const std::uint64_t forks_ = Forks::Count();
};

}  // namespace remora
