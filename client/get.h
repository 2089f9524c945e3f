// The GET path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session.h"

namespace remora {

/// See Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK. `expiry_ms`, unless
/// null, gets the record's expiry (store/format/expiry.h).
absl::Status Get(Session& session, std::string_view key, std::string* value,
                 std::uint64_t* expiry_ms = nullptr);

/// See Client::Get into a RegisteredBuffer. REQUIRES: as Get; `buffer` is registered with the session's
/// connection.
absl::StatusOr<std::size_t> GetInto(Session& session, std::string_view key, const rdma::Registration& buffer);

}  // namespace remora
