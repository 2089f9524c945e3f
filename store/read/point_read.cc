// GET in place: search the index and the log without a lock, verify, copy the value out.
//
// Nearly all are done by one look: at one cache line of the key's bucket, where its slot is most likely, and
// at the record that this names. A live one is the key's wherever it was found.
//
// The others make the search that a remote reader makes, with loads instead of READs. In one process no word
// is torn, but the window between an old record's end and the new slot is there all the same, and the checks
// are the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/base/tsan.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/region/atomic_word.h"

namespace remora {
namespace {

// Searches without the lock. Each but the last was disturbed by a write to this very key.
constexpr int kMaxSearches = 8;

// For memory to rest takes less; but what is reserved may never be given back, as when this very thread did.
constexpr std::chrono::seconds kPatience{30};

absl::Status CheckKeySize(std::string_view key) {
  if (key.size() >= kMinKeySize && key.size() <= kMaxKeySize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a key has ", kMinKeySize, " to ", kMaxKeySize, " bytes, not ", key.size()));
}

/// Looks at the clock only for a record that expires at all.
bool IsOver(std::uint64_t expiry_ms, const Clock& clock) {
  return expiry_ms != 0 && HasExpired(expiry_ms, clock.UnixMillis());
}

RecordHeader CopyHeader(const RecordHeader& shared) {
  RecordHeader copy;
  // Acquire: the value is read after it, so a live bit seen here was set when the reading of the value began.
  // All that follows was written before the slot that led here, and never changes (I4).
  copy.version_live = LoadWord(shared.version_live, std::memory_order_acquire);
  copy.checksum = shared.checksum;
  // By which memory is read: loaded once, whatever the compiler would like.
  copy.value_size = __atomic_load_n(&shared.value_size, __ATOMIC_RELAXED);
  copy.key_size = shared.key_size;
  copy.flags = shared.flags;
  copy.expiry_ms = shared.expiry_ms;
  return copy;
}

}  // namespace

template <typename Take>
absl::Status Store::Impl::Find(std::string_view key, const Take& take) {
  REMORA_RETURN_IF_ERROR(CheckKeySize(key));
  const std::uint64_t key_hash = HashKey(key);
  // Asked before the search: what is loaded behind its back, it may miss.
  const bool complete = !core_.is_loading();
  bool cold = false;
  for (int searches = 0; searches < kMaxSearches && !cold; ++searches) {
    const TimePoint start = core_.clock.Coarse();
    const auto in_time = [&] {  // I6
      WithinTime(this);
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
            // Absent when the clock was looked at, if it was the key's live record even after that.
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
    WithinTime(this);
  }
  // While we hold this nothing changes but by us, so what the index says is so.
  const std::lock_guard lock(core_.mutex);
  REMORA_ASSIGN_OR_RETURN(const Place place, FindOrFetch(key, key_hash));
  const RecordHeader header = CopyHeader(core_.log.Header(place));
  if (IsOver(header.expiry_ms, core_.clock)) return absl::NotFoundError("no such key");
  take(header, Slot{Fingerprint(key_hash), place.extent_code, place.offset_units});
  return absl::OkStatus();
}

template <typename Take>
absl::Status Store::Impl::FindInTheEnd(std::string_view key, const Take& take) {
  std::optional<TimePoint> begun;
  for (;;) {
    const absl::Status status = Find(key, take);
    if (!absl::IsAborted(status)) return status;
    const TimePoint now = core_.clock.Now();
    if (!begun) begun = now;
    if (now - *begun > kPatience) {
      return absl::ResourceExhaustedError("no room to bring the record back to memory: it is reserved");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Store::Impl::GetAtOnce(std::string_view key, std::string* value, std::uint64_t* version) {
  const std::uint64_t key_hash = HashKey(key);
  const std::uint64_t reuses = LoadWord(core_.superblock.reuses, std::memory_order_acquire);
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
  WithinTime(this);
  // Before this nothing else was written there: what was verified and copied is the record (layout.h, I6).
  std::atomic_thread_fence(std::memory_order_acquire);
  return LoadWord(core_.superblock.reuses, std::memory_order_relaxed) == reuses;
}

absl::Status Store::Impl::Get(std::string_view key, std::string* value, std::uint64_t* version) {
  if (GetAtOnce(key, value, version)) return absl::OkStatus();
  return FindInTheEnd(key, [&](const RecordHeader& header, const Slot& slot) {
    // By the verified copy of the header: should the place be used anew by now, the shared one may say
    // anything.
    value->assign(reinterpret_cast<const char*>(core_.log.Body(Place::Of(slot))) + header.key_size,
                  header.value_size);
    if (version != nullptr) *version = header.version_live >> 1;
  });
}

absl::Status Store::Impl::Exists(std::string_view key) {
  return FindInTheEnd(key, [](const RecordHeader&, const Slot&) {});
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> Store::Impl::Ttl(std::string_view key) {
  std::uint64_t expiry_ms = 0;
  REMORA_RETURN_IF_ERROR(
      FindInTheEnd(key, [&](const RecordHeader& header, const Slot&) { expiry_ms = header.expiry_ms; }));
  if (expiry_ms == 0) return std::nullopt;
  const std::int64_t left = static_cast<std::int64_t>(expiry_ms) - core_.clock.UnixMillis();
  return std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
}

absl::StatusOr<Location> Store::Impl::Locate(std::string_view key) {
  core_.metrics.Add(Counter::kLocates, 1);
  Location location;
  REMORA_RETURN_IF_ERROR(Find(key, [&](const RecordHeader& header, const Slot& slot) {
    location = {EncodeSlot(slot), header.version_live >> 1};
  }));
  return location;
}

}  // namespace remora
