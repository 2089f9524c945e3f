// Costs of a client's operations beside those that no store can avoid. These are memory, a hash map in this
// process, the bare requests on the same connection, RocksDB's own write, a sync of the disk.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "bench/kvbench/options.h"
#include "store/base/clock.h"

namespace remora::bench {

/// Measures all of it in turns, on the records that a load has inserted, and says it in tables. Workload's
/// `operations` are those of each thing that is measured. It writes some records of its own, and leaves them;
/// with a data directory, RocksDB and a file there are written and removed.
/// When `stop` is set, the turns that are complete are all.
/// Errors as of the client; NotFound: a record is missing; Cancelled: `stop` was set before a turn was
/// complete. REQUIRES: the target is a Remora server.
absl::StatusOr<std::string> MeasureFloor(const BenchOptions& options, const Clock& clock,
                                         const std::atomic<bool>& stop);

}  // namespace remora::bench
