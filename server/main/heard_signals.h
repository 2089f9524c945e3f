// Handlers of signals, for a process whose signals may be blocked.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace remora {

struct SignalHandler {
  int number = 0;
  void (*handle)(int number) = nullptr;  // calls only functions that are safe in a handler
};

/// Installs the handlers, and unblocks their signals: also those that the parent process has blocked.
inline void HearSignals(std::initializer_list<SignalHandler> handlers) {
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const auto& [number, handle] : handlers) {
    struct sigaction action = {};
    action.sa_handler = handle;
    ::sigaction(number, &action, nullptr);
    ::sigaddset(&heard, number);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);
}

}  // namespace remora
