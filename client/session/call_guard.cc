#include "client/session/call_guard.h"

#include "client/misuse.h"
#include "client/session/fork_guard.h"

namespace remora {

void InUse::UsedAlready() const {
  if (forks_ != Forks::Count()) return;  // only the parent has the thread that was in a call
  EndOnMisuse(
      "a client is used by two threads at once, which it is not made for; give each thread a client of its "
      "own, or have them take turns");
}

}  // namespace remora
