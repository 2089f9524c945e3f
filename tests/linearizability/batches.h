// What a batch promises beyond its writes, one by one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/linearizability/operation.h"

namespace remora::linear {

/// Of each batch of which one write is known to be done, all are: gives them their versions. And a write of a
/// batch was seen by all, from when one behind it was found: ends it then.
void EndBatches(std::map<std::string, std::vector<Operation>>* keys);

}  // namespace remora::linear
