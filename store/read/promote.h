// Promotion: brings a record back to memory that is only in the durable tier, because it was evicted, or is
// not loaded yet.
//
// Under the lock, the tier is current. A writer writes to the tier before it releases the lock. So does a
// thread that removes an expired record. If the tier still has a record that was removed from memory, that
// record has expired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/tier.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/read/cold_read.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"

namespace remora {

/// Brings records back to memory.
///
/// Thread safety: none; only the writer uses it, and not while it commits a group.
class Promoter {
 public:
  /// `core`, `space` and `maintenance` must outlive it.
  Promoter(StoreCore& core, SpaceManager& space, Maintenance& maintenance)
      : core_(core), space_(space), maintenance_(maintenance) {}

  /// Returns the place of the key's record, and promotes it first if it is not in memory. A record in memory
  /// may have expired. Outcomes:
  ///   NotFound: the key does not exist.
  ///   Aborted: there is no space right now, or the key's last write is pending; try again.
  ///   ResourceExhausted: there is no space, and none will come of itself.
  ///   Unavailable, DataLoss: the tier cannot be read, or a sync has failed.
  absl::StatusOr<Place> FindOrPromote(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;

  /// Returns the place of the key's record if it is in memory. Else it begins to read the key, and returns
  /// nothing. Outcomes as for FindOrPromote.
  absl::StatusOr<std::optional<Place>> FindOrBegin(std::string_view key, std::uint64_t key_hash,
                                                   ColdRead* read) REMORA_WRITER;
  struct Finished {
    std::optional<Place> place{};  // of the key's record in memory
    bool stays = false;            // the record that was read is the key's, and was not promoted
  };
  /// Returns the place of the key's record, and promotes the record that was read if it is still the key's.
  /// If it is not, the read begins again, and this returns neither. With `may_stay`, the record may stay
  /// where it is. Outcomes as for FindOrPromote.
  absl::StatusOr<Finished> FindOrFinish(ColdRead* read, bool may_stay) REMORA_WRITER;

 private:
  /// Knowledge of a key in memory. If there is no place, only the tier may have the record.
  struct Known {
    std::optional<Place> place{};
    bool is_loaded = false;                  // the index knows the key
    std::optional<Index::ColdEntry> cold{};  // of the key's hash
  };
  /// Function that calls another one with the record of a key, as DurableTier::Get does.
  using Source = absl::FunctionRef<absl::Status(DurableTier::Take)>;

  /// Looks for a key in memory.
  ///   NotFound: the key does not exist.
  ///   Aborted, Unavailable: the key has an unsynced write.
  absl::StatusOr<Known> Look(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;
  /// Returns whether the record that was read may stay in the tier rather than displace others. It may in a
  /// store that has not enough memory for all records. Then those come back that are used as often as those
  /// in memory (Evictor::Admits), and while there is free space.
  bool CanStay(const ColdRead& read) const REMORA_WRITER;
  /// Selects whether others leave memory until there is space for a record, or the result is Aborted.
  enum class Makes : std::uint8_t { kSpace = 1, kNoSpace = 2 };
  /// Does the work of FindOrPromote with a record from `source`.
  absl::StatusOr<Place> Promote(std::string_view key, std::uint64_t key_hash, Source source,
                                Makes makes) REMORA_WRITER;
  /// Copies the record of a key from `source` to the log; nothing leads to the copy yet. `entry`: the cold
  /// entry of the key's hash, if there is one. Sets *run to the length of the run that the record needs.
  ///   NotFound: the entry is another key's, or the record has expired.
  ///   Aborted: there is no space right now.
  absl::StatusOr<Place> Append(std::string_view key, std::uint64_t key_hash,
                               const std::optional<Index::ColdEntry>& entry, Source source, TimePoint now,
                               std::int64_t unix_ms, std::uint64_t* run) REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
};

}  // namespace remora
