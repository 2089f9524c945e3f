// The keys as commands see them: those of the servers, or those within a transaction.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/coroutine_client.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora::kvgate {

/// Begins the error of a batch whose keys have different slots, as that of Redis Cluster does.
inline constexpr char kCrossSlot[] = "CROSSSLOT Keys in request don't hash to the same slot";

/// Operations of the client of that name, with the same outcomes. Keys, values and batches live until the
/// task ends. Options have neither a durability nor a pointer for the version.
///
/// Thread safety: none.
class KeyStore {
 public:
  virtual ~KeyStore() = default;

  virtual Task<absl::StatusOr<std::string>> Get(std::string_view key) = 0;
  virtual Task<absl::StatusOr<KeyRecord>> GetRecord(std::string_view key) = 0;
  virtual Task<absl::StatusOr<KeyExpiry>> GetExpiry(std::string_view key) = 0;
  virtual Task<absl::StatusOr<bool>> Exists(std::string_view key) = 0;
  virtual Task<absl::Status> Put(std::string_view key, std::string_view value, PutOptions options) = 0;
  virtual Task<absl::Status> Delete(std::string_view key, WriteOptions options) = 0;
  virtual Task<absl::Status> Touch(std::string_view key, std::chrono::milliseconds ttl,
                                   WriteOptions options) = 0;
  virtual Task<absl::StatusOr<std::int64_t>> Increment(std::string_view key, std::int64_t delta) = 0;
  virtual Task<absl::StatusOr<std::size_t>> Append(std::string_view key, std::string_view bytes) = 0;
  virtual Task<absl::Status> Apply(const WriteBatch& batch) = 0;
  /// Returns whether there is a connection to the key's server now.
  virtual bool is_connected(std::string_view key) const = 0;
};

}  // namespace remora::kvgate
