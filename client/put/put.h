// The PUT path, which all writes share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

/// Returns the outcome of a write, or of a step of one.
absl::Status ToStatus(const ServerReply& answer);

/// Implement the calls of Client. REQUIRES: sizes, ttl and condition are in bounds, and Session::BeginCall
/// was OK.
absl::Status Put(Session& session, std::string_view key, const SentValue& value, const PutOptions& options);
absl::Status Delete(Session& session, std::string_view key, const WriteOptions& options);
absl::Status Touch(Session& session, std::string_view key, std::chrono::milliseconds ttl,
                   const WriteOptions& options);
absl::StatusOr<std::int64_t> Increment(Session& session, std::string_view key, std::int64_t delta,
                                       const PutOptions& options);
absl::StatusOr<std::size_t> Append(Session& session, std::string_view key, std::string_view bytes,
                                   const PutOptions& options);
/// Implements Client::Apply. REQUIRES: batch.fault() is empty, and the batch is not.
absl::Status Apply(Session& session, const WriteBatch& batch, std::uint64_t* version,
                   std::optional<Durability> durability);

}  // namespace remora
