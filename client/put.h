// The PUT path, which DELETE shares.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/session.h"

namespace remora {

/// See Client::Put and Client::Delete. REQUIRES: sizes are in bounds, and Session::BeginCall was OK.
absl::Status Put(Session& session, std::string_view key, std::string_view value);
absl::Status Delete(Session& session, std::string_view key);

}  // namespace remora
