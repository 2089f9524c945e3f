// The GET path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"

namespace remora {

/// What a record says of itself.
struct RecordFacts {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // store/format/types/expiry.h
};

/// See Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK.
absl::Status Get(Session& session, std::string_view key, std::string* value, RecordFacts* facts);

/// As Get, for who does not want the value. That of a large record is not READ; the server is asked instead.
absl::Status Find(Session& session, std::string_view key);

/// See Client::Get into RegisteredBytes. REQUIRES: as Get; `memory` is registered with the session's
/// connection.
absl::StatusOr<std::size_t> GetInto(Session& session, std::string_view key, const rdma::Sge& memory,
                                    RecordFacts* facts);

}  // namespace remora
