#include "store/read/promote.h"

#include <algorithm>

#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {

absl::StatusOr<Place> Promoter::FindOrPromote(std::string_view key, std::uint64_t key_hash) {
  const TimePoint now = core_.clock.Now();
  const std::int64_t unix_ms = core_.clock.UnixMillis();
  for (;;) {
    if (const auto entry = core_.index.Find(key, key_hash)) return entry->place;
    // The index has no entry of a key that is not loaded yet: a cold entry of its hash is another key's.
    const bool loaded = core_.coverage.Covers(key);
    const auto cold = loaded ? core_.index.FindCold(key_hash) : std::nullopt;
    if (loaded && !cold) return absl::NotFoundError("no such key");
    // The tier has a pending write of this key, which no reader may see yet.
    if (core_.unsynced_keys.Has(key)) {
      return core_.disk.sync_failure().ok() ? absl::AbortedError("the key's last write is not synced yet")
                                            : core_.disk.sync_failure();
    }
    std::size_t run = 0;
    const absl::StatusOr<Place> promoted = Append(key, key_hash, cold, now, unix_ms, &run);
    if (promoted.ok()) {
      core_.log.MakeLive(*promoted);
      if (cold) {
        core_.index.MarkHot(key_hash, *cold, *promoted, now);
      } else {
        core_.index.Insert(key_hash, *promoted, now);
        core_.coverage.AddKey(key);
        core_.index.Grow(1, now);  // one split for each new entry
      }
      core_.frequency.Note(key_hash);
      core_.metrics.CountOne(Counter::kFetches);
      // For a large record, MakeRun has made room already.
      const std::uint64_t appended = run > 0 ? 0 : promoted->extent_bytes();
      if (space_.MemoryIsLow()) space_.cleaner().Work(SpaceManager::kCleanPace * appended, now, unix_ms);
      maintenance_.Finish();
      return promoted;
    }
    if (!absl::IsAborted(promoted.status())) {
      maintenance_.Finish();
      return promoted.status();
    }
    space_.ReleaseRetired(now);
    SpaceResult result = space_.MakeSpace(now, unix_ms);
    if (result == SpaceResult::kAvailable && run > 0) result = space_.MakeRun(run, now, unix_ms);
    result = space_.OrWhenGivenBack(result, run);
    maintenance_.Finish();
    if (result == SpaceResult::kRetryLater) return promoted.status();
    if (result == SpaceResult::kFull) return run > 0 ? space_.NoRunError(run) : space_.FullError();
  }
}

absl::StatusOr<Place> Promoter::Append(std::string_view key, std::uint64_t key_hash,
                                       const std::optional<Index::ColdEntry>& entry, TimePoint now,
                                       std::int64_t unix_ms, std::size_t* run) {
  std::optional<Place> place;
  bool expired = false;
  const absl::Status read = core_.tier->Get(key, [&](const DurableTier::Entry& stored) {
    expired = HasExpired(stored.header.expiry_ms, unix_ms);
    *run = RunLength(key.size(), stored.value.size());
    if (expired || !core_.index.Reserve(key_hash, 1)) return absl::OkStatus();
    place = core_.log.Append(ValueLog::Head::kWrites, key, stored.value, now);
    if (place) {
      core_.log.Seal(*place, stored.header.version, stored.header.expiry_ms, key_hash,
                     HashValue(stored.value.data(), stored.value.size()));
    }
    return absl::OkStatus();
  });
  REMORA_RETURN_IF_ERROR(read);
  if (expired) {
    if (entry) space_.expirer().RemoveCold(key, *entry);
    return absl::NotFoundError("no such key");
  }
  if (!place) return absl::AbortedError("no room right now to bring the record back to memory");
  return *place;
}

}  // namespace remora
