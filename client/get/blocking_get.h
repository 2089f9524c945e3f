// The GET of one key, which waits for each READ and each reply of its lookup.
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

/// The GETs of a client that waits for each of them. They reuse one lookup.
///
/// Thread safety: none. Ownership: the session outlives it.
class BlockingGets {
 public:
  explicit BlockingGets(Session& session) : session_(session) {}

  /// Implements Client::Get. REQUIRES: the key's size is in bounds, and Session::BeginCall was OK.
  absl::Status Get(std::string_view key, std::string* value, RecordFacts* facts);

  /// Looks for a key as Get does, without its value. The client does not READ a large record; it asks the
  /// server instead. OK: the key exists. REQUIRES: as for Get.
  absl::Status Find(std::string_view key);

  /// Implements Client::Get into RegisteredBytes. REQUIRES: as for Get; `memory` is registered with the
  /// session's connection.
  absl::StatusOr<std::size_t> GetInto(std::string_view key, const rdma::Sge& memory, RecordFacts* facts);

 private:
  /// Begins a lookup and drives it to its end.
  absl::Status Run(const LookupSpec& spec);

  Session& session_;
  GenerationRead generation_read_;
  Lookup lookup_;
};

/// Posts the READ of a lookup's step, waits for it, and gives its bytes to the lookup. If the step is all
/// chunks of a record, reads them all. Errors are the connection's. REQUIRES: Step::kRead; nothing else is in
/// flight.
absl::Status ReadNext(Session& session, Lookup& lookup);

/// Drives a lookup to its end, from any step. Outcomes:
///   OK: the lookup has found the key.
///   NotFound: the key does not exist.
///   DeadlineExceeded: the server's answers arrive too late to be used.
///   Any other: the status of the failed lookup, or of the connection.
/// REQUIRES: LookupSpec::drives_chunks, and not begins_fast; nothing else is in flight.
absl::Status Finish(Session& session, Lookup& lookup);

}  // namespace remora
