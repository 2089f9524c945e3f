// The PUT path for many keys.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "client/session/session.h"
#include "store/base/results.h"
#include "store/format/types/write_options.h"

namespace remora {

/// Implements Client::MultiPut. REQUIRES: `requests` and `results` have equal sizes, requests in bounds have
/// an OK result, and Session::BeginCall was OK.
absl::Status MultiPut(Session& session, std::span<const PutRequest> requests, std::span<PutResult> results);

}  // namespace remora
