// Promises of scans.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/linearizability/operation.h"

namespace remora::linear {

/// Says of each scan that is of no one moment, why; of a one-sided one, which keys come in no order.
void CheckScans(const std::vector<ScanResult>& scans, const std::vector<Operation>& operations,
                std::vector<std::string>* faults);

/// Each key that a scan has shown, or not, it found so.
void AddGets(const ScanResult& scan, std::map<std::string, std::vector<Operation>>* keys);

}  // namespace remora::linear
