#include "store/read/point_read.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/base/tsan.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/region/atomic_word.h"

namespace remora {
namespace {

// Number of searches without the lock. A search fails if the key is written or its record is moved meanwhile,
// or if it takes longer than the grace period.
constexpr int kMaxSearches = 8;

// Time for which a read waits for space. Retired memory is free again sooner. Reserved memory may never be:
// this very thread may hold the reservation.
constexpr std::chrono::seconds kPatience{30};

absl::Status CheckKeySize(std::string_view key) {
  if (key.size() >= kMinKeySize && key.size() <= kMaxKeySize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("key: a key has ", kMinKeySize, " to ", kMaxKeySize, " bytes, not ", key.size()));
}

/// Returns whether a record has expired. Reads the clock only for a record with an expiry.
bool IsOver(std::uint64_t expiry_ms, const Clock& clock) {
  return expiry_ms != 0 && HasExpired(expiry_ms, clock.UnixMillis());
}

RecordHeader CopyHeader(const RecordHeader& shared) {
  // All fields but the live bit were written before the slot that led here, and never change (I4).
  const auto [version_live, sizes] = LoadHeader(shared);
  return {.version_live = version_live,
          .checksum = shared.checksum,
          .value_size = static_cast<std::uint32_t>(sizes),
          .key_size = static_cast<std::uint16_t>(sizes >> 32),
          .flags = static_cast<std::uint16_t>(sizes >> 48),
          .expiry_ms = shared.expiry_ms};
}

/// Takes the location of a record.
struct LocationTaker {
  Location* location;

