// The PUT path, which DELETE and TOUCH share.
#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "client/session.h"
#include "store/format/expiry.h"

namespace remora {

/// What became of a write, or of a step of one.
absl::Status ToStatus(const Session::Answer& answer);

/// See Client::Put, Delete and Touch. REQUIRES: sizes and ttl are in bounds, and Session::BeginCall was OK.
absl::Status Put(Session& session, std::string_view key, std::string_view value, const PutOptions& options);
absl::Status Delete(Session& session, std::string_view key);
absl::Status Touch(Session& session, std::string_view key, std::chrono::milliseconds ttl);

}  // namespace remora
