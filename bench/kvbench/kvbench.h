// kvbench as a function, so that a test can run it.
#pragma once

#include <iosfwd>

#include "bench/kvbench/options.h"
#include "store/base/clock.h"

namespace remora::bench {

/// Runs what `options` say. Results go to `out`; errors, and on a terminal a line of progress, to `err`.
/// Returns kvbench's exit status.
int RunBench(const BenchOptions& options, const Clock& clock, bool err_is_terminal, std::ostream& out,
             std::ostream& err);

}  // namespace remora::bench
