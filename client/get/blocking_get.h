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

/// The GETs of a client that waits for each. Its lookup is made once, and used again.
///
/// Thread safety: none. Ownership: the session outlives it.
class BlockingGets {
 public:
  explicit BlockingGets(Session& session) : session_(session) {}

  /// See Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK.
  absl::Status Get(std::string_view key, std::string* value, RecordFacts* facts);

  /// Looks for a key as Get does, without its value. A large record is not READ; the server is asked instead.
  absl::Status Find(std::string_view key);

  /// See Client::Get into RegisteredBytes. REQUIRES: as Get; `memory` is registered with the session's
  /// connection.
  absl::StatusOr<std::size_t> GetInto(std::string_view key, const rdma::Sge& memory, RecordFacts* facts);

 private:
  /// Makes all of a lookup.
  absl::Status Run(const LookupSpec& spec);

  Session& session_;
  GenerationRead generation_read_;
  Lookup lookup_;
};

/// Posts the READ of a lookup, waits for it, and has it taken. REQUIRES: Step::kRead; nothing else is in
/// flight.
absl::Status ReadNext(Session& session, Lookup& lookup);

/// Drives a lookup to its end, from wherever it is. OK: it has found the key. NotFound, DeadlineExceeded: the
/// server's answers come too late to be used; others are the lookup's, or the connection's. REQUIRES: as
/// ReadNext; LookupSpec::drives_chunks, and not begins_fast.
absl::Status Finish(Session& session, Lookup& lookup);

}  // namespace remora
