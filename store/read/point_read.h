// GET in place: search the index and the log without a lock, verify, copy the value out.
//
// Nearly all GETs take the fast path. It looks at one cache line of the key's bucket, which most likely has
// the key's slot, and at the record that this slot names. A live record with the key is the key's value,
// wherever the reader found it.
//
// The other GETs make the same search as a remote reader, with loads in place of READs. In one process no
// word is torn. But there is the same window between the end of an old record and the new slot, so the checks
// are the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/engine/core.h"
#include "store/read/cold_read.h"
#include "store/read/location.h"
#include "store/read/promote.h"

namespace remora {

/// Reads single records of a store.
///
/// Thread safety: any thread may call all members. They take the store's lock only for a key that is not in
/// memory, and after several searches failed in a row (Store).
class PointReader {
 public:
  /// `core` and `promoter` must outlive the reader.
  PointReader(StoreCore& core, Promoter& promoter) : core_(core), promoter_(promoter) {}

  /// Implement Store::Get, Visit, Exists, Ttl and Locate. Exists returns OK if the key exists.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version);
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view)> show,
                     std::uint64_t* version);
  absl::Status Exists(std::string_view key);
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);
  absl::StatusOr<Location> Locate(std::string_view key);

  /// Implement ServerStore::BeginLocate, ReadCold, TryReadCold and FinishLocate.
  absl::StatusOr<std::optional<Location>> BeginLocate(std::string_view key, ColdRead* read);
  void ReadCold(ColdRead* read) const;
  bool TryReadCold(ColdRead* read) const;
  absl::StatusOr<std::optional<Location>> FinishLocate(ColdRead* read, bool may_stay);

 private:
  /// Gets the key's record by the fast path, and returns true if that succeeded. After false, nothing is
  /// known about the key; *value is unchanged unless memory was reused meanwhile.
  bool TryFastGet(std::string_view key, std::string* value, std::uint64_t* version);
  /// Searches memory without the lock. If it finds a record that was the key's live one at some moment of the
  /// call, it calls `take`(header copy, slot). Returns nothing if only a search under the lock tells: the
  /// record is not in memory, or several searches failed.
  template <typename Take>
  std::optional<absl::Status> Search(std::string_view key, std::uint64_t key_hash, const Take& take);
  /// Calls `take` with the record at `place`, unless it has expired (NotFound).
  template <typename Take>
  absl::Status TakeAt(const Place& place, std::uint64_t key_hash, const Take& take) REMORA_WRITER;
  /// Calls `take` with a record that was the key's live one at some moment of the call.
  /// Aborted: the store cannot promote the record right now.
  template <typename Take>
  absl::Status Find(std::string_view key, const Take& take);
  /// Calls Find again while that is Aborted, for up to kPatience, and then ends with ResourceExhausted.
  template <typename Take>
  absl::Status FindWithRetry(std::string_view key, const Take& take);

  StoreCore& core_;
  Promoter& promoter_;
};

}  // namespace remora
