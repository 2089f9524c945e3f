// Which thread runs the event loop: the server thread, or a transport's thread while the server thread
// sleeps.
//
// A transport with threads of its own receives a request in such a thread. To wake the server thread costs
// more than most requests do. So that thread runs the loop itself, for the requests of its own listener:
//
//   the server thread                           a transport's thread
//   Arm all listeners, look once more           queues a completion, and finds its listener armed
//   Give                                        TryServe: false -> wakes the server thread
//   sleep until something is signalled                    true  -> the loop has looked at the listener
//   TakeBack
//   Disarm all listeners
//
//   L1  One thread at a time runs the loop. All that one did happens before what the next one does.
//   L2  No request is lost. After TryServe the loop has looked behind the report; or the server thread is
//       signalled, and looks before it sleeps.
//   L3  The server thread sleeps no longer than until the loop's next work, also if a request of another
//       thread has caused that work.
//
// tests/models/handover.pml is the model of L1 and L2.
#pragma once

#include <atomic>
#include <cstdint>

#include "rdma/transport.h"

namespace remora {

/// The right to run a loop.
///
/// Thread safety: the server thread calls Give and TakeBack, any thread TryServe.
class LoopHandover {
 public:
  class Loop {
   public:
    /// Serves the requests of `listener` while the server thread sleeps. Wakes it for work that is left (L3).
    virtual void ServeForSleeper(rdma::Listener& listener) = 0;

   protected:
    ~Loop() = default;
  };

  /// Lets other threads run `loop` until TakeBack. Until then, the server thread does not use it.
  void Give(Loop& loop);
  /// Waits until no other thread runs the loop, and keeps all of them from it.
  void TakeBack();

  /// Serves the requests of `listener`. False: another thread has the loop, and may have looked at the
  /// listener before.
  bool TryServe(rdma::Listener& listener);

 private:
  enum class State : std::uint8_t {
    kOwned,    // by the server thread
    kFree,     // the server thread sleeps
    kServing,  // another thread runs the loop
  };

  std::atomic<State> state_ = State::kOwned;
  Loop* loop_ = nullptr;  // changes while the state is kOwned
};

}  // namespace remora
