// Promises of a batch beyond its writes, one by one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/linearizability/operation.h"

namespace remora::linear {

/// Gives versions to all writes of each batch of which one write is known to be done: then all are. A write
/// of a batch was seen by all, from when one behind it was found: ends it then.
void EndBatches(std::map<std::string, std::vector<Operation>>* keys);

}  // namespace remora::linear
