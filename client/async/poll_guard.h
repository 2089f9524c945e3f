// Notices calls of an AsyncClient that come while it polls.
#pragma once

#include <thread>

#include "client/misuse.h"

namespace remora {

/// Knows the thread that is in Poll, and in the callbacks that Poll calls.
///
/// Thread safety: none. It ends the process if it sees that two threads use the client.
class PollGuard {
 public:
  /// Names this thread as the one that polls while it exists, also if a callback throws.
  class Polling {
   public:
    explicit Polling(PollGuard& guard) : guard_(guard) { guard_.poller_ = std::this_thread::get_id(); }
    ~Polling() { guard_.poller_ = std::thread::id(); }
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;

   private:
    PollGuard& guard_;
  };

  bool is_polling() const { return poller_ != std::thread::id(); }
  /// Ends the process within a Poll: says `mistake` if it is one of a callback, or that two threads use the
  /// client.
  void CheckNotInPoll(const char* mistake) const {
    if (!is_polling()) return;
    if (poller_ == std::this_thread::get_id()) EndOnMisuse(mistake);
    EndOnMisuse(
        "an AsyncClient is used by two threads at once, which it is not made for; give each thread a client "
        "of its own, or have them take turns");
  }

 private:
  std::thread::id poller_;  // none: nobody polls
};

}  // namespace remora
