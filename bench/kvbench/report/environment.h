// The machine, the time and the versions of a run: its numbers mean little without them.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace remora::bench {

/// Names and their values, in order.
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Returns `date` (UTC), `host`, `cpu` (its model), `cpus` (how many this process may use), `memory`,
/// `system`, `kernel`, `load_average` (of one minute), `kvbench`, `commit` and `rocksdb`. Between them it has
/// `client_cpus` and `server_cpus`: lists of the CPUs that this process and the server may use. A value that
/// the system does not tell is left out. `server_pid`: the server's process on this machine; 0: unknown.
/// Thread-safe.
Texts ReadEnvironment(pid_t server_pid);

}  // namespace remora::bench
