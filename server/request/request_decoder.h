// Requests as writes of the store, and their outcomes as replies. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "store/format/wire/messages.h"
#include "store/write/write.h"

namespace remora {

/// Returns whether all fields of a write, except those of its payload, are in bounds and allowed for its
/// operation.
bool Validate(const Request& request);

/// Returns the number of requests that a rate limit counts for this request: each put of a multi-put is one.
inline unsigned CountOf(const Request& request) {
  return request.operation == Operation::kMultiPut && request.put_count > 0 ? request.put_count : 1u;
}

/// Returns how many consecutive request IDs, of which request_id is the last, the request uses.
inline unsigned IdsOf(const Request& request) {
  return request.operation == Operation::kMultiPut && request.put_ids > 0 ? request.put_ids : 1u;
}

/// REQUIRES: a write, and no batch.
Write::Kind ToWriteKind(Operation operation);

/// Appends the writes of a batch, which point into `bytes`, and returns their number. Appends nothing and
/// returns 0 if the bytes are no batch.
std::size_t AddBatch(std::string_view bytes, std::vector<Write>* writes);

/// Appends the writes of a multi-put of `count` puts, except the first `done` of them, and returns their
/// number. Appends nothing and returns 0 if the bytes are no such multi-put.
std::size_t AddMultiPut(std::string_view bytes, std::size_t count, std::size_t done,
                        std::vector<Write>* writes);

/// Verifies a payload, for Write::verify: `context` is the Request, whose checksum the payload is
/// to match.
bool VerifyPayload(const void* context, std::uint64_t key_hash, std::uint64_t value_hash);

ReplyStatus ToReplyStatus(const absl::Status& status);

/// Returns the cause of the failure, as flags of the reply. `status` is not OK.
std::uint16_t CauseFlags(const absl::Status& status);

/// Returns whether there was no space (Aborted), so that the request is tried again. On the PUT
/// path, ok() alone costs nothing.
inline bool IsPostponed(const absl::Status& status) { return !status.ok() && absl::IsAborted(status); }

/// Error for a client that needs a token for writing, and has none. (Not PermissionDenied, which
/// the disk returns to the server.)
absl::Status NeedsWriterError();

}  // namespace remora
