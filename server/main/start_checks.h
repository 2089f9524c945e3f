// Checks of a start of kvserver, before it makes anything; --check_config does these, and ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/main/flags.h"
#include "server/memory/memory_budget.h"
#include "server/monitoring/log_events.h"

namespace remora {

/// A line for the log, written once the server serves.
struct StartEvent {
  LogEvent event;
  std::string text;
};

/// Splits memory and descriptors, and puts the result into `flags`. Appends what the log will say to
/// `events`.
absl::StatusOr<MemoryPlan> ApplyMemoryPlan(Flags* flags, std::vector<StartEvent>* events);

/// Reads the files of tokens, of which the server itself reads --tokens anew. Errors are those of ReadTokens.
absl::Status CheckTokens(Flags* flags);

/// Finds the faults that a start would end with, as far as it can without making a file, taking a port or
/// opening the store. An address or directory that is in use is no fault: a server that runs has its own.
/// Hands each fault to `report`, or prints what memory and descriptors are enough for. Returns the exit
/// status of the first fault, or 0.
int CheckConfig(Flags* flags, const std::function<void(const std::string& fault)>& report);

}  // namespace remora
