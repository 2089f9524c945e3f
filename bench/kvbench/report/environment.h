// The machine, the time and the versions of a run: its numbers mean little without them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace remora::bench {

/// Names and their values, in order.
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Returns `date` (UTC), `host`, `cpu` (its model), `cpus` (that this process may use), `memory`, `system`,
/// `kernel`, `load_average` (of one minute), `kvbench`, `commit` and `rocksdb`. A value that the system
/// does not tell is left out. Thread-safe.
Texts ReadEnvironment();

}  // namespace remora::bench
