#include "tools/kvctl/redis/interruption.h"

#include <signal.h>

namespace remora::kvctl {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t interrupted = 0;  // for the handler

}  // namespace

Interruption::Interruption() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int number : kSignals) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    // A process that nohup began ignores SIGHUP.
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
}

Interruption::~Interruption() {
  struct sigaction action = {};
  for (const int number : kSignals) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    action.sa_handler = SIG_DFL;
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
}

bool Interruption::came() const { return interrupted != 0; }

}  // namespace remora::kvctl
