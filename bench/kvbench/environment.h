// Where, when and of what a run was made: its numbers mean little without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace remora::bench {

/// Names and values, as text; in order.
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Returns `date` (UTC), `host`, `cpu` (its model), `cpus` (that this process may use), `memory`, `system`,
/// `kernel`, `load_average` (of one minute), `kvbench`, `commit` and `rocksdb`. A value that the system
/// does not tell is left out. Thread-safe.
Environment ReadEnvironment();

}  // namespace remora::bench
