// Parts of the commands that read and write the store.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"
#include "tools/kvgate/call.h"
#include "tools/kvgate/keys/key_store.h"

namespace remora::kvgate {

/// How often a command reads a key and writes it under the condition that nobody else has, before it gives
/// up. Each failure means that another client's write was done.
inline constexpr int kMaxAttempts = 1000;

/// Returns whether a read of `key` ended because the key does not exist. A key that no store can have, of 0
/// or of more than kMaxKeySize bytes, does not exist.
bool IsMissing(const absl::Status& status, std::string_view key);

/// Returns whether a conditional write was not done because another client wrote the key, or because the
/// key, or the expiry that it was to have, has expired.
bool IsOvertaken(const absl::Status& status);

/// Sets the error of a call that the store, the server or the connection to it failed.
void FailCall(Call& call, const absl::Status& status);
/// Sets the error of a call that made kMaxAttempts attempts.
void FailOvertaken(Call& call);

/// Reads a key. Nullopt: it does not exist.
Task<absl::StatusOr<std::optional<KeyRecord>>> FindRecord(KeyStore& kv, std::string_view key);
Task<absl::StatusOr<std::optional<KeyExpiry>>> FindExpiry(KeyStore& kv, std::string_view key);

/// Returns the condition that a key is still as it was found.
template <typename Found>
Condition StillAs(const std::optional<Found>& found) {
  return found ? Condition::Version(found->version) : Condition::Absent();
}
/// Returns the ttl that keeps the expiry of what was found. Nothing, for the store's default, if nothing was.
template <typename Found>
std::optional<std::chrono::milliseconds> KeptTtl(const std::optional<Found>& found) {
  if (!found) return std::nullopt;
  return found->expiry_ms == 0 ? kNeverExpires : Until(found->expiry_ms);
}

}  // namespace remora::kvgate
