#include "store/recovery.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/expiry.h"
#include "store/format/record.h"
#include "store/memory_plan.h"

namespace remora {
namespace {

// Of one write to the tier.
constexpr std::uint64_t kDeletions = 1024;

/// False: no room.
bool Load(const DurableTier::Entry& entry, Index& index, ValueLog& log, TimePoint now) {
  const std::uint64_t key_hash = HashKey(entry.key);
  if (!index.Reserve(key_hash, 1)) return false;
  const std::optional<Place> place = log.Append(ValueLog::Head::kWrites, entry.key, entry.value, now);
  if (!place) return false;
  log.Seal(*place, entry.header.version, entry.header.expiry_ms, key_hash,
           HashValue(entry.value.data(), entry.value.size()));
  log.MakeLive(*place);
  // The tier holds each key once, so the index cannot know it yet.
  index.Insert(key_hash, *place);
  // Nothing rests while nobody reads.
  index.Grow(2, now);
  index.Tick(now);
  return true;
}

}  // namespace

absl::StatusOr<std::uint64_t> Recover(DurableTier& tier, std::size_t memory_size, Index& index, ValueLog& log,
                                      TimePoint now, std::int64_t unix_ms) {
  std::uint64_t expired = 0;
  std::uint64_t keys = 0;
  std::uint64_t record_bytes = 0;
  bool fits = true;
  // When it does not fit, what is left is only counted, to say how much would do.
  REMORA_RETURN_IF_ERROR(tier.ForEach([&](const DurableTier::Entry& entry) {
    if (HasExpired(entry.header.expiry_ms, unix_ms)) {
      tier.Delete(entry.key);
      return ++expired % kDeletions == 0 ? tier.Write() : absl::OkStatus();
    }
    ++keys;
    record_bytes += ExtentUnits(RecordExtentCode(entry.key.size(), entry.value.size())) * kUnitSize;
    fits = fits && Load(entry, index, log, now);
    return absl::OkStatus();
  }));
  if (expired % kDeletions != 0) REMORA_RETURN_IF_ERROR(tier.Write());
  if (fits) return expired;
  return absl::OutOfRangeError(absl::StrCat("what is stored does not fit: ", keys, " keys with ",
                                            record_bytes, " bytes of records need a memory of about ",
                                            MemoryNeeded(keys, record_bytes), " bytes at least, and it has ",
                                            memory_size, "; open the store with more (--memory)"));
}

}  // namespace remora
