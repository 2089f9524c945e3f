#include "store/read/promote.h"

#include <algorithm>

#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {
absl::StatusOr<Promoter::Known> Promoter::Look(std::string_view key, std::uint64_t key_hash) {
  Known known;
  if (const auto entry = core_.index.Find(key, key_hash)) {
    known.place = entry->place;
    return known;
  }
  if (!core_.slots.Has(key, key_hash)) return absl::NotFoundError("no such key");  // O1
  // The index has no entry of a key that is not loaded yet: a cold entry of its hash is another key's.
  known.is_loaded = core_.coverage.Covers(key);
  if (known.is_loaded) known.cold = core_.FindCold(key, key_hash);
  if (known.is_loaded && !known.cold) return absl::NotFoundError("no such key");
  // The tier has a pending write of this key, which no reader may see yet.
  if (core_.unsynced_keys.Has(key)) {
    return core_.disk.sync_failure().ok()
               ? absl::AbortedError("promote: the key's last write is not synced yet")
               : core_.disk.sync_failure();
  }
  return known;
}

absl::StatusOr<Place> Promoter::FindOrPromote(std::string_view key, std::uint64_t key_hash) {
  const auto source = [&](DurableTier::Take take) { return core_.tier->Get(key, take); };
  return Promote(key, key_hash, source, Makes::kSpace);
}

// --- Reads without the lock -----------------------------------------------------------------------------

absl::StatusOr<std::optional<Place>> Promoter::FindOrBegin(std::string_view key, std::uint64_t key_hash,
                                                           ColdRead* read) {
  REMORA_ASSIGN_OR_RETURN(const Known known, Look(key, key_hash));  // D1
  if (known.place) return known.place;
  *read = {.key = std::string(key), .key_hash = key_hash};
  core_.BeginColdRead(read, known.is_loaded);
  return std::nullopt;
}

absl::StatusOr<Promoter::Finished> Promoter::FindOrFinish(ColdRead* read, bool may_stay) {
  REMORA_ASSIGN_OR_RETURN(const Known known, Look(read->key, read->key_hash));  // D1
  Finished finished{.place = known.place};
  if (known.place) return finished;  // D2
  if (core_.IsCurrent(*read, known.is_loaded)) {
    may_stay = may_stay && known.cold && CanStay(*read);
    if (!may_stay || space_.evictor().Admits(read->key_hash)) {
      const auto source = [&](DurableTier::Take take) {
        return read->status.ok() ? take({read->key, read->header, read->value}) : read->status;
      };
      const absl::StatusOr<Place> promoted =
          Promote(read->key, read->key_hash, source, may_stay ? Makes::kNoSpace : Makes::kSpace);
      if (promoted.ok()) {
        finished.place = *promoted;
        return finished;
      }
      if (!may_stay || !absl::IsAborted(promoted.status())) return promoted.status();
    }
    core_.frequency.Note(read->key_hash);
    core_.metrics.CountOne(Metric::kColdReadsPassed);
    finished.stays = true;
  } else if (read->begins == kMaxColdReadBegins) {
    // Others make the key leave memory all the time: the read ends all the same.
    REMORA_ASSIGN_OR_RETURN(finished.place, FindOrPromote(read->key, read->key_hash));
  } else {
    core_.BeginColdRead(read, known.is_loaded);
  }
  return finished;
}

bool Promoter::CanStay(const ColdRead& read) const {
  return core_.wants_reads() && read.status.ok() && read.has_value &&
         !HasExpired(read.header.expiry_ms, core_.clock.UnixMillis());  // Promote ends an expired one
}

// --- Promotion ------------------------------------------------------------------------------------------

absl::StatusOr<Place> Promoter::Promote(std::string_view key, std::uint64_t key_hash, Source source,
                                        Makes makes) {
  const TimePoint now = core_.clock.Now();
  const std::int64_t unix_ms = core_.clock.UnixMillis();
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const Known known, Look(key, key_hash));
    if (known.place) return *known.place;
    std::uint64_t run = 0;
    const absl::StatusOr<Place> promoted = Append(key, key_hash, known.cold, source, now, unix_ms, &run);
    if (promoted.ok()) {
      core_.log.MakeLive(*promoted);
      if (known.cold) {
        core_.index.MarkHot(key_hash, *known.cold, *promoted, now);
      } else {
        core_.NoteLoad(key);
        core_.index.Insert(key_hash, *promoted, now);
        core_.coverage.AddKey(key);
        core_.index.Grow(1, now);  // one split for each new entry
      }
      core_.frequency.Note(key_hash);
      core_.metrics.CountOne(Metric::kFetches);
      // For a large record, MakeRun has made space already.
      const std::uint64_t appended = run > 0 ? 0 : promoted->extent_bytes();
      if (space_.MemoryIsLow()) space_.Clean(SpaceManager::kCleanPace * appended, now, unix_ms);
      maintenance_.Finish();
      return promoted;
    }
    if (makes == Makes::kNoSpace) {  // there will be space for later ones
      space_.ReleaseRetired(now);
      if (space_.MemoryIsLow()) space_.Clean(SpaceManager::kBitOfCleaning, now, unix_ms);
    }
    if (!absl::IsAborted(promoted.status()) || makes == Makes::kNoSpace) {
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
                                       const std::optional<Index::ColdEntry>& entry, Source source,
                                       TimePoint now, std::int64_t unix_ms, std::uint64_t* run) {
  std::optional<Place> place;
  bool expired = false;
  const absl::Status read = source([&](const DurableTier::Entry& stored) {
    // A store that follows keeps an expired record: the reader misses it, and the primary deletes it (G7 of
    // group_sink.h).
    expired = HasExpired(stored.header.expiry_ms, unix_ms) && space_.expirer().is_on();
    *run = LargeBytes(key.size(), stored.value.size());
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
  if (!place) return absl::AbortedError("promote: no space in memory right now; try again");
  return *place;
}

}  // namespace remora
