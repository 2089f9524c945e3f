// The durable tier: what a store keeps on disk. The only thing that knows RocksDB.
//
//   column family "default":  key -> {StoredHeader, value}
//   column family "meta":     "version_limit" -> 8 bytes; every version ever used is less
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Stands before each value on disk.
struct StoredHeader {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // 0: never
};
static_assert(sizeof(StoredHeader) == 16 && offsetof(StoredHeader, expiry_ms) == 8);
static_assert(std::has_unique_object_representations_v<StoredHeader>);

/// Reads never come here: everything is in memory. It is written in groups, and iterated at the start.
///
/// Thread Safety: none.
class DurableTier {
 public:
  /// Opens or makes it in `path`. Errors as Store::Open.
  static absl::StatusOr<std::unique_ptr<DurableTier>> Open(const std::string& path);
  /// Flushes nothing: all of it is in the log files.
  ~DurableTier();
  DurableTier(const DurableTier&) = delete;
  DurableTier& operator=(const DurableTier&) = delete;

  /// As of the last successful write.
  std::uint64_t version_limit() const;

  /// A group is put together, then written as a whole, or given up.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  void Delete(std::string_view key);
  void SetVersionLimit(std::uint64_t limit);
  /// OK: it survives this process. Otherwise Unavailable: it may or may not be there after a restart. After a
  /// full disk, writes succeed again some seconds after there is space; after other errors, only after a
  /// restart.
  absl::Status Write();

  struct Entry {
    std::string_view key;
    StoredHeader header;
    std::string_view value;
  };
  /// Shows all entries, in the order of their keys, until one is not OK. DataLoss, Unavailable.
  absl::Status ForEach(absl::FunctionRef<absl::Status(const Entry&)> take) const;

 private:
  class Impl;
  explicit DurableTier(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace remora
