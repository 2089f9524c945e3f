// Large records: room that is filled in place, and runs for them (store/region/segments.h).
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"

namespace remora {
namespace {

// Bytes of records that the cleaner looks at for each time that somebody asks for a run: some milliseconds.
constexpr std::uint64_t kBitOfEmptying = std::uint64_t{4} << 20;

}  // namespace

absl::StatusOr<Reservation> Store::Impl::Reserve(std::size_t key_size, std::size_t value_size) {
  const std::size_t length = RunLength(key_size, value_size);
  if (key_size < kMinKeySize || key_size > kMaxKeySize || value_size > kMaxValueSize || length == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "room is reserved for a key of ", kMinKeySize, " to ", kMaxKeySize, " bytes and a value of ",
        kMaxSmallValueSize + 1, " to ", kMaxValueSize, ", not ", key_size, " and ", value_size));
  }
  const std::lock_guard lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  Release(now);
  std::optional<Place> place = core_.log.Reserve(key_size, value_size);
  Room room = Room::kNow;
  if (!place) {
    room = OrWhenGivenBack(MakeRun(length, now, core_.clock.UnixMillis()), length);
    if (room == Room::kNow) place = core_.log.Reserve(key_size, value_size);
  }
  FinishWork();
  if (!place && room == Room::kNever) return NoRun(length);
  if (!place) return absl::AbortedError("no room until segments next to each other are free");
  return Reservation{core_.log.MutableBody(*place), key_size};
}

void Store::Impl::GiveBack(const Reservation& reservation) {
  const std::lock_guard lock(core_.mutex);
  core_.log.TakeBack(PlaceOf(reservation));
  SetSizeCounters();
}

Place Store::Impl::PlaceOf(const Reservation& reservation) const {
  const auto* const region = reinterpret_cast<const std::byte*>(&core_.superblock);
  const auto body = static_cast<std::uint64_t>(reservation.bytes.data() - region);
  const Place place = core_.log.At(body - sizeof(RecordHeader));
  REMORA_CHECK(core_.log.Key(place).size() == reservation.key_size &&
               core_.log.Key(place).size() + core_.log.Value(place).size() == reservation.bytes.size());
  return place;
}

std::size_t Store::Impl::RunOf(const Write& write) const {
  if (write.reserved != nullptr) return 0;  // has it
  if (write.kind == Write::Kind::kPut) return RunLength(write.key.size(), write.value.size());
  if (write.kind != Write::Kind::kTouch) return 0;
  const std::string key(write.key);  // the caller's bytes may change
  const std::uint64_t key_hash = HashKey(key);
  if (const UnsyncedKeys::Record* const pending = core_.unsynced_keys.Find(key)) {
    return pending->place ? RunLength(key.size(), core_.log.Value(*pending->place).size()) : 0;
  }
  if (const auto entry = core_.index.Find(key, key_hash)) {
    return RunLength(key.size(), core_.log.Value(entry->place).size());
  }
  std::size_t length = 0;
  if (core_.index.FindCold(key_hash) || !core_.coverage.Knows(key)) {
    // When it cannot be read, the write finds that out, too.
    core_.tier
        ->Get(key,
              [&](const DurableTier::Entry& stored) {
                length = RunLength(key.size(), stored.value.size());
                return absl::OkStatus();
              })
        .IgnoreError();
  }
  return length;
}

Store::Impl::Room Store::Impl::MakeRun(std::size_t length, TimePoint now, std::int64_t unix_ms) {
  if (core_.segments.HasRun(length)) return Room::kNow;
  if (length > core_.segments.max_run()) return Room::kNever;
  bool worked = sweeper_.Work(kBitOfEmptying, Sweeper::Pace::kHurry, now, unix_ms);
  core_.segments.MakeRun(length, now);
  // What is in the way of the run is moved. Otherwise, as long as enough is about to come free, it is waited
  // for: what is evicted meanwhile would be evicted in vain.
  if (core_.segments.IsRunInUse()) {
    worked |= cleaner_.Work(kBitOfEmptying, now, unix_ms);
  } else if (!core_.segments.HasEnoughFor(length) || core_.segments.resting_count() == 0) {
    // Records that make way for a large one are of the sort of which there is more.
    const bool large_first = core_.segments.run_bytes() * 2 > core_.segments.live_bytes();
    worked |=
        (large_first && EvictLarge(now)) || cleaner_.Work(kBitOfEmptying, now, unix_ms) || EvictLarge(now);
  }
  if (core_.segments.HasRun(length)) return Room::kNow;
  if (worked || core_.segments.resting_count() > 0) return Room::kLater;
  core_.segments.CancelRun();
  return Room::kNever;
}

Store::Impl::Room Store::Impl::OrWhenGivenBack(Room room, std::size_t run) const {
  if (room != Room::kNever || run > core_.segments.max_run()) return room;
  for (SegmentNumber i = 0; i < core_.segments.count(); ++i) {
    const Segments::Segment& segment = core_.segments[i];
    const bool is_run = segment.use == Segments::Use::kRun && segment.run > 0;
    if (is_run && !core_.log.IsLive(core_.log.At(segment.begin))) return Room::kLater;
  }
  return Room::kNever;
}

bool Store::Impl::EvictLarge(TimePoint now) {
  if (!evictor_.is_on()) return false;
  // Some that were used since they were written are passed over, and get behind the others.
  constexpr std::size_t kMostPassedOver = 8;
  const std::size_t runs = core_.segments.CountOf(Segments::Queue::kRuns);
  std::size_t to_pass_over = std::min(kMostPassedOver, runs);
  for (std::size_t i = 0; i < 2 * runs; ++i) {
    const SegmentNumber first = core_.segments.Oldest(Segments::Queue::kRuns).value();
    const Place place = core_.log.At(core_.segments[first].begin);
    core_.segments.Renew(first);
    if (!core_.log.IsLive(place)) continue;  // reserved, or staged
    const std::string_view key = core_.log.Key(place);
    const std::uint64_t key_hash = HashKey(key);
    if (to_pass_over > 0 && core_.frequency.Of(key_hash) > 1) {
      --to_pass_over;
      continue;
    }
    const std::optional<Index::Entry> entry = core_.index.Find(key, key_hash);
    REMORA_CHECK(entry.has_value() &&
                 entry->place == place);  // a live record is the one that the index names
    if (evictor_.Evict(key_hash, *entry, now)) return true;
  }
  return false;
}

absl::Status Store::Impl::NoRun(std::size_t length) const {
  const std::size_t most = core_.segments.max_run();
  if (length > most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the value needs ", length, " MiB in one piece, and a memory of ", core_.shape.memory_size,
        " bytes has ", most, " at most; open with more memory (--memory)"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no room for a value that needs ", length, " MiB in one piece: of ", core_.shape.memory_size,
      " bytes, ", core_.segments.free_count() * kSegmentSize, " are free, and records take ",
      core_.log.bytes_used(),
      ", of which large ones are not moved; delete keys, large ones above all, or open with more memory "
      "(--memory)"));
}

}  // namespace remora