  void operator()(const RecordHeader& header, const Slot& slot) const {
    *location = {EncodeSlot(slot), header.version_live >> 1};
  }
};

}  // namespace

template <typename Take>
std::optional<absl::Status> PointReader::Search(std::string_view key, std::uint64_t key_hash,
                                                const Take& take) {
  // Read before the search, which may miss keys that are loaded while it runs.
  const bool complete = !core_.is_loading();
  bool cold = false;
  for (int searches = 0; searches < kMaxSearches && !cold; ++searches) {
    const TimePoint start = core_.clock.Coarse();
    const auto in_time = [&] {  // I6
      WithinTime(&core_);
      return core_.clock.Coarse() - start <= core_.grace;
    };
    IndexView view = core_.index.view();
    KeySearch search(key, key_hash, core_.shape, &view);
    Bucket bucket;
    RecordHeader header;
    while (search.step() != KeySearch::Step::kUnsure) {
      switch (search.step()) {
        case KeySearch::Step::kReadBucket:
          core_.index.Copy(search.bucket(), &bucket);
          search.TakeBucket(bucket);
          break;
        case KeySearch::Step::kReadRecord:
          header = CopyHeader(core_.log.Header(Place::Of(search.slot())));
          search.TakeRecord(header, core_.log.Body(Place::Of(search.slot())));
          break;
        case KeySearch::Step::kFound:
          if (IsOver(header.expiry_ms, core_.clock)) {
            // The key was absent when the clock was read, if this was its live record even after that.
            const RecordHeader& shared = core_.log.Header(Place::Of(search.slot()));
            const bool live = LoadWord(shared.version_live, std::memory_order_acquire) == header.version_live;
            if (live && in_time()) return absl::NotFoundError("no such key");
            search.GiveUp();
            break;
          }
          take(header, search.slot());
          core_.NoteRead(key_hash);
          if (in_time()) return absl::OkStatus();
          search.GiveUp();
          break;
        case KeySearch::Step::kMissing:
          if (in_time() && complete) return absl::NotFoundError("no such key");
          cold = !complete;
          search.GiveUp();
          break;
        case KeySearch::Step::kCold:
          cold = true;
          search.GiveUp();
          break;
        case KeySearch::Step::kUnsure:
          break;
      }
    }
    WithinTime(&core_);
  }
  return std::nullopt;
}

template <typename Take>
absl::Status PointReader::TakeAt(const Place& place, std::uint64_t key_hash, const Take& take) {
  const RecordHeader header = CopyHeader(core_.log.Header(place));
  if (IsOver(header.expiry_ms, core_.clock)) return absl::NotFoundError("no such key");
  take(header, Slot{Fingerprint(key_hash), place.extent_code, place.offset_units});
  return absl::OkStatus();
}

template <typename Take>
absl::Status PointReader::Find(std::string_view key, const Take& take) {
  REMORA_RETURN_IF_ERROR(CheckKeySize(key));
  const std::uint64_t key_hash = HashKey(key);
  if (const std::optional<absl::Status> found = Search(key, key_hash, take)) return *found;
  // Under the lock, only this thread changes the store, so the index is exact.
  const WriterLock lock(core_.mutex);
  REMORA_ASSIGN_OR_RETURN(const Place place, promoter_.FindOrPromote(key, key_hash));
  return TakeAt(place, key_hash, take);
}

template <typename Take>
absl::Status PointReader::FindWithRetry(std::string_view key, const Take& take) {
  std::optional<TimePoint> begun;
  for (;;) {
    const absl::Status status = Find(key, take);
    if (!absl::IsAborted(status)) return status;
    const TimePoint now = core_.clock.Now();
    if (!begun) begun = now;
    if (now - *begun > kPatience) {
      return absl::ResourceExhaustedError(
          "get: no space to promote the record to memory: it is reserved for large values; try again");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool PointReader::TryFastGet(std::string_view key, std::string* value, std::uint64_t* version) {
  const std::uint64_t key_hash = HashKey(key);
  const std::uint64_t reuse_epoch = LoadWord(core_.superblock.reuse_epoch, std::memory_order_acquire);
  const Slot slot = core_.index.Peek(key_hash);
  if (!SlotNamesPlace(slot, core_.shape.memory_size)) return false;
  const auto* const at = reinterpret_cast<const std::byte*>(&core_.log.Header(Place::Of(slot)));
  const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, core_.shape.incarnation};
  LiveRecord record;
  if (!ReadLiveRecord(key, key_hash, at, place, &record) || IsOver(record.expiry_ms, core_.clock))
    return false;
  value->assign(record.value);
  if (version != nullptr) *version = record.version;
  core_.NoteRead(key_hash);
  WithinTime(&core_);
  // If `reuse_epoch` is unchanged, nothing else was written there before this fence. So the verified and
  // copied bytes are the record's (layout.h, I6).
  std::atomic_thread_fence(std::memory_order_acquire);
  return LoadWord(core_.superblock.reuse_epoch, std::memory_order_relaxed) == reuse_epoch;
}

absl::Status PointReader::Get(std::string_view key, std::string* value, std::uint64_t* version) {
  if (TryFastGet(key, value, version)) return absl::OkStatus();
  return FindWithRetry(key, [&](const RecordHeader& header, const Slot& slot) {
    // Sizes come from the verified copy of the header. If the place was reused meanwhile, the shared header
    // may have any content.
    value->assign(reinterpret_cast<const char*>(core_.log.Body(Place::Of(slot))) + header.key_size,
                  header.value_size);
    if (version != nullptr) *version = header.version_live >> 1;
  });
}

absl::Status PointReader::Visit(std::string_view key, absl::FunctionRef<void(std::string_view)> show,
                                std::uint64_t* version) {
  REMORA_RETURN_IF_ERROR(CheckKeySize(key));
  bool is_shown = false;  // in place, by a search that has failed since
  bool is_copied = false;
  std::string copy;
  const auto take = [&](const RecordHeader& header, const Slot& slot) {
    const auto* const body = reinterpret_cast<const char*>(core_.log.Body(Place::Of(slot)));
    const std::string_view value(body + header.key_size, header.value_size);
    if (version != nullptr) *version = header.version_live >> 1;
    if (is_shown) {
      copy = value;
      is_copied = true;
    } else {
      show(value);
      is_shown = true;
    }
  };
  const std::optional<absl::Status> found = Search(key, HashKey(key), take);
  if (found && (!found->ok() || !is_copied)) return *found;
  // Not under the lock: `show` may use the store.
  if (!found) REMORA_RETURN_IF_ERROR(Get(key, &copy, version));
  show(copy);
  return absl::OkStatus();
}

absl::Status PointReader::Exists(std::string_view key) {
  return FindWithRetry(key, [](const RecordHeader&, const Slot&) {});
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> PointReader::Ttl(std::string_view key) {
  std::uint64_t expiry_ms = 0;
  REMORA_RETURN_IF_ERROR(
      FindWithRetry(key, [&](const RecordHeader& header, const Slot&) { expiry_ms = header.expiry_ms; }));
  if (expiry_ms == 0) return std::nullopt;
  const std::int64_t left = static_cast<std::int64_t>(expiry_ms) - core_.clock.UnixMillis();
  return std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
}

absl::StatusOr<Location> PointReader::Locate(std::string_view key) {
  core_.metrics.Add(Metric::kLocates, 1);
  REMORA_RETURN_IF_ERROR(core_.slots.Check("get", key, HashKey(key)));
  Location location;
  REMORA_RETURN_IF_ERROR(Find(key, LocationTaker{&location}));
  return location;
}

// --- Reads without the lock (cold_read.h) ---------------------------------------------------------------

absl::StatusOr<std::optional<Location>> PointReader::BeginLocate(std::string_view key, ColdRead* read) {
  core_.metrics.Add(Metric::kLocates, 1);
  REMORA_RETURN_IF_ERROR(CheckKeySize(key));
  const std::uint64_t key_hash = HashKey(key);
  REMORA_RETURN_IF_ERROR(core_.slots.Check("get", key, key_hash));
  Location location;
  if (const std::optional<absl::Status> found = Search(key, key_hash, LocationTaker{&location})) {
    REMORA_RETURN_IF_ERROR(*found);
    return location;
  }
  const WriterLock lock(core_.mutex);
  REMORA_ASSIGN_OR_RETURN(const std::optional<Place> place, promoter_.FindOrBegin(key, key_hash, read));
  if (!place) return std::nullopt;
  REMORA_RETURN_IF_ERROR(TakeAt(*place, key_hash, LocationTaker{&location}));
  return location;
}

void PointReader::ReadCold(ColdRead* read) const {
  const TimePoint begin = core_.clock.Now();
  read->status = core_.tier->Get(read->key, [&](const DurableTier::Entry& entry) {
    read->Take(entry);
    return absl::OkStatus();
  });
  read->took = core_.clock.Now() - begin;
}

bool PointReader::TryReadCold(ColdRead* read) const {
  std::optional<absl::Status> status = core_.tier->GetCached(read->key, [&](const DurableTier::Entry& entry) {
    read->Take(entry);
    return absl::OkStatus();
  });
  if (!status) return false;
  read->status = *std::move(status);
  return true;
}

absl::StatusOr<std::optional<Location>> PointReader::FinishLocate(ColdRead* read, bool may_stay) {
  Location location;
  const WriterLock lock(core_.mutex);
  REMORA_RETURN_IF_ERROR(core_.slots.Check("get", read->key, read->key_hash));
  REMORA_ASSIGN_OR_RETURN(const Promoter::Finished finished, promoter_.FindOrFinish(read, may_stay));
  if (finished.stays) return Location{.version = read->header.version};
  if (!finished.place) return std::nullopt;
  REMORA_RETURN_IF_ERROR(TakeAt(*finished.place, read->key_hash, LocationTaker{&location}));
  return location;
}

}  // namespace remora
