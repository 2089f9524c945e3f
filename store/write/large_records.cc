#include "store/write/large_records.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
absl::StatusOr<Reservation> LargeRecords::Reserve(std::size_t key_size, std::size_t value_size) {
  const std::uint64_t bytes = LargeBytes(key_size, value_size);
  if (key_size < kMinKeySize || key_size > kMaxKeySize || value_size > kMaxValueSize || bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reserve: a key of ", key_size, " bytes and a value of ", value_size, " are out of bounds; give ",
        kMinKeySize, " to ", kMaxKeySize, " and ", kMaxSmallValueSize + 1, " to ", kMaxValueSize));
  }
  const WriterLock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  space_.ReleaseRetired(now);
  std::optional<Place> place = core_.log.Reserve(key_size, value_size);
  SpaceResult result = SpaceResult::kAvailable;
  if (!place) {
    result = space_.OrWhenGivenBack(space_.MakeRun(bytes, now, core_.clock.UnixMillis()), bytes);
    if (result == SpaceResult::kAvailable) place = core_.log.Reserve(key_size, value_size);
  }
  maintenance_.Finish();
  if (!place && result == SpaceResult::kFull) return space_.NoRunError(bytes);
  if (!place) return absl::AbortedError("reserve: no adjacent segments are free; try again later");
  return Reservation{core_.log.MutableBody(*place), key_size};
}

void LargeRecords::Release(const Reservation& reservation) {
  const WriterLock lock(core_.mutex);
  core_.log.Rollback(PlaceOf(reservation));
  maintenance_.SetSizeCounters();
}

void LargeRecords::Release(std::span<const Write> writes) const {
  for (const Write& write : writes) {
    if (write.reserved == nullptr) continue;
    core_.log.Rollback(PlaceOf(*write.reserved));
    maintenance_.NoteSizes();
  }
}

Place LargeRecords::PlaceOf(const Reservation& reservation) const {
  const auto* const region = reinterpret_cast<const std::byte*>(&core_.superblock);
  const auto body = static_cast<std::uint64_t>(reservation.bytes.data() - region);
  const Place place = core_.log.At(body - sizeof(RecordHeader));
  REMORA_CHECK(core_.log.Key(place).size() == reservation.key_size &&
               core_.log.Key(place).size() + core_.log.Value(place).size() == reservation.bytes.size());
  return place;
}

std::uint64_t LargeRecords::RunOf(const Write& write) const {
  if (write.reserved != nullptr) return 0;  // the reservation has its run already
  if (write.kind == Write::Kind::kPut) return LargeBytes(write.key.size(), write.value.size());
  if (write.kind != Write::Kind::kTouch) return 0;
  const std::string key(write.key);  // a copy, because a client may still change the bytes
  const std::uint64_t key_hash = HashKey(key);
  if (const UnsyncedKeys::Record* const pending = core_.unsynced_keys.Find(key)) {
    return pending->place ? LargeBytes(key.size(), core_.log.Value(*pending->place).size()) : 0;
  }
  if (const auto entry = core_.index.Find(key, key_hash)) {
    return LargeBytes(key.size(), core_.log.Value(entry->place).size());
  }
  std::uint64_t length = 0;
  if (core_.index.FindCold(key_hash) || !core_.coverage.Covers(key)) {
    // If the tier cannot be read, the write fails with that error later.
    core_.tier
        ->Get(key,
              [&](const DurableTier::Entry& stored) {
                length = LargeBytes(key.size(), stored.value.size());
                return absl::OkStatus();
              })
        .IgnoreError();
  }
  return length;
}

}  // namespace remora
