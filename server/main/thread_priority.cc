#include "server/main/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace remora {

absl::Status RaiseThreadPriority(int nice) {
  if (nice == 0) return absl::OkStatus();
  const sched_param none{};
  // For Linux, a thread is a "process" of setpriority, and 0 is the calling one.
  if (::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0 &&
      ::setpriority(PRIO_PROCESS, 0, nice) == 0) {
    return absl::OkStatus();
  }
  if (errno != EACCES && errno != EPERM) return absl::ErrnoToStatus(errno, absl::StrCat("--nice=", nice));
  return absl::PermissionDeniedError(
      absl::StrCat("--nice=", nice, ": the system does not let this process have that priority; raise its ",
                   "limit (`ulimit -e ", 20 - nice, "`, or LimitNICE=", nice,
                   " of systemd), give it CAP_SYS_NICE, or leave --nice out"));
}

}  // namespace remora
