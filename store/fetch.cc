// Bringing a record back to memory that is only in the durable tier.
#include <algorithm>

#include "store/base/status_macros.h"
#include "store/format/expiry.h"
#include "store/format/record.h"
#include "store/store_impl.h"

namespace remora {

absl::StatusOr<Place> Store::Impl::FindOrFetch(std::string_view key, std::uint64_t key_hash) {
  const TimePoint now = clock_.Now();
  const std::int64_t unix_ms = clock_.UnixMillis();
  for (;;) {
    if (const auto entry = index_.Find(key, key_hash)) return entry->place;
    const auto cold = index_.FindCold(key_hash);
    if (!cold) return absl::NotFoundError("no such key");
    const absl::StatusOr<Place> fetched = Fetch(key, key_hash, *cold, now, unix_ms);
    if (fetched.ok()) {
      log_.MakeLive(*fetched);
      index_.Warm(key_hash, *cold, *fetched, now);
      frequency_.Note(key_hash);
      ++fetches_;
      if (Short()) cleaner_.Work(kCleanPace * fetched->extent_bytes(), now, unix_ms);
      FinishWork();
      return fetched;
    }
    if (!absl::IsAborted(fetched.status())) {
      FinishWork();
      return fetched.status();
    }
    Release(now);
    const Room room = MakeRoom(now, unix_ms);
    FinishWork();
    if (room == Room::kLater) return fetched.status();
    if (room == Room::kNever) return Full();
  }
}

absl::StatusOr<Place> Store::Impl::Fetch(std::string_view key, std::uint64_t key_hash,
                                         const Index::ColdEntry& entry, TimePoint now, std::int64_t unix_ms) {
  std::optional<Place> place;
  bool expired = false;
  const absl::Status read = tier_->Get(key, [&](const DurableTier::Entry& stored) {
    expired = HasExpired(stored.header.expiry_ms, unix_ms);
    if (expired || !index_.Reserve(key_hash, 1)) return absl::OkStatus();
    place = log_.Append(ValueLog::Head::kWrites, key, stored.value, now);
    if (place) {
      log_.Seal(*place, stored.header.version, stored.header.expiry_ms, key_hash,
                HashValue(stored.value.data(), stored.value.size()));
    }
    return absl::OkStatus();
  });
  REMORA_RETURN_IF_ERROR(read);
  if (expired) {
    sweeper_.RemoveCold(key, entry);
    return absl::NotFoundError("no such key");
  }
  if (!place) return absl::AbortedError("no room right now to bring the record back to memory");
  return *place;
}

}  // namespace remora
