// The GET of one key, which waits for what its lookup reads and asks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/get/lookup.h"
#include "client/get/record_copy.h"
#include "client/session/session.h"

namespace remora {

/// See Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK.
absl::Status Get(Session& session, std::string_view key, std::string* value, RecordFacts* facts);

/// Looks for a key as Get does, without its value. A large record is not READ; the server is asked instead.
absl::Status Find(Session& session, std::string_view key);

/// See Client::Get into RegisteredBytes. REQUIRES: as Get; `memory` is registered with the session's
/// connection.
absl::StatusOr<std::size_t> GetInto(Session& session, std::string_view key, const rdma::Sge& memory,
                                    RecordFacts* facts);

/// Posts the READ of a lookup, waits for it, and has it taken. REQUIRES: Step::kRead; nothing else is in
/// flight.
absl::Status ReadNext(Session& session, Lookup& lookup);

/// Drives a lookup to its end, from wherever it is. OK: it has found the key. NotFound, DeadlineExceeded: the
/// server's answers come too late to be used; others are the lookup's, or the connection's. REQUIRES: as
/// ReadNext; LookupSpec::drives_chunks, and not begins_fast.
absl::Status Finish(Session& session, Lookup& lookup);

}  // namespace remora
