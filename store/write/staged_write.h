// The state of a write in the pipeline (store/write/write_pipeline.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "store/base/shortage.h"
#include "store/index/index.h"
#include "store/ordered/ordered_index.h"
#include "store/region/value_log.h"
#include "store/write/write.h"

namespace remora {

/// Maximum of writes in one group. The work between two groups, above all the growth of the index, must keep
/// up with the writes.
inline constexpr std::size_t kMaxGroup = 1024;

/// Returns the error of a write whose bytes Write::verify rejects.
inline absl::Status DamagedError() {
  return absl::DataLossError(
      "write: key and value do not match their checksum, so they were damaged in flight; nothing was done, "
      "send them again");
}

/// Returns the error of a write that the durable tier did not take.
inline absl::Status NotDurableError(const absl::Status& why) {
  return WithMarksOf(why, absl::UnavailableError(std::string(why.message()) +
                                                 "; this write is not visible, and a restart may show it"));
}

/// State of a key's record after all writes that were staged before.
struct KnownRecord {
  std::optional<Place> place{};  // of a record in memory
  bool cold = false;             // the record is in the durable tier only; the key has a cold entry
  bool unloaded = false;         // the record is in the durable tier only; the load has not reached the key
  std::uint64_t expiry_ms = 0;
  std::uint64_t version = 0;
  bool unsynced = false;           // the last write of the key is pending, and not published yet
  const ColdRead* read = nullptr;  // the result that says so of a cold or unloaded record; null: the tier
  // The look-up in the index was conclusive, and `entry` is its result. It holds until a write of this group
  // changes the key.
  bool is_looked_up = false;
  std::optional<Index::Entry> entry{};
  OrderedIndex::Record record{};  // cold: a copy for the views of scans (V5), or null
};

/// A write of the group that is being committed. Once it is staged, only the durable tier can fail it.
struct StagedWrite {
  Write* write = nullptr;
  // Private copies of the key, and behind it of the operand of kIncrement or kAppend. Empty for kPut, whose
  // copies are in the log.
  std::string own;
  std::string_view key;  // the private copy
  std::uint64_t key_hash = 0;
  // kPut: the private copy. kIncrement, kAppend: the copy of the operand until ReadModifyWrite applies it,
  // then the new value in the log.
  std::string_view value;
  std::uint64_t value_hash = 0;
  Place place;          // of the new record; none for kDelete
  bool synced = false;  // readers see it only after its fsync
  /// Readers see it later: after its fsync, or once the followers have it (sync_queue.h).
  bool pending = false;
  bool pinned = false;  // ValueLog::Pin
  KnownRecord old;      // the state before this write
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;

  bool is_delete() const { return write->kind == Write::Kind::kDelete; }
};

}  // namespace remora
