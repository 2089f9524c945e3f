// Bringing a record to memory that is only in the durable tier: it was evicted, or is not loaded yet.
//
// What the tier says is so: a write is in it before the lock is given up, and so is the removal of what has
// expired, or else what is left there has expired.
#include <algorithm>

#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {

absl::StatusOr<Place> Store::Impl::FindOrFetch(std::string_view key, std::uint64_t key_hash) {
  const TimePoint now = core_.clock.Now();
  const std::int64_t unix_ms = core_.clock.UnixMillis();
  for (;;) {
    if (const auto entry = core_.index.Find(key, key_hash)) return entry->place;
    // Of a key that is not loaded yet the index has no entry: a cold one of its hash is another's.
    const bool loaded = core_.coverage.Knows(key);
    const auto cold = loaded ? core_.index.FindCold(key_hash) : std::nullopt;
    if (loaded && !cold) return absl::NotFoundError("no such key");
    // The tier has a write that nobody may see yet.
    if (core_.unsynced_keys.Has(key)) {
      return sync_failed_.ok() ? absl::AbortedError("the key's last write is not synced yet") : sync_failed_;
    }
    std::size_t run = 0;
    const absl::StatusOr<Place> fetched = Fetch(key, key_hash, cold, now, unix_ms, &run);
    if (fetched.ok()) {
      core_.log.MakeLive(*fetched);
      if (cold) {
        core_.index.Warm(key_hash, *cold, *fetched, now);
      } else {
        core_.index.Insert(key_hash, *fetched, now);
        core_.coverage.Note(key);
        core_.index.Grow(1, now);  // at the pace of what comes
      }
      core_.frequency.Note(key_hash);
      ++fetches_;
      // For a large one, room was made.
      const std::uint64_t appended = run > 0 ? 0 : fetched->extent_bytes();
      if (Short()) cleaner_.Work(kCleanPace * appended, now, unix_ms);
      FinishWork();
      return fetched;
    }
    if (!absl::IsAborted(fetched.status())) {
      FinishWork();
      return fetched.status();
    }
    Release(now);
    Room room = MakeRoom(now, unix_ms);
    if (room == Room::kNow && run > 0) room = MakeRun(run, now, unix_ms);
    room = OrWhenGivenBack(room, run);
    FinishWork();
    if (room == Room::kLater) return fetched.status();
    if (room == Room::kNever) return run > 0 ? NoRun(run) : Full();
  }
}

absl::StatusOr<Place> Store::Impl::Fetch(std::string_view key, std::uint64_t key_hash,
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
    if (entry) sweeper_.RemoveCold(key, *entry);
    return absl::NotFoundError("no such key");
  }
  if (!place) return absl::AbortedError("no room right now to bring the record back to memory");
  return *place;
}

}  // namespace remora
