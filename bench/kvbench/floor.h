// Costs of a client's operations beside those that no store can avoid. These are memory, a hash map in this
// process, the bare requests on the same connection, RocksDB's own write, a sync of the disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bench/kvbench/options.h"
#include "store/base/clock.h"

namespace remora::bench {

/// Measures all of it in turns, on the records that a load has inserted, and says it in tables. Workload's
/// `operations` are those of each thing that is measured. It writes some records of its own, and leaves them;
/// with a data directory, RocksDB and a file there are written and removed.
/// Errors as of the client; NotFound: a record is missing. REQUIRES: the target is a Remora server.
absl::StatusOr<std::string> MeasureFloor(const BenchOptions& options, const Clock& clock);

}  // namespace remora::bench
