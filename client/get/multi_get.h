// The GET path for many keys.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/session/session.h"
#include "store/base/results.h"

namespace remora {

/// See Client::MultiGet. REQUIRES: as many keys as results, and Session::BeginCall was OK. Not OK: the
/// connection broke; then so says the status of each result that was not there yet.
absl::Status MultiGet(Session& session, std::span<const std::string_view> keys, std::span<GetResult> results);

}  // namespace remora
