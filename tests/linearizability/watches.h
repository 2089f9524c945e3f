// Promises of watches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/linearizability/operation.h"

namespace remora::linear {

/// Says of each watch what it showed, or did not, against these:
///   W1  Sequences go up, and so do the versions of what is put.
///   W2  Each put that is shown was asked for, of that key and with that value; and begun before it was
///       shown.
///   W3  Each write that was done is shown. The first of them is one that is shown, or began when the watch
///       had; the last one is shown, or ended before a call that found all shown.
/// REQUIRES: EndShown was called.
void CheckWatches(const std::vector<WatchResult>& watches, const std::vector<Operation>& operations,
                  std::vector<std::string>* faults);

/// Ends each write with a known version that a watch has shown: it is seen by all then.
void EndShown(const std::vector<WatchResult>& watches, std::map<std::string, std::vector<Operation>>* keys);

}  // namespace remora::linear
