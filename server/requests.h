// Requests as writes of the store, and their outcomes as replies. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "store/format/protocol.h"
#include "store/store.h"

namespace remora {

/// Whether the fields of a write that are not about its payload are in bounds, and such as its operation has.
bool FitsItsOperation(const Request& request);

/// REQUIRES: a write.
Write::Kind KindOf(Operation operation);

ReplyStatus ToReplyStatus(const absl::Status& status);

}  // namespace remora
