// The GET path.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/session.h"

namespace remora {

/// See Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK.
absl::Status Get(Session& session, std::string_view key, std::string* value);

}  // namespace remora
